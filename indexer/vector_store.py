"""The vectors of a generation, in memory-mapped segments, and exact search over them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.indexer.segment import VectorSegment

__all__ = ["Candidates", "VectorStore", "merge", "unit_length"]

_BLOCK = 65_536  # rows scored at a time: bounds memory at 256 kB a query


@dataclass(frozen=True, slots=True)
class Candidates:
    """Passages by falling cosine similarity, ties by rising number."""

    ids: NDArray[np.int64]  # (n,)
    scores: NDArray[np.float32]  # (n,)


class VectorStore:
    """All vectors segments of a generation, by rising passage number; immutable."""

    def __init__(self, segments: Sequence[VectorSegment], dimension: int) -> None:
        """`segments` in any order; their ranges of numbers do not overlap."""
        self.segments = tuple(sorted(segments, key=lambda segment: int(segment.ids[0])))
        self.dimension = dimension
        self.ids = (
            np.concatenate([segment.ids for segment in self.segments])
            if self.segments
            else np.zeros(0, dtype=np.int64)
        )
        self._starts = np.cumsum([0] + [segment.ids.size for segment in self.segments])

    def __len__(self) -> int:
        return int(self.ids.size)

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the ids stand in `self.ids`; those without a vector are left out."""
        at = np.searchsorted(self.ids, ids)
        inside = at < self.ids.size
        at, ids = at[inside], ids[inside]
        found: NDArray[np.int64] = at[self.ids[at] == ids]
        return found

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors (n, d) at rising positions."""
        gathered = np.empty((positions.size, self.dimension), dtype=np.float32)
        bounds = np.searchsorted(positions, self._starts)
        for segment, start, begin, end in zip(
            self.segments, self._starts[:-1], bounds[:-1], bounds[1:], strict=True
        ):
            gathered[begin:end] = segment.vectors[positions[begin:end] - start]
        return gathered

    def nearest(
        self, query: NDArray[np.float32], k: int, alive: NDArray[np.bool_] | None = None, after: int = 0
    ) -> Candidates:
        """The k nearest by exact search among the passages numbered above `after`.

        query: (d,) unit length; alive: bool by passage number, True where a passage may be found; None = all.
        """
        best = Candidates(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
        for segment in self.segments:
            if int(segment.ids[-1]) <= after:
                continue
            for begin in range(0, segment.ids.size, _BLOCK):
                ids = segment.ids[begin : begin + _BLOCK]
                scores = _cosine_similarities(segment.vectors[begin : begin + _BLOCK], query)
                keep = ids > after
                if alive is not None:
                    keep &= alive[ids]
                if not keep.all():
                    ids, scores = ids[keep], scores[keep]
                best = merge([best, Candidates(ids, scores)], k)
        return best

    def nearest_among(self, query: NDArray[np.float32], k: int, ids: NDArray[np.int64]) -> Candidates:
        """The k nearest of the given passages (rising numbers); those without a vector are left out."""
        positions = self.positions(ids)
        parts: list[Candidates] = []
        for begin in range(0, positions.size, _BLOCK):
            some = positions[begin : begin + _BLOCK]
            parts.append(Candidates(self.ids[some], _cosine_similarities(self.rows(some), query)))
        return merge(parts, k)


def merge(parts: Sequence[Candidates], k: int) -> Candidates:
    """The k best of several; the same whatever the order of the parts."""
    if not parts:
        return Candidates(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
    ids = np.concatenate([part.ids for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    if ids.size > 4 * k:  # a cheap cut first: everything that ties with the k-th best stays in
        threshold = np.partition(scores, scores.size - k)[scores.size - k]
        kept = scores >= threshold
        ids, scores = ids[kept], scores[kept]
    order = np.lexsort((ids, -scores))[:k]
    return Candidates(ids[order], scores[order])


def _cosine_similarities(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    # BLAS rounds a row by its place in the matrix, so copies of one text would not tie; this does not.
    scores: NDArray[np.float32] = np.einsum("ij,j->i", vectors, query)
    return scores


def unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors (n, d) scaled to length 1, so that a dot product is their cosine similarity.

    NearsayError if one is zero, infinite or not a number: it has no direction.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = int(np.count_nonzero(~np.isfinite(norms) | (norms == 0.0)))
    if bad:
        raise NearsayError(
            f"the encoder gave {bad} vectors that are zero, infinite or not numbers. Use another encoder"
        )
    return vectors if np.all(np.abs(norms - 1.0) < 1e-6) else (vectors / norms).astype(np.float32)
