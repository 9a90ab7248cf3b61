"""An interval that holds however often one looks."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.confidence_sequence import ConfidenceSequence, sequence_of_mean


def test_one_bet_worked_by_hand() -> None:
    sequence = ConfidenceSequence(0.0, 1.0)
    sequence.observe(1.0, low=0.0, high=1.0, mean=0.5, variance=0.25)
    # Against a mean of .25: stake .25 / (.25 + .25²) = .8, and the observation is .75 above it.
    assert sequence.log_wealth_against(0.25) == pytest.approx(math.log(1 + 0.8 * 0.75))
    # Against .75: stake -.8, and the observation is .25 above it.
    assert sequence.log_wealth_against(0.75) == pytest.approx(math.log(1 - 0.8 * 0.25))
    # Against .5 there is nothing to win.
    assert sequence.log_wealth_against(0.5) == 0.0


def test_a_stake_loses_at_most_four_fifths() -> None:
    sequence = ConfidenceSequence(0.0, 1.0)
    sequence.observe(0.0, low=0.0, high=1.0, mean=1.0, variance=0.0)
    assert sequence.wealth[1:-1].min() >= math.log(0.2) - 1e-9


def test_bounds_between_two_tested_means_are_the_interval() -> None:
    sequence = ConfidenceSequence(-1.0, 1.0)  # which tests 0 and .0025
    sequence.observe(0.0, low=-0.5, high=0.0015, mean=0.0, variance=0.1)
    sequence.observe(0.0015, low=0.001, high=0.5, mean=0.0, variance=0.1)
    interval = sequence.interval()
    assert (interval.low, interval.high) == pytest.approx((0.001, 0.0015), abs=1e-8)


def test_the_interval_is_wider_than_that_of_one_look_and_narrows_around_the_mean() -> None:
    each = np.random.default_rng(3).binomial(1, 0.3, 400).astype(float)
    widths = []
    for count in (25, 100, 400):
        found = sequence_of_mean(each[:count], low=0.0, high=1.0)
        once = binomtest(int(each[:count].sum()), count).proportion_ci(0.95, method="exact")
        assert found.low <= once.low + 1 / 400
        assert found.high >= once.high - 1 / 400
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.2


@pytest.mark.long
@pytest.mark.parametrize("unchanged", [0.0, 0.8])
def test_the_interval_is_right_however_often_one_looks(unchanged: float) -> None:
    """After each of 150 figures: as often wrong as is allowed, unlike an interval for a single look."""
    wrong = naive = 0
    for draw in range(200):
        random = np.random.default_rng(draw)
        each = random.beta(2, 3, 150) * 2 - 1 + 0.2  # mean 0
        each *= random.random(150) >= unchanged
        sequence = ConfidenceSequence(-1.0, 1.2)
        missed = fixed = False
        for seen, value in enumerate(each.tolist()):
            before = each[:seen]
            mean, variance = (before.sum()) / (seen + 1), (0.25 + (before**2).sum()) / (seen + 1)
            sequence.observe(value, low=-1.0, high=1.2, mean=float(mean), variance=float(variance))
            interval = sequence.interval()
            missed |= not interval.low <= 0 <= interval.high
            if seen >= 9:
                error = 1.96 * each[: seen + 1].std(ddof=1) / np.sqrt(seen + 1)
                fixed |= abs(each[: seen + 1].mean()) > error
        wrong += missed
        naive += fixed
    assert wrong <= 14  # 5 % of 200 are 10; binomial: 14 or fewer in 92 % of the cases at worst
    assert naive > 40


def test_figures_that_are_all_zero_need_many_before_a_loss_is_ruled_out() -> None:
    assert sequence_of_mean(np.zeros(20)).low < -0.05
    assert sequence_of_mean(np.zeros(200)).low > -0.05


@pytest.mark.parametrize(("low", "high", "level"), [(1.0, 1.0, 0.95), (0.0, 1.0, 1.0), (0.0, 1.0, 0.0)])
def test_bounds_and_levels_that_make_no_sense_are_refused(low: float, high: float, level: float) -> None:
    with pytest.raises(BadInputError, match=r"bounds .*level"):
        ConfidenceSequence(low, high, level)


def test_a_value_outside_its_bounds_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="not between"):
        ConfidenceSequence(0.0, 1.0).observe(1.5, low=0.0, high=1.0, mean=0.5, variance=0.1)
