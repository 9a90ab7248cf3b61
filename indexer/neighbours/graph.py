"""The neighbour graph: each passage's k nearest, for all passages at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.copied import with_copies
from nearsay.indexer.neighbours.distinct import Distinct
from nearsay.indexer.neighbours.k_best import KBest
from nearsay.indexer.neighbours.lists import ListedProducts
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.neighbours.products import Products
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["EXACT_UP_TO", "NeighbourGraph", "neighbour_graph"]

EXACT_UP_TO = 200_000  # different vectors: all products of twice as many would take a quarter of an hour
_QUERIES = 2048
_ROWS = 8192  # rows multiplied at a time: with the queries above 32 MB of products


@dataclass(frozen=True, slots=True)
class NeighbourGraph:
    """Each passage's nearest among the same passages, itself left out."""

    ids: NDArray[np.int64]  # (n,) passage numbers, rising
    neighbours: NDArray[np.int32]  # (n, k) places in `ids`, nearest first, ties by place; -1 = no more
    cosines: NDArray[np.float32]  # (n, k) falling; -1 where there is no neighbour
    exact: bool  # False: found through lists of neighbours, which miss some
    recall: float = 1.0  # the share of the true neighbours that is there: measured on a sample if not exact

    def __len__(self) -> int:
        return int(self.ids.size)


def neighbour_graph(
    points: Points,
    k: int,
    *,
    listener: ProgressListener = unheard,
    exact: bool | None = None,
    device: str | None = "cpu",
) -> NeighbourGraph:
    """The k nearest of every passage; with k or fewer passages, all others.

    exact:  True or False; None = up to EXACT_UP_TO different vectors, beyond through lists, with a recall of
            .95 where the nearest 128 of them hold so many: `recall` says
    device: that multiplies: "cpu", "cuda"; None = the best there is

    Exact is what float32 sums give, whatever the order of the passages. Copies stand first among each
    other's neighbours. MissingExtraError for a large collection without FAISS.
    """
    width = max(0, min(k, len(points) - 1))
    if not width:
        empty = np.zeros((len(points), 0))
        return NeighbourGraph(points.ids, empty.astype(np.int32), empty.astype(np.float32), exact=True)
    distinct = Distinct.of(points)
    others = min(width, len(distinct) - 1)
    if exact is None or not others:
        exact = len(distinct) <= EXACT_UP_TO
    recall = 1.0
    if exact:
        rows, cosines = _all_with_all(Products.of(points, distinct.first, device), others, listener)
    else:
        listed = ListedProducts.of(points, distinct.first, others, listener, device)
        rows, cosines = listed.nearest(listener)
        recall = listed.recall
    neighbours, cosines = with_copies(points, distinct, rows, cosines, width)
    return NeighbourGraph(points.ids, neighbours, cosines, exact=exact, recall=recall)


def _all_with_all(
    products: Products, k: int, listener: ProgressListener
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k nearest rows (m, k) of every row, and their cosines."""
    count = len(products)
    rows = np.full((count, k), -1, dtype=np.int32)
    cosines = np.full((count, k), -1.0, dtype=np.float32)
    for begin in range(0, count if k else 0, _QUERIES):
        queries = np.arange(begin, min(begin + _QUERIES, count))
        best = KBest(products, queries, k)
        for first in range(0, count, _ROWS):
            best.look(np.arange(queries.size), slice(first, min(first + _ROWS, count)))
        rows[queries], cosines[queries] = best.decided()
        listener(Progress(begin + queries.size, count, "finding neighbours", "passages"))
    return rows, cosines
