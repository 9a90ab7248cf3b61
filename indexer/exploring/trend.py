"""Whether a share grows or shrinks from period to period, and by how much."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["SURE", "Trend", "trend"]

SURE: Final = 3.29  # of the statistic: by chance beyond it, either way, once in a thousand times


@dataclass(frozen=True, slots=True)
class Trend:
    """How a share changes over the periods."""

    statistic: float  # of Cochran and Armitage: 0 = no trend, normal with deviation 1 by chance
    first: float  # the share that a straight line has in the first period, 0 to 1
    last: float  # in the last

    @property
    def grows(self) -> bool:
        """Whether more than chance makes it grow."""
        return self.statistic >= SURE

    @property
    def shrinks(self) -> bool:
        """Whether more than chance makes it shrink."""
        return self.statistic <= -SURE

    def to_json(self) -> dict[str, float | bool]:
        """As a JSON object, rounded."""
        return {
            "statistic": round(self.statistic, 3),
            "first_share": round(self.first, 6),
            "last_share": round(self.last, 6),
            "grows": self.grows,
            "shrinks": self.shrinks,
        }


def trend(counts: NDArray[np.int64], totals: NDArray[np.int64]) -> Trend:
    """The trend of counts among totals, one of each a period, evenly spaced; empty periods have no say.

    Armitage 1955, "Tests for linear trends in proportions and frequencies": the square root of the number of
    things, times the correlation of belonging with time. The line is fitted by least squares, each period
    weighted by its total. Without two periods that hold something there is no trend.
    """
    times = np.arange(totals.size, dtype=np.float64)
    everything = float(totals.sum())
    share = float(counts.sum()) / everything if everything else 0.0
    middle = float((totals * times).sum()) / everything if everything else 0.0
    spread = float((totals * (times - middle) ** 2).sum())
    if spread == 0.0:
        return Trend(0.0, share, share)
    together = float((counts * (times - middle)).sum())
    slope = together / spread
    deviation = (share * (1.0 - share) * spread) ** 0.5
    ends = np.clip(share + slope * (np.array([0.0, times[-1]]) - middle), 0.0, 1.0)
    return Trend(together / deviation if deviation else 0.0, float(ends[0]), float(ends[1]))
