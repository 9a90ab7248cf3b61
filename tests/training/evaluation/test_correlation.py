import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.sts import pearson_correlation, spearman_correlation

NUMBERS = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=40)


def test_spearman_worked_by_hand_with_a_tie() -> None:
    # Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, variances 4.5 and 5.
    assert spearman_correlation([1, 2, 2, 9], [10, 30, 20, 40]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_pearson_worked_by_hand() -> None:
    # Deviations -1, 0, 1 and -1, -1, 2: covariance 3, variances 2 and 6.
    assert pearson_correlation([1, 2, 3], [0, 0, 3]) == pytest.approx(3 / 12**0.5)


def test_a_reversed_order_is_minus_one() -> None:
    assert spearman_correlation([1, 2, 3, 4], [9, 5, 2, -70]) == pytest.approx(-1)


@given(NUMBERS)
def test_both_agree_with_their_oracles(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        with pytest.raises(BadInputError, match="the same throughout"):
            spearman_correlation(x, y)
        return
    assert spearman_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic)
    assert pearson_correlation(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1])


@pytest.mark.parametrize(("x", "y"), [([1], [2]), ([], []), ([1, 2], [1, 2, 3]), ([[1, 2]], [[1, 2]])])
def test_lists_that_do_not_match_are_refused(x: list[int], y: list[int]) -> None:
    with pytest.raises(BadInputError, match="two lists of one length"):
        pearson_correlation(x, y)
