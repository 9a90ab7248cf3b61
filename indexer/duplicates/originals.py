"""Whether a document is a near-duplicate of one of some others, decided by float32 sums."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.duplicates.arrangement import Arrangement

__all__ = ["document_cosine", "nearest_original"]

_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
_NEARLY_ONE = np.float32(1.0 - 1e-5)
_ROWS = 2048  # passages of each document multiplied at a time


def nearest_original(
    arrangement: Arrangement, rank: int, others: NDArray[np.int64], threshold: float
) -> tuple[int, float] | None:
    """The rank of the nearest of the others that the document is a near-duplicate of, and their cosine.

    others: (m,) ranks, rising; of those that are equally near the first is taken.
    """
    best: tuple[int, float] | None = None
    if not others.size:
        return best
    mine = arrangement.vectors(rank)
    for other in others.tolist():
        cosine = document_cosine(mine, arrangement.vectors(other), threshold)
        if cosine is not None and (best is None or cosine > best[1]):
            best = other, cosine
    return best


def document_cosine(one: NDArray[np.float32], other: NDArray[np.float32], threshold: float) -> float | None:
    """Mean over the passages of both of the cosine of their nearest there; None where one is below.

    one: (m, d), other: (k, d), of unit length. 1 for the same vectors only.
    """
    across = np.full(len(other), -2.0, dtype=np.float32)
    along = np.full(len(one), -2.0, dtype=np.float32)
    for begin in range(0, len(one), _ROWS):
        some = slice(begin, begin + _ROWS)
        for start in range(0, len(other), _ROWS):
            part = slice(start, start + _ROWS)
            cosines = _cosines(one[some], other[part])
            along[some] = np.maximum(along[some], cosines.max(axis=1))
            across[part] = np.maximum(across[part], cosines.max(axis=0))
        if along[some].min() < np.float32(threshold):
            return None
    if across.min() < np.float32(threshold):
        return None
    return float(np.concatenate([along, across]).mean(dtype=np.float64))


def _cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """By numpy's einsum, whose sum for two vectors depends on nothing but them."""
    cosines: NDArray[np.float32] = np.minimum(np.einsum("id,jd->ij", one, other), _BELOW_ONE)
    for row, column in np.argwhere(cosines >= _NEARLY_ONE).tolist():
        if np.array_equal(one[row], other[column]):
            cosines[row, column] = 1.0
    return cosines
