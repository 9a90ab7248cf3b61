"""Partition points into clusters and levels above them; nothing is read or saved here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import NearsayError
from nearsay.indexer.clusters.clustering import ClusterMethod, ClusterOptions
from nearsay.indexer.clusters.scores import centres, each_silhouette, nearest_centre, of_unit_length, sums
from nearsay.indexer.neighbours.graph import memberships, neighbour_graph, united
from nearsay.indexer.neighbours.points import Distinct, Points
from nearsay.indexer.plans.engine import faiss_is_installed, faiss_module
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

# Distinct vectors; for more, inverted lists find .95 of the neighbours. Exact search among 117,000 takes a
# minute or more, lists a fraction of it, and a recall of .96 costs less than .01 of V-measure.
EXACT_UP_TO = 50_000


@dataclass(frozen=True, slots=True)
class DistinctPoints:
    """The distinct vectors of some points, in memory, in the order of `Distinct`."""

    points: Points  # (m,) distinct vectors; their ids are their places
    counts: NDArray[np.int64]  # (m,) number of points with each
    back: NDArray[np.int64]  # (n,) each given point's place in `points`

    def __len__(self) -> int:
        return len(self.points)


def distinct(points: Points, seed: int) -> DistinctPoints:
    """The points without duplicate vectors; see `Distinct.of`."""
    found = Distinct.of(points, seed)
    places = np.arange(len(found), dtype=np.int64)
    return DistinctPoints(Points.from_array(places, points.rows(found.first)), found.copies, found.number)


RESOLUTIONS = (0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
CRITERION = (
    "the highest simplified silhouette * share in a cluster * (1 - 0.1 ln(clusters)); 1, if that silhouette "
    "is below 0.25 and one cluster holds more than half"
)
# The silhouette alone rises with the number of clusters. On 16 labelled sets of 4 to 77 labels, values from
# .08 to .12 gave the same V-measure and mutual information within .005.
_PER_LOG_NUMBER = 0.1
_FEW = 100  # distinct vectors; their graph is hardly sparse, and low resolutions merge clear clusters
_LEAST_SIZE = 5  # passages
_PLAIN = 1.0  # the resolution of plain modularity
_NO_STRUCTURE = 0.25  # a silhouette
_NONE = -1.0  # below every silhouette
_SAMPLE = 20_000  # vectors for silhouettes


class Communities(NamedTuple):
    """Communities of the neighbour graph."""

    labels: NDArray[np.int32]  # (m,)
    resolution: float  # with which they were found
    recall: float  # share of the true neighbours that are in the graph


def usual_least_size(passages: int) -> int:
    """The default: 5 passages; for fewer than 50 a tenth, at least 2."""
    return max(2, min(_LEAST_SIZE, passages // 10))


def graph_communities(
    given: DistinctPoints,
    resolution: float | None = None,
    *,
    least_size: int = 1,
    listener: ProgressListener = unheard,
) -> Communities:
    """Find communities by the Louvain algorithm on the weighted graph of each vector's 15 neighbours.

    resolution: higher gives more and smaller ones; None = the one of RESOLUTIONS with the highest simplified
                silhouette (see `scores.silhouette`) over up to 20,000 vectors, times the share of them in a
                cluster, times 1 - .1 · ln(clusters). Where that silhouette is below .25 ("no substantial
                structure", Kaufman & Rousseeuw 1990) and one cluster holds more than half of the passages, at
                least 1, the resolution of plain modularity
    least_size: passages; that choice treats vectors of smaller communities as outliers

    Copies count once. Sequential and deterministic: the same graph gives the same communities with any number
    of threads. Blondel et al. 2008, https://arxiv.org/abs/0803.0476, by scikit-network (its Leiden uses the C
    library's `rand`, which ignores its seed); modularity with a resolution: Reichardt & Bornholdt 2006,
    https://doi.org/10.1103/PhysRevE.74.016110. Raises NearsayError without scikit-network, and
    MissingExtraError without FAISS for more than 200,000 vectors.
    """
    if len(given) < 3:
        return Communities(np.zeros(len(given), dtype=np.int32), resolution or 1.0, 1.0)
    exact = False if len(given) > EXACT_UP_TO and faiss_is_installed() else None
    graph = neighbour_graph(given.points, _NEIGHBOURS, exact=exact, listener=listener)
    weights = united(graph.neighbours, memberships(graph.distances, itself=False))
    finest = RESOLUTIONS[-1] if resolution is None else resolution
    listener(Progress(0, None, "finding communities", "passages"))
    labels = _louvain(finest).fit_predict(weights).astype(np.int32)
    if resolution is None:
        chosen = _resolution(given, weights, labels, least_size)
        if chosen != finest:
            finest, labels = chosen, _louvain(chosen).fit_predict(weights).astype(np.int32)
    return Communities(labels, finest, graph.recall)


def _resolution(
    given: DistinctPoints,
    weights: Any,  # noqa: ANN401 - scipy has no types
    finest: NDArray[np.int32],
    least_size: int,
) -> float:
    """The resolution by CRITERION.

    Coarser communities are merged from the finest ones: a twentieth of the time at 117,659 vectors, for a
    V-measure lower by .001 (16 labelled sets, those of up to 2,000 passages).
    """
    from scipy import sparse

    there = np.ones(finest.size)
    members = sparse.csr_matrix((there, (np.arange(finest.size, dtype=np.int32), finest)))
    merged = (members.T @ weights @ members).tocsr()
    places = np.arange(min(len(given), _SAMPLE), dtype=np.int64)  # the first vectors, a random sample
    sample = Points.from_array(places, given.points.rows(places))
    sizes = np.bincount(finest, weights=given.counts)
    of_each = sums(given.points, finest)
    best, best_resolution = _NONE, _PLAIN
    for one in RESOLUTIONS if len(given) > _FEW else [one for one in RESOLUTIONS if one >= _PLAIN]:
        joined = np.arange(sizes.size, dtype=np.int32)
        if one != RESOLUTIONS[-1]:
            joined = _louvain(one).fit_predict(merged).astype(np.int32)
        kept = np.bincount(joined, weights=sizes) >= least_size
        joined = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)[joined]  # -1: outliers
        if kept.sum() < 2:
            continue
        inside = np.flatnonzero(joined >= 0)
        together = np.zeros((int(kept.sum()), of_each.shape[1]))
        np.add.at(together, joined[inside], of_each[inside])
        labels = joined[finest[places]]
        silhouette = float(each_silhouette(sample, labels, of_unit_length(together)).mean())  # outliers: 0
        # Without the share in a cluster, half of 70 passages became outliers to a few clear clusters.
        fewer = max(0.0, 1 - _PER_LOG_NUMBER * float(np.log(kept.sum())))
        reached = silhouette * float((labels >= 0).mean()) * fewer
        if reached > best:
            held = np.bincount(joined[inside], weights=sizes[inside])
            unclear = silhouette < _NO_STRUCTURE and bool(held.max() > _MOST * sizes.sum())
            best, best_resolution = reached, max(one, _PLAIN) if unclear else one
    return best_resolution


def _louvain(resolution: float) -> Any:  # noqa: ANN401 - scikit-network has no types
    try:
        from sknetwork.clustering import Louvain
    except ImportError as error:
        raise NearsayError(
            "The clustering method graph needs scikit-network. Install it with: pip install scikit-network. "
            "Or choose another method: kmeans"
        ) from error
    return Louvain(resolution=resolution, return_probs=False, return_aggregate=False)


NUMBER_CRITERION = "the communities of the neighbour graph of a sample"


def chosen_number(given: DistinctPoints, *, listener: ProgressListener = unheard) -> int:
    """The default number of clusters: of communities in the neighbour graph of up to 20,000 vectors.

    Silhouette (which rises up to the largest number tried) and Calinski-Harabasz (a third of the number of
    labels, or the largest tried) chose worse; see tests/benchmarks/LOG.md.
    """
    places = np.arange(min(len(given), _SAMPLE))  # the first are a random sample, see `Distinct`
    sample = DistinctPoints(given.points.some(places), given.counts[places], places)
    return int(graph_communities(sample, listener=listener).labels.max(initial=-1)) + 1


_FEWER = 5  # mean number of children of a cluster
_LEAST = 40  # clusters of a level that gets a level above it
_MOST = 0.5  # largest share of the passages in one cluster of a level
_MERGED = 4000  # centres whose distances are in memory at once: 64 MB


def coarser_numbers(clusters: int) -> list[int]:
    """The numbers of clusters in the levels above: a fifth each time, down to at least eight."""
    numbers = []
    while clusters >= _LEAST:
        clusters //= _FEWER
        numbers.append(clusters)
    return numbers


def levels_above(middles: NDArray[np.float32], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int32], ...]:
    """Each cluster's parent, each parent's parent, and so on, by Ward linkage of the centres.

    middles: (clusters, d) unit length
    sizes:   (clusters,) passages

    Parents are numbered by descending size, ties by the first child. All levels are cuts of one tree: merging
    the parents' centres again would leave isolated ones for last and join nearly all others. More than 4,000
    centres are first grouped by k-means. If one cluster of a level holds more than half of the passages, that
    level and those above it are omitted.
    """
    levels: list[NDArray[np.int32]] = []
    while len(middles) > _MERGED:
        given = distinct(Points.from_array(np.arange(len(middles)), middles), 0)
        labels, _ = kmeans(given, coarser_numbers(len(middles))[0], 0, repeats=1)
        parents = _by_size(labels[given.back], sizes)
        levels.append(parents)
        together = np.zeros((int(parents.max()) + 1, middles.shape[1]))
        np.add.at(together, parents, middles * sizes[:, None])
        middles = of_unit_length(together)
        sizes = np.bincount(parents, weights=sizes).astype(np.int64)
        if _lopsided(sizes):
            return tuple(levels[:-1])
    if len(middles) < _LEAST:
        return tuple(levels)
    from scipy.cluster.hierarchy import fcluster, linkage

    merges = linkage(middles.astype(np.float64), "ward")
    labels = np.arange(len(middles), dtype=np.int32)  # of each centre among the clusters of a level
    for fewer in coarser_numbers(len(middles)):
        higher = fcluster(merges, fewer, criterion="maxclust").astype(np.int32) - 1
        _, first = np.unique(labels, return_index=True)
        parents = _by_size(higher[first], sizes)
        sizes = np.bincount(parents, weights=sizes).astype(np.int64)
        if _lopsided(sizes):
            break
        levels.append(parents)
        labels = parents[labels]
    return tuple(levels)


def _lopsided(sizes: NDArray[np.int64]) -> bool:
    return bool(sizes.max() > _MOST * sizes.sum())


def _by_size(parents: NDArray[np.int32], sizes: NDArray[np.int64]) -> NDArray[np.int32]:
    """The same parents numbered from 0 by descending size, ties by the first child."""
    used, first, of_used = np.unique(parents, return_index=True, return_inverse=True)
    order = np.lexsort((first, -np.bincount(of_used, weights=sizes)))
    number = np.empty(used.size, dtype=np.int32)
    number[order] = np.arange(used.size)
    return number[of_used]


_ITERATIONS = 25
_TRAINED_ON = 100_000  # vectors, or 256 a cluster if more
_REPEATS = 3  # starts, of which the best is kept


def kmeans(
    given: DistinctPoints,
    clusters: int,
    seed: int,
    *,
    repeats: int = _REPEATS,
    listener: ProgressListener = unheard,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Labels (m,) and centres (clusters, d) by FAISS's spherical k-means, the best of several starts.

    Dhillon & Modha 2001, https://doi.org/10.1023/A:1007612920971, initialized by k-means++. Trained on a
    sample of large sets; then every vector is assigned to its nearest centre. Vectors are weighted by their
    number of copies.
    """
    faiss = faiss_module()
    count = min(len(given), max(_TRAINED_ON, 256 * clusters))
    clusters = min(clusters, len(given))
    listener(Progress(0, None, f"finding {clusters} clusters", "passages"))
    found = faiss.Kmeans(
        given.points.dimension,
        clusters,
        niter=_ITERATIONS,
        nredo=repeats,
        spherical=True,
        seed=seed % 2**31,
        init_method=faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS,
        min_points_per_centroid=1,
        max_points_per_centroid=count,
    )
    found.train(given.points.rows(np.arange(count)), given.counts[:count].astype(np.float32))
    return nearest_centre(given.points, found.centroids, listener=listener)[0], found.centroids


SEED = 20190827
_CALLER = "the caller"
_NEIGHBOURS = 15  # of each passage in the neighbour graph


@dataclass(frozen=True, slots=True)
class Partition:
    """The cluster of each point, and the levels above."""

    # (n,) by place; 0, 1, … by descending size, ties in an order that depends on the content; -1 = outlier
    labels: NDArray[np.int32]
    # The levels above, the lowest first: parents[0][c] is the label of cluster c's parent in level 1,
    # parents[1][p] that of p's parent in level 2; numbered like `labels`.
    parents: tuple[NDArray[np.int32], ...]
    method: ClusterMethod
    parameters: Mapping[str, JsonValue]  # those used, and the criterion that chose them

    @property
    def clusters(self) -> int:
        """The number of clusters of the lowest level."""
        return int(self.labels.max(initial=-1)) + 1


def partition(
    points: Points,
    options: ClusterOptions | None = None,
    *,
    seed: int = SEED,
    listener: ProgressListener = unheard,
) -> Partition:
    """Find clusters, independently of the order of the points; copies are in the same cluster.

    options: None = the defaults

    Memory: the distinct vectors, and a second copy in lists during the search for neighbours of more than
            50,000: 2.9 GB in all for 300,000 of 384 dimensions, including the mapped file.
    """
    options = options or ClusterOptions()
    usual = usual_least_size(len(points)) if options.method is ClusterMethod.GRAPH else 1
    least_size = options.least_size or usual
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
    """Labels of the distinct vectors, (m,), and the parameters used."""
    if options.method is ClusterMethod.GRAPH:
        labels, resolution, recall = graph_communities(
            given, options.resolution, least_size=least_size, listener=listener
        )
        chosen = CRITERION if options.resolution is None else _CALLER
        how: dict[str, JsonValue] = {"neighbours": _NEIGHBOURS, "neighbour_recall": recall}
        return labels, {**how, "resolution": resolution, "chosen_by": chosen}
    chosen = NUMBER_CRITERION if options.clusters is None else _CALLER
    wanted = options.clusters or chosen_number(given, listener=listener)
    return kmeans(given, wanted, seed, listener=listener)[0], {"chosen_by": chosen}


def _numbered(labels: NDArray[np.int32], given: DistinctPoints, least_size: int) -> NDArray[np.int32]:
    """The same clusters numbered by descending size, ties by old number; -1 for those that are too small."""
    used, of_used = np.unique(labels, return_inverse=True)
    sizes = np.bincount(of_used, weights=given.counts)
    kept = (used >= 0) & (sizes >= least_size)
    order = np.lexsort((used, -sizes, ~kept))
    number = np.full(used.size, -1, dtype=np.int32)
    number[order[: int(kept.sum())]] = np.arange(int(kept.sum()))
    return number[of_used]
