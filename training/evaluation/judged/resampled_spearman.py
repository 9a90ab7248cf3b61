"""Spearman's correlation over items drawn with replacement, quick enough for thousands of draws."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["resampled_spearman"]


def resampled_spearman(first: ArrayLike, second: ArrayLike) -> Callable[[NDArray[np.int64]], float]:
    """Give a function from the numbers of drawn pairs to Spearman's rho of them, times 100.

    The values are sorted once; a draw is ranked by counting, equal values sharing the average of their ranks.
    It gives NaN where one side of a draw is the same throughout.
    """
    sides = []
    for values in (first, second):
        distinct, place = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)
        sides.append((len(distinct), place))

    def spearman(drawn: NDArray[np.int64]) -> float:
        x, y = (_centred_ranks(place[drawn], size) for size, place in sides)
        scale = float(np.sqrt((x @ x) * (y @ y)))
        return 100 * float(x @ y) / scale if scale else float("nan")

    return spearman


def _centred_ranks(places: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Ranks less their mean, which is (items + 1) / 2 whatever the ties."""
    counts = np.bincount(places, minlength=size)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(ranks[places] - (len(places) + 1) / 2, dtype=np.float64)
