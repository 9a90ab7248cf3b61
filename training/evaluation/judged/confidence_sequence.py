"""A mean's interval that stays valid however often one looks at it and whenever one stops."""

from dataclasses import dataclass, field
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.bootstrap import Interval

_POINTS: Final = 801  # means that are tested
_STAKE: Final = 0.8  # share of the wealth that a bet may lose
_PRIOR_VARIANCE: Final = 0.25  # of a figure, relative to the square of half its range, before any was seen
_SPARSE: Final = 0.95, 0.05  # both, for figures of which most are expected in the middle of their range


@dataclass(slots=True)
class ConfidenceSequence:
    """Tests every mean by betting against it, one observation after the other.

    low, high: bounds of the mean
    level:     with that chance the interval covers the mean at every moment at once

    A gambler who bets on the next observation in a fair game gains nothing on average, and becomes 1 / (1 -
    level) times as rich at any moment with a chance of at most 1 - level (Ville's inequality). So whatever
    mean makes the game so profitable is not the mean. Stakes are those of "aGRAPA", from an expected mean and
    variance that may use everything that was observed before.

    Waudby-Smith & Ramdas 2024, sections 4 and B.3, https://doi.org/10.1093/jrsssb/qkad009
    """

    low: float
    high: float
    level: float = 0.95
    stake: float = _STAKE  # share of the wealth that a bet may lose
    means: NDArray[np.float64] = field(init=False)  # (points,)
    wealth: NDArray[np.float64] = field(init=False)  # its logarithm, of each of the means
    richest: NDArray[np.float64] = field(init=False)  # the highest that it ever was
    least: float = field(init=False)  # between these all observations' bounds leave the mean
    most: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.low < self.high or not 0 < self.level < 1 or not 0 < self.stake < 1:
            raise BadInputError(
                f"a mean between {self.low:g} and {self.high:g} at the level {self.level:g} is asked for. "
                "Give bounds that differ and a level between 0 and 1"
            )
        self.means = np.linspace(self.low, self.high, _POINTS)
        self.wealth = np.zeros(_POINTS)
        self.richest = np.zeros(_POINTS)
        self.least, self.most = self.low, self.high

    def observe(self, value: float, *, low: float, high: float, mean: float, variance: float) -> None:
        """Take one observation whose expectation, given what was observed before, is the mean.

        low, high:      between which it was bound to lie; a mean outside is none from now on
        mean, variance: expected before it was seen; whatever they are, the interval is valid

        ValueError for a value outside its bounds.
        """
        room = 1e-9 * (1.0 + abs(low) + abs(high))
        self.least, self.most = max(self.least, low - room), min(self.most, high + room)
        if not low - room <= value <= high + room:
            raise ValueError(f"{value} is not between {low} and {high}")
        above, below = self.means - low, high - self.means
        possible = (above > -room) & (below > -room)
        gap = mean - self.means
        stake = gap / (max(variance, 1e-12) + gap * gap)
        stake = np.clip(stake, -self.stake / np.maximum(below, 1e-12), self.stake / np.maximum(above, 1e-12))
        gained = np.log1p(np.maximum(stake * (value - self.means), -self.stake))
        self.wealth = np.where(possible, self.wealth + gained, np.inf)
        np.maximum(self.richest, self.wealth, out=self.richest)

    def interval(self) -> Interval:
        """The means that no bet has ruled out, a step of the grid wider on either side."""
        left = np.flatnonzero(self.richest < log(1 / (1 - self.level)))
        step = (self.high - self.low) / (_POINTS - 1)
        if np.isinf(self.richest).all():  # what the bounds leave lies between two tested means
            return Interval(min(self.least, self.most), max(self.least, self.most))
        if not left.size:  # between two tested means, the poorest of which is nearest to it
            left = np.array([int(self.richest.argmin())])
        low, high = float(self.means[left[0]]) - step, float(self.means[left[-1]]) + step
        return Interval(max(self.low, low), min(self.high, high))

    def log_wealth_against(self, mean: float) -> float:
        """The logarithm of the wealth won by betting against a mean, of those tested the nearest."""
        return float(self.wealth[int(np.abs(self.means - mean).argmin())])


def sequence_of_mean(
    each: NDArray[np.float64],
    *,
    low: float = -1.0,
    high: float = 1.0,
    level: float = 0.95,
    sparse: bool = False,
) -> Interval:
    """The interval of the mean of figures that come one after the other, (items,), in their order.

    low, high: between which every figure lies
    sparse:    most are expected in the middle between the two, as differences of which most are 0: the
               interval is valid whether they are or not, and narrower where they are

    With the figures seen so far it is the interval of this moment, however often one looked before and
    whatever made one stop. It is wider than a bootstrap's, which is valid for one look at a number of items
    fixed beforehand.
    """
    stake, variance = _SPARSE if sparse else (_STAKE, _PRIOR_VARIANCE)
    sequence = ConfidenceSequence(low, high, level, stake)
    prior = variance * ((high - low) / 2) ** 2
    total, squares = 0.0, prior
    for seen, value in enumerate(each.tolist()):
        mean = (total + (low + high) / 2) / (seen + 1)
        sequence.observe(value, low=low, high=high, mean=mean, variance=squares / (seen + 1))
        total += value
        squares += (value - (total + (low + high) / 2) / (seen + 2)) ** 2
    return sequence.interval()
