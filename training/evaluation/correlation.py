"""How well two lists of numbers agree."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from nearsay.data.errors import BadInputError

__all__ = ["pearson_correlation", "spearman_correlation"]


def pearson_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Give Pearson's r, -1 to 1: how near the two are to a straight line.

    r = covariance / (standard deviation * standard deviation)

    Raises BadInputError for lists of unlike length, shorter than 2, or with one value throughout, for which
    it is not defined. Pearson 1895, https://doi.org/10.1098/rspl.1895.0041
    """
    x, y = _checked(first, second)
    return float(stats.pearsonr(x, y).statistic)


def spearman_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Give Spearman's rho, -1 to 1: how well the two agree in order.

    rho = Pearson's r of the ranks; equal values share the average of their ranks

    Raises BadInputError as `pearson_correlation` does. Spearman 1904, https://doi.org/10.2307/1412159
    """
    x, y = _checked(first, second)
    return float(stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic)


def _checked(first: ArrayLike, second: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise BadInputError(
            f"a correlation needs two lists of one length, 2 or more; these are {x.shape} and {y.shape}. "
            "Give more pairs"
        )
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        raise BadInputError(
            f"a correlation of {len(x)} pairs is not defined where one side is the same throughout. "
            "Give pairs of different scores"
        )
    return x, y
