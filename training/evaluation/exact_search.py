"""Exact nearest neighbours, for measuring; the indexer has the search that serves."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest"]

_BLOCK_SCORES = 32_000_000  # float32 scores held at a time, 128 MB


def nearest(
    queries: NDArray[np.float32], documents: NDArray[np.float32], *, depth: int
) -> Iterator[NDArray[np.int64]]:
    """Give, for each query, the rows of the documents with the highest dot products, best first.

    queries:   (queries, dimension) float32
    documents: (documents, dimension) float32; with unit vectors on both sides the product is the cosine
    yields:    (min(depth, documents),) row numbers; equal products come in the order of their rows
    """
    rows = max(_BLOCK_SCORES // max(len(documents), 1), 1)
    for start in range(0, len(queries), rows):
        for scores in queries[start : start + rows] @ documents.T:
            yield _best(scores, depth)


def _best(scores: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
    rows = np.arange(len(scores), dtype=np.int64)
    if depth < len(scores):
        # Everything that ties with the last one stays in, so that the cut is by row and not by chance.
        last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        rows = np.flatnonzero(scores >= last)
    return rows[np.argsort(-scores[rows], kind="stable")][:depth]
