"""Points parted into clusters, and the levels above them; nothing is read or saved here."""

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

# Different vectors; of more, lists find .95 of the neighbours. All products of 117,000 take a minute or more,
# lists a fraction, and a graph with .96 of the true ones costs the communities less than .01 of V-measure.
EXACT_UP_TO = 50_000


@dataclass(frozen=True, slots=True)
class DistinctPoints:
    """The different vectors among points, in memory, in the order of `Distinct`."""

    points: Points  # (m,) different vectors; their ids are their places
    counts: NDArray[np.int64]  # (m,) how many points have each
    back: NDArray[np.int64]  # (n,) the place in `points` of each of the points that were given

    def __len__(self) -> int:
        return len(self.points)


def distinct(points: Points, seed: int) -> DistinctPoints:
    """The points without copies; see `Distinct.of`."""
    found = Distinct.of(points, seed)
    places = np.arange(len(found), dtype=np.int64)
    return DistinctPoints(Points.from_array(places, points.rows(found.first)), found.copies, found.number)


RESOLUTIONS = (0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
CRITERION = (
    "the highest simplified silhouette * share in a cluster * (1 - 0.1 ln(clusters)); 1, if that silhouette "
    "is below 0.25 and one cluster holds more than half"
)
# The silhouette by itself rises with the number of clusters. On 16 labelled sets of 4 to 77 labels anything
# from .08 to .12 gave the same V-measure and mutual information within .005.
_PER_LOG_NUMBER = 0.1
_FEW = 100  # different vectors: of so few the graph is hardly sparse, and low resolutions merge clear bunches
_LEAST_SIZE = 5  # passages
_PLAIN = 1.0  # the resolution of modularity as it was first defined
_NO_STRUCTURE = 0.25  # a silhouette
_NONE = -1.0  # below every silhouette: where fewer than two communities are kept
_SAMPLE = 20_000  # vectors whose silhouettes decide


class Communities(NamedTuple):
    """Communities of the neighbour graph."""

    labels: NDArray[np.int32]  # (m,)
    resolution: float  # that they were found with
    recall: float  # the share of the true neighbours that the graph has


def usual_least_size(passages: int) -> int:
    """Where nobody says: 5 passages; of fewer than 50 a tenth, but at least 2."""
    return max(2, min(_LEAST_SIZE, passages // 10))


def graph_communities(
    given: DistinctPoints,
    resolution: float | None = None,
    *,
    least_size: int = 1,
    listener: ProgressListener = unheard,
) -> Communities:
    """Find communities by the Louvain algorithm on the weighted graph of each vector's 15 neighbours.

    resolution: higher gives more and smaller ones; None = of RESOLUTIONS the one with the highest simplified
    silhouette (see `scores.silhouette`) over up to 20,000 vectors, times the share of them in a cluster,
    times 1 - .1 · ln(clusters). Where that silhouette is below .25 ("no substantial structure", Kaufman &
    Rousseeuw 1990) and one cluster holds more than half of the passages, 1 is taken, as modularity has it
    least_size: passages; the vectors of a smaller community are outliers to that choice

    Copies count once. Sequential and without chance: the same graph gives the same communities on any number
    of threads. Blondel et al. 2008, https://arxiv.org/abs/0803.0476, by scikit-network (whose Leiden draws
    from the C library's `rand`, which no seed of its own governs); modularity with a resolution: Reichardt &
    Bornholdt 2006, https://doi.org/10.1103/PhysRevE.74.016110. NearsayError without scikit-network,
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

    Coarser communities are made by merging the finest ones: a twentieth of the time at 117,659 vectors, and
    the choice that results is .001 of V-measure worse (16 labelled sets, those of up to 2,000 passages).
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
        # without the share in a cluster, half of 70 passages were left out for some clear bunches
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
            "Communities of the neighbour graph need scikit-network. Install it: pip install scikit-network, "
            "or take another method: kmeans"
        ) from error
    return Louvain(resolution=resolution, return_probs=False, return_aggregate=False)


NUMBER_CRITERION = "the communities of the neighbour graph of a sample"


def chosen_number(given: DistinctPoints, *, listener: ProgressListener = unheard) -> int:
    """As many clusters as the neighbour graph of up to 20,000 of the vectors has communities.

    Silhouette (rising to the largest number tried) and Calinski-Harabasz (a third of the labels' number, or
    the largest tried) were measured beside it and chose badly; see tests/benchmarks/LOG.md.
    """
    places = np.arange(min(len(given), _SAMPLE))  # the first in the content's order are a random sample
    sample = DistinctPoints(given.points.some(places), given.counts[places], places)
    return int(graph_communities(sample, listener=listener).labels.max(initial=-1)) + 1


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
    """The same parents numbered from 0 by falling size, ties by the first child."""
    used, first, of_used = np.unique(parents, return_index=True, return_inverse=True)
    order = np.lexsort((first, -np.bincount(of_used, weights=sizes)))
    number = np.empty(used.size, dtype=np.int32)
    number[order] = np.arange(used.size)
    return number[of_used]


_ITERATIONS = 25
_TRAINED_ON = 100_000  # vectors, or 256 a cluster where that is more
_REPEATS = 3  # from different starts, the best is kept


def kmeans(
    given: DistinctPoints,
    clusters: int,
    seed: int,
    *,
    repeats: int = _REPEATS,
    listener: ProgressListener = unheard,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Labels (m,) and centres (clusters, d) by FAISS's spherical k-means, the best of several starts.

    Dhillon & Modha 2001, https://doi.org/10.1023/A:1007612920971, begun by k-means++. Learned on a sample
    where there are many; every vector is then put to its nearest centre. Copies weigh as often as they are
    there.
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
    """Labels of the different vectors, (m,), and what they were found with."""
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
    """The same clusters by falling size, ties by their old numbers; smaller ones are outliers."""
    used, of_used = np.unique(labels, return_inverse=True)
    sizes = np.bincount(of_used, weights=given.counts)
    kept = (used >= 0) & (sizes >= least_size)
    order = np.lexsort((used, -sizes, ~kept))
    number = np.full(used.size, -1, dtype=np.int32)
    number[order[: int(kept.sum())]] = np.arange(int(kept.sum()))
    return number[of_used]
