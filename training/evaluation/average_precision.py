"""Average precision: how far up in a ranking the relevant ones are."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.errors import BadInputError

__all__ = ["average_precision", "resampled_average_precision"]


def average_precision(relevant: ArrayLike, scores: ArrayLike) -> float:
    """Give average precision, 0 to 1: the area under precision as recall grows; its mean over queries is MAP.

    AP = sum over distinct scores, highest first, of (recall there - recall before) · precision there

    relevant: (items,) 0 or 1; scores: (items,) higher should be relevant; items of equal score come together
    Raises BadInputError when none is relevant, or the two are of unlike length. As scikit-learn has it, not
    interpolated. Manning, Raghavan & Schütze 2008, section 8.4, https://nlp.stanford.edu/IR-book/
    """
    flags, values = np.asarray(relevant, dtype=np.bool_), np.asarray(scores, dtype=np.float64)
    if flags.shape != values.shape or flags.ndim != 1 or not flags.any():
        raise BadInputError(
            f"average precision needs one score for each item and at least one that is relevant; there are "
            f"{values.size} scores and {int(flags.sum())} relevant of {flags.size}. Give some of each"
        )
    return resampled_average_precision(flags, values)(np.arange(len(flags)))


def resampled_average_precision(
    relevant: NDArray[np.bool_], scores: NDArray[np.float64]
) -> Callable[[NDArray[np.int64]], float]:
    """Give a function from the numbers of drawn items to their average precision, NaN where none is relevant.

    The items are sorted once; a draw counts how often each was taken.
    """
    order = np.argsort(-scores, kind="stable")
    flags, values = relevant[order].astype(np.int64), scores[order]
    ends = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)  # the last item of each distinct score

    def precision(drawn: NDArray[np.int64]) -> float:
        counts = np.bincount(drawn, minlength=len(order))[order]
        found = np.cumsum(counts * flags)[ends]
        taken = np.cumsum(counts)[ends]
        if not found[-1]:
            return float("nan")
        gained = np.diff(found, prepend=0)
        return float((gained * found / np.maximum(taken, 1)).sum() / found[-1])

    return precision
