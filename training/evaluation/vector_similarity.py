"""How near two vectors are, by the four measures that the field reports."""

from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Similarity", "pair_similarities"]

_BLOCK_PAIRS: Final = 4096  # pairs whose float64 copies are in memory


class Similarity(StrEnum):
    """How near two vectors are; higher is nearer for each, as distances are taken below zero."""

    COSINE = "cosine"  # u · v / (|u| |v|)
    DOT = "dot"  # u · v
    EUCLIDEAN = "euclidean"  # -sqrt(sum (u - v)²)
    MANHATTAN = "manhattan"  # -sum |u - v|

    @property
    def is_distance(self) -> bool:
        """Whether people tell it as a distance, of which this is the negative."""
        return self in {Similarity.EUCLIDEAN, Similarity.MANHATTAN}

    @property
    def suffix(self) -> str:
        """What follows a figure's name: nothing for the cosine, which decides; else `_dot` and so on."""
        return "" if self is Similarity.COSINE else f"_{self.value}"


def pair_similarities(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> dict[Similarity, NDArray[np.float64]]:
    """Give the similarity of each row of `first` with the same row of `second`, by every measure.

    first, second: (pairs, dimension) float32, no row of zeros
    returns:       by measure (pairs,) float64, higher is nearer

    Computed in float64, so that equal pairs tie exactly.
    """
    found = {similarity: np.empty(len(first)) for similarity in Similarity}
    for start in range(0, len(first), _BLOCK_PAIRS):
        rows = slice(start, start + _BLOCK_PAIRS)
        u, v = first[rows].astype(np.float64), second[rows].astype(np.float64)
        dots = np.einsum("pd,pd->p", u, v)
        lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
        apart = np.abs(u - v)
        found[Similarity.COSINE][rows] = dots / lengths
        found[Similarity.DOT][rows] = dots
        found[Similarity.EUCLIDEAN][rows] = -np.linalg.norm(apart, axis=1)
        found[Similarity.MANHATTAN][rows] = -apart.sum(axis=1)
    return found
