import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.rank_metrics import average_precision, resampled_average_precision

RANKED = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=40).filter(
    lambda items: any(relevant for relevant, _ in items)
)


def test_it_is_worked_by_hand() -> None:
    # Relevant at ranks 1 and 3: (1 / 1 + 2 / 3) / 2.
    assert average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]) == pytest.approx((1 + 2 / 3) / 2)


def test_equal_scores_come_together_so_that_their_order_wins_nothing() -> None:
    assert average_precision([1, 0, 0, 0], [0.5] * 4) == average_precision([0, 0, 0, 1], [0.5] * 4) == 0.25


def test_a_better_ranking_is_worth_more() -> None:
    assert average_precision([1, 0], [2, 1]) == 1
    assert average_precision([1, 0], [1, 2]) == 0.5


@given(RANKED)
def test_it_agrees_with_scikit_learn(items: list[tuple[bool, int]]) -> None:
    relevant, scores = map(list, zip(*items, strict=True))
    assert average_precision(relevant, scores) == pytest.approx(average_precision_score(relevant, scores))


@given(RANKED, st.integers(0, 1000))
def test_a_draw_counts_as_if_its_items_were_given(items: list[tuple[bool, int]], seed: int) -> None:
    relevant, scores = (np.array(side) for side in zip(*items, strict=True))
    drawn = np.random.default_rng(seed).integers(len(items), size=len(items))
    found = resampled_average_precision(relevant, scores.astype(float))(drawn)
    if relevant[drawn].any():
        assert found == pytest.approx(average_precision_score(relevant[drawn], scores[drawn]))
    else:
        assert np.isnan(found)


@pytest.mark.parametrize(("relevant", "scores"), [([0, 0], [1, 2]), ([], []), ([1, 0], [1])])
def test_nothing_relevant_or_unlike_lengths_are_refused(relevant: list[int], scores: list[int]) -> None:
    with pytest.raises(BadInputError, match="Give some of each"):
        average_precision(relevant, scores)
