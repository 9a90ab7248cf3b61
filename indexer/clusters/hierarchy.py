"""The levels above the clusters."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["coarser_numbers", "levels_above"]

_FEWER = 5  # clusters that one of the level above holds, on average
_LEAST = 40  # as few clusters as still get a level above them: fewer are read as they are
_MOST = 0.5  # of the passages in one cluster of a level
_MERGED = 4000  # centres whose distances are held all at once: 64 MB


def coarser_numbers(clusters: int) -> list[int]:
    """How many clusters the levels above so many have: a fifth each time, as long as that leaves eight."""
    numbers = []
    while clusters >= _LEAST:
        clusters //= _FEWER
        numbers.append(clusters)
    return numbers


def levels_above(middles: NDArray[np.float32], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int32], ...]:
    """Each cluster's parent, each parent's parent, and so on, by Ward's merging of the centres.

    middles: (clusters, d) unit length; sizes: (clusters,) passages

    Numbers are by falling size, ties by the first child. All levels are cuts of one tree: merging the
    parents' centres anew would leave the lone ones for last and put nearly all others together. More than
    4,000 centres are first put together by k-means. A level of which one cluster holds more than half of the
    passages tells little: neither it nor those above it are given.
    """
    levels: list[NDArray[np.int32]] = []
    while len(middles) > _MERGED:
        parents = _by_size(_put_together(middles, coarser_numbers(len(middles))[0]), sizes)
        levels.append(parents)
        sums = np.zeros((int(parents.max()) + 1, middles.shape[1]))
        np.add.at(sums, parents, middles * sizes[:, None])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        middles = (sums / np.maximum(lengths, 1e-9)).astype(np.float32)
        sizes = np.bincount(parents, weights=sizes).astype(np.int64)
        if _lopsided(sizes):
            return tuple(levels[:-1])
    if len(middles) < _LEAST:
        return tuple(levels)
    from scipy.cluster.hierarchy import linkage

    merges = linkage(middles.astype(np.float64), "ward")
    return (*levels, *_nested_levels(merges, np.arange(len(middles), dtype=np.int32), sizes))


def _nested_levels(
    merges: NDArray[np.float64], labels: NDArray[np.int32], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int32], ...]:
    """The levels above clusters that were cut out of a dendrogram, by cutting it higher; see `levels_above`.

    merges: scipy's linkage matrix over m vectors; labels: (m,) none an outlier; counts: (m,) passages
    """
    from scipy.cluster.hierarchy import fcluster

    levels: list[NDArray[np.int32]] = []
    for fewer in coarser_numbers(int(labels.max(initial=-1)) + 1):
        higher = fcluster(merges, fewer, criterion="maxclust").astype(np.int32) - 1
        _, first = np.unique(labels, return_index=True)
        sizes = np.bincount(labels, weights=counts).astype(np.int64)
        parents = _by_size(higher[first], sizes)
        if _lopsided(np.bincount(parents, weights=sizes)):
            break
        levels.append(parents)
        labels = parents[labels]
    return tuple(levels)


def _lopsided(sizes: NDArray[np.int64] | NDArray[np.float64]) -> bool:
    return bool(sizes.max() > _MOST * sizes.sum())


def _put_together(middles: NDArray[np.float32], fewer: int) -> NDArray[np.int32]:
    from nearsay.indexer.clusters.content_order import distinct
    from nearsay.indexer.clusters.kmeans import kmeans
    from nearsay.indexer.neighbours.points import Points

    given = distinct(Points.from_array(np.arange(len(middles), dtype=np.int64), middles), 0)
    return kmeans(given, fewer, 0, repeats=1).labels[given.back]


def _by_size(parents: NDArray[np.int32], sizes: NDArray[np.int64]) -> NDArray[np.int32]:
    """The same parents numbered from 0 by falling size, ties by the first child."""
    used, first, of_used = np.unique(parents, return_index=True, return_inverse=True)
    order = np.lexsort((first, -np.bincount(of_used, weights=sizes)))
    number = np.empty(used.size, dtype=np.int32)
    number[order] = np.arange(used.size)
    return number[of_used]
