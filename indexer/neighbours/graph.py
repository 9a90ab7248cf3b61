"""The neighbour graph: each passage's k nearest, for all passages at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.progress import Progress, ProgressListener, unheard

__all__ = ["NeighbourGraph", "neighbour_graph"]

_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class NeighbourGraph:
    """Each passage's nearest among the same passages, itself left out."""

    ids: NDArray[np.int64]  # (n,) passage numbers, rising
    neighbours: NDArray[np.int32]  # (n, k) places in `ids`, nearest first, ties by place; -1 = no more
    cosines: NDArray[np.float32]  # (n, k) falling; -1 where there is no neighbour
    exact: bool  # False: found through an index, which misses some

    def __len__(self) -> int:
        return int(self.ids.size)


def neighbour_graph(points: Points, k: int, *, listener: ProgressListener = unheard) -> NeighbourGraph:
    """The k nearest of every passage; with k or fewer passages, all others."""
    width = max(0, min(k, len(points) - 1))
    neighbours = np.full((len(points), width), -1, dtype=np.int32)
    cosines = np.full((len(points), width), -1.0, dtype=np.float32)
    for begin, some in points.blocks(_BLOCK):
        here = np.arange(len(some))
        products = np.concatenate([some @ rows.T for _, rows in points.blocks(_BLOCK)], axis=1)
        products[here, begin + here] = -np.inf
        best = (-products).argsort(axis=1, kind="stable")[:, :width]
        neighbours[begin : begin + len(some)] = best
        cosines[begin : begin + len(some)] = np.take_along_axis(products, best, axis=1)
        listener(Progress(begin + len(some), len(points), "finding neighbours", "passages"))
    return NeighbourGraph(points.ids, neighbours, cosines, exact=True)
