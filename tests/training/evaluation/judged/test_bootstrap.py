from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.bootstrap import (
    Interval,
    bootstrap_difference,
    bootstrap_interval,
    interval_of_mean,
)
from nearsay.training.evaluation.judged.judged_set import EvaluationKind, Outcome, mean_of_drawn
from nearsay.training.evaluation.judged.pairs import resampled_spearman

SCORED = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=2, max_size=40)


def outcome(
    each: NDArray[np.float64],
    *,
    name: str = "set",
    resampled: Callable[[NDArray[np.int64]], float] | None = None,
) -> Outcome:
    return Outcome(
        name=name,
        kind=EvaluationKind.TRIPLETS,
        metrics={"accuracy": float(each.mean())},
        main="accuracy",
        items=len(each),
        truncated=0,
        seconds=0.0,
        resampled=resampled or mean_of_drawn(each),
    )


def test_the_interval_of_a_mean_is_that_of_scipy() -> None:
    each = np.random.default_rng(1).exponential(size=200)
    ours = bootstrap_interval(outcome(each), draws=8000, seed=3)
    theirs = stats.bootstrap(
        (each,), np.mean, n_resamples=8000, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    spread = each.std() / 200**0.5  # two runs of 8000 draws lie within a tenth of it
    assert ours.low == pytest.approx(theirs.low, abs=0.1 * spread)
    assert ours.high == pytest.approx(theirs.high, abs=0.1 * spread)
    assert interval_of_mean(each, draws=8000, seed=3) == ours


def test_the_same_seed_gives_the_same_interval_and_a_higher_level_a_wider_one() -> None:
    found = outcome(np.arange(50.0))
    assert bootstrap_interval(found, seed=4) == bootstrap_interval(found, seed=4)
    narrow, wide = (bootstrap_interval(found, level=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_difference_is_paired_so_that_what_the_items_share_is_taken_out() -> None:
    random = np.random.default_rng(0)
    hard = random.normal(size=300)  # how hard each item is, for both
    before = hard
    after = hard + 0.1 + 0.01 * random.normal(size=300)
    difference = bootstrap_difference(outcome(before), outcome(after))
    assert difference.low == pytest.approx(0.1, abs=0.01)
    assert difference.high == pytest.approx(0.1, abs=0.01)
    alone = bootstrap_interval(outcome(before))
    assert difference.high - difference.low < 0.1 * (alone.high - alone.low)
    assert bootstrap_difference(outcome(after), outcome(before)).high < 0
    assert bootstrap_difference(outcome(after), outcome(after)) == Interval(0, 0)


def test_draws_without_a_figure_are_left_out() -> None:
    def only_of_item_zero(drawn: NDArray[np.int64]) -> float:
        return 7.0 if 0 in drawn else float("nan")

    found = bootstrap_interval(outcome(np.zeros(3), resampled=only_of_item_zero))
    assert found == Interval(7, 7)
    with pytest.raises(BadInputError, match=r"not defined .*\b1000 draws"):
        bootstrap_interval(outcome(np.zeros(3), resampled=lambda _: float("nan")))


@pytest.mark.parametrize(("draws", "level"), [(0, 0.95), (10, 1.0), (10, 0.0)])
def test_no_draws_and_impossible_levels_are_refused(draws: int, level: float) -> None:
    with pytest.raises(BadInputError, match=r"level .*\b0 and 1"):
        bootstrap_interval(outcome(np.zeros(3)), draws=draws, level=level)


def test_outcomes_of_two_sets_are_not_compared() -> None:
    with pytest.raises(BadInputError, match="are not the same set"):
        bootstrap_difference(outcome(np.zeros(3)), outcome(np.zeros(3), name="other"))


@given(SCORED, st.integers(0, 1000))
def test_spearman_of_a_draw_is_that_of_scipy(items: list[tuple[int, int]], seed: int) -> None:
    first, second = (np.array(side) for side in zip(*items, strict=True))
    drawn = np.random.default_rng(seed).integers(len(items), size=len(items))
    found = resampled_spearman(first, second)(drawn)
    if np.ptp(first[drawn]) and np.ptp(second[drawn]):
        expected = 100 * stats.spearmanr(first[drawn], second[drawn]).statistic
        assert found == pytest.approx(expected, abs=1e-9)
    else:
        assert np.isnan(found)
