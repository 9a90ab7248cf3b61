"""Points parted into clusters, and the levels above them; nothing is read or saved here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.indexer.clusters import graph_communities
from nearsay.indexer.clusters.clustering import ClusterMethod, ClusterOptions
from nearsay.indexer.clusters.graph_communities import (
    NUMBER_CRITERION,
    DistinctPoints,
    chosen_number,
    distinct,
)
from nearsay.indexer.clusters.scores import centres, nearest_centre
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.plans.engine import faiss_module
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["SEED", "Partition", "partition"]


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
    given = distinct(Points.from_array(np.arange(len(middles), dtype=np.int64), middles), 0)
    return kmeans(given, fewer, 0, repeats=1).labels[given.back]


def _by_size(parents: NDArray[np.int32], sizes: NDArray[np.int64]) -> NDArray[np.int32]:
    """The same parents numbered from 0 by falling size, ties by the first child."""
    used, first, of_used = np.unique(parents, return_index=True, return_inverse=True)
    order = np.lexsort((first, -np.bincount(of_used, weights=sizes)))
    number = np.empty(used.size, dtype=np.int32)
    number[order] = np.arange(used.size)
    return number[of_used]


_ITERATIONS = 25
_TRAINED_ON = 100_000  # vectors, or 256 a cluster where that is more
_REPEATS = 3  # from different starts, the best is kept


class Fitted(NamedTuple):
    """Clusters with their centres."""

    labels: NDArray[np.int32]  # (m,)
    centres: NDArray[np.float32]  # (clusters, d) unit length
    cosines: NDArray[np.float32]  # (m,) to the own centre


def kmeans(
    given: DistinctPoints,
    clusters: int,
    seed: int,
    *,
    repeats: int = _REPEATS,
    listener: ProgressListener = unheard,
) -> Fitted:
    """Spherical k-means (Dhillon & Modha 2001, https://doi.org/10.1023/A:1007612920971) by FAISS.

    Learned on a sample where there are many; every vector is then put to its nearest centre. Copies weigh as
    often as they are there. The best of several starts by k-means++.
    """
    faiss = faiss_module()
    count = min(len(given), max(_TRAINED_ON, 256 * clusters))
    clusters = min(clusters, len(given))
    sample = given.points.rows(np.arange(count))
    weights = given.counts[:count].astype(np.float32)
    best: tuple[float, NDArray[np.float32]] | None = None
    for repeat in range(repeats):
        listener(Progress(repeat, repeats, f"finding {clusters} clusters", "starts"))
        found = faiss.Kmeans(
            given.points.dimension,
            clusters,
            niter=_ITERATIONS,
            spherical=True,
            seed=(seed + repeat) % 2**31,
            init_method=faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS,
            min_points_per_centroid=1,
            max_points_per_centroid=count,
        )
        reached = float(found.train(sample, weights))
        if best is None or reached > best[0]:
            best = reached, found.centroids.copy()
    listener(Progress(repeats, repeats, f"finding {clusters} clusters", "starts"))
    if best is None:
        raise ValueError(f"repeats = {repeats}")
    labels, cosines = nearest_centre(given.points, best[1], listener=listener)
    return Fitted(labels, best[1], cosines)


SEED = 20190827
_CALLER = "the caller"


@dataclass(frozen=True, slots=True)
class Partition:
    """Which cluster each of the points is in."""

    # (n,) by place; 0, 1, … by falling size, ties in an order that the content decides; -1 = outlier
    labels: NDArray[np.int32]
    # The levels above, the lowest first: parents[0][c] is the number of cluster c's parent among the clusters
    # of level 1, parents[1][p] that of p's among those of level 2; numbered like the labels. Empty: none.
    parents: tuple[NDArray[np.int32], ...]
    method: ClusterMethod
    parameters: Mapping[str, JsonValue]  # what was used, and chosen by which criterion

    @property
    def clusters(self) -> int:
        """How many there are at the lowest level."""
        return int(self.labels.max(initial=-1)) + 1


def partition(
    points: Points,
    options: ClusterOptions | None = None,
    *,
    seed: int = SEED,
    listener: ProgressListener = unheard,
) -> Partition:
    """Find clusters; the same points give the same clusters whatever their order, and copies share theirs.

    options: None = the defaults. Holds the different vectors in memory, and a second time in lists while the
    neighbours of more than 50,000 are looked for: 2.9 GB in all for 300,000 of 384 dimensions, those of the
    mapped file among them.
    """
    options = options or ClusterOptions()
    usual = 1
    if options.method is ClusterMethod.GRAPH:
        usual = graph_communities.usual_least_size(len(points))
    least_size = options.least_size or usual
    options = replace(options, least_size=least_size)
    if not len(points):
        return Partition(np.zeros(0, dtype=np.int32), (), options.method, {})
    given = distinct(points, seed)
    found, how = _find(given, options, least_size, seed, listener)
    labels = _numbered(found, given, least_size)
    outliers = int(given.counts[labels < 0].sum())
    if options.assign_outliers and outliers and labels.max(initial=-1) >= 0:
        nearest, _ = nearest_centre(
            given.points, centres(given.points, labels, given.counts), listener=listener
        )
        labels = _numbered(np.where(labels < 0, nearest, labels), given, 1)
    sizes = np.bincount(labels[labels >= 0], weights=given.counts[labels >= 0]).astype(np.int64)
    parents = levels_above(centres(given.points, labels, given.counts), sizes)
    used: dict[str, JsonValue] = {
        **how,
        "clusters": int(labels.max(initial=-1)) + 1,
        "least_size": least_size,
        "assigned_outliers": outliers if options.assign_outliers else 0,
        "seed": seed,
    }
    return Partition(labels[given.back], parents, options.method, used)


def _find(
    given: DistinctPoints, options: ClusterOptions, least_size: int, seed: int, listener: ProgressListener
) -> tuple[NDArray[np.int32], dict[str, JsonValue]]:
    """Labels of the different vectors, (m,), and what they were found with."""
    neighbours = options.neighbours
    if options.method is ClusterMethod.GRAPH:
        labels, resolution, recall = graph_communities.graph_communities(
            given, neighbours, options.resolution, least_size=least_size, listener=listener
        )
        chosen = graph_communities.CRITERION if options.resolution is None else _CALLER
        how: dict[str, JsonValue] = {"neighbours": neighbours, "neighbour_recall": recall}
        return labels, {**how, "resolution": resolution, "chosen_by": chosen}
    wanted, how = _number(given, options, listener)
    return kmeans(given, wanted, seed, listener=listener).labels, how


def _number(
    given: DistinctPoints, options: ClusterOptions, listener: ProgressListener
) -> tuple[int, dict[str, JsonValue]]:
    """How many clusters are wanted, and what says so."""
    if options.clusters is not None:
        return options.clusters, {"chosen_by": _CALLER}
    return chosen_number(given, options.neighbours, listener=listener), {"chosen_by": NUMBER_CRITERION}


def _numbered(labels: NDArray[np.int32], given: DistinctPoints, least_size: int) -> NDArray[np.int32]:
    """The same clusters by falling size, ties by their old numbers; smaller ones are outliers."""
    used, of_used = np.unique(labels, return_inverse=True)
    sizes = np.bincount(of_used, weights=given.counts)
    kept = (used >= 0) & (sizes >= least_size)
    order = np.lexsort((used, -sizes, ~kept))
    number = np.full(used.size, -1, dtype=np.int32)
    number[order[: int(kept.sum())]] = np.arange(int(kept.sum()))
    return number[of_used]
