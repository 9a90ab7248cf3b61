"""The trend of a share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nearsay.indexer.exploring.through_time import trend


def test_the_trend_worked_by_hand() -> None:
    # 1 of 4, 2 of 4, 3 of 4: the share is 1/2, a quarter more each period.
    found = trend(np.array([1, 2, 3]), np.array([4, 4, 4]))
    # 2 / √(1/4 · 8)
    assert found.statistic == pytest.approx(2**0.5)
    assert (found.first, found.last) == (pytest.approx(0.25), pytest.approx(0.75))
    assert not found.grows


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=8))
def test_it_is_the_correlation_of_belonging_with_time(periods: list[tuple[int, int]]) -> None:
    inside, outside = np.array(periods).T
    belongs = np.repeat([1, 0], [inside.sum(), outside.sum()])
    times = np.concatenate([np.repeat(np.arange(len(periods)), counts) for counts in (inside, outside)])
    found = trend(inside, inside + outside)
    if np.unique(belongs).size < 2 or np.unique(times).size < 2:
        assert found.statistic == 0.0
        return
    line = stats.linregress(times, belongs)
    assert found.statistic == pytest.approx(line.rvalue * belongs.size**0.5, abs=1e-9)
    ends = np.clip(line.intercept + line.slope * np.array([0, len(periods) - 1]), 0, 1)
    assert [found.first, found.last] == pytest.approx(ends, abs=1e-9)


def test_many_that_rise_are_called_growing_and_the_other_way_shrinking() -> None:
    totals = np.array([1000, 1000, 1000, 1000])
    assert trend(np.array([100, 120, 150, 200]), totals).grows
    assert trend(np.array([200, 150, 120, 100]), totals).shrinks
    steady = trend(np.array([100, 103, 98, 101]), totals)
    assert not steady.grows
    assert not steady.shrinks


@pytest.mark.parametrize("totals", [[0, 0], [5, 0], [0]])
def test_without_two_periods_that_hold_something_there_is_no_trend(totals: list[int]) -> None:
    found = trend(np.array([0] * len(totals)), np.array(totals))
    assert (found.statistic, found.first, found.last) == (0.0, 0.0, 0.0)
