"""Communities of the neighbour graph: nothing needs to be chosen, and every shape is found."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.indexer.clusters.cluster_graph import cluster_graph
from nearsay.indexer.clusters.content_order import Distinct
from nearsay.indexer.clusters.scores import centres, each_silhouette
from nearsay.indexer.neighbours.graph import NeighbourGraph
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.progress import Progress, ProgressListener, unheard

__all__ = [
    "CRITERION",
    "RESOLUTIONS",
    "Communities",
    "fuzzy_weights",
    "graph_communities",
    "usual_least_size",
]

# Measured: on five labelled sets everything from 2 to 6 beats k-means with the true number on adjusted mutual
# information; 4 is best on the mean of the five and comes nearest to the labels' number, and the silhouette
# rises up to it. Where few bunches lie clearly apart, 4 cuts them up, and the silhouette says so.
RESOLUTIONS = (1.0, 2.0, 4.0)
CRITERION = "the finest whose simplified silhouette, times the share in a cluster, is two thirds of the best"
_MUCH_WORSE = 2 / 3  # clear bunches that are cut up keep less than half; among diffuse ones little decides
_LEAST_SIZE = 5  # passages
_NONE = -1.0  # the silhouette where fewer than two communities are kept
_SAMPLE = 20_000  # vectors whose silhouettes decide
_BLOCK = 65_536
_HALVINGS = 32


class Communities(NamedTuple):
    """Communities of the neighbour graph."""

    labels: NDArray[np.int32]  # (m,)
    resolution: float  # that they were found with
    recall: float  # the share of the true neighbours that the graph has


def usual_least_size(passages: int) -> int:
    """Where nobody says: 5 passages; of fewer than 50 a tenth, but at least 2."""
    return max(2, min(_LEAST_SIZE, passages // 10))


def graph_communities(
    given: Distinct,
    neighbours: int,
    resolution: float | None = None,
    *,
    least_size: int = 1,
    listener: ProgressListener = unheard,
) -> Communities:
    """Find communities by the Louvain algorithm on the weighted graph of each vector's neighbours.

    resolution: higher gives more and smaller ones; None = of 1, 2 and 4 the highest whose simplified
    silhouette (see `scores.silhouette`), times the share of vectors in a cluster, over up to 20,000 of them,
    is two thirds of the best or more
    least_size: passages; the vectors of a smaller community are outliers to that choice

    Copies count once. Sequential and without chance: the same graph gives the same communities on any number
    of threads. Blondel et al. 2008, https://arxiv.org/abs/0803.0476, by scikit-network (whose Leiden draws
    from the C library's `rand`, which no seed of its own governs); modularity with a resolution: Reichardt &
    Bornholdt 2006, https://doi.org/10.1103/PhysRevE.74.016110. NearsayError without scikit-network.
    """
    if len(given) < 3:
        return Communities(np.zeros(len(given), dtype=np.int32), resolution or RESOLUTIONS[0], 1.0)
    graph = cluster_graph(given.points, neighbours, listener=listener)
    weights = fuzzy_weights(graph)
    finest = RESOLUTIONS[-1] if resolution is None else resolution
    listener(Progress(0, None, "finding communities", "passages"))
    labels = _louvain(finest).fit_predict(weights).astype(np.int32)
    if resolution is None:
        chosen = _resolution(given, weights, labels, least_size)
        if chosen != finest:
            finest, labels = chosen, _louvain(chosen).fit_predict(weights).astype(np.int32)
    return Communities(labels, finest, graph.recall)


def _resolution(
    given: Distinct,
    weights: Any,  # noqa: ANN401 - scipy has no types
    finest: NDArray[np.int32],
    least_size: int,
) -> float:
    """The resolution by CRITERION.

    Of the coarser ones only how good they are is asked, so that merging the finest communities is enough:
    that takes a twentieth of the time (117,659 vectors), and on five sets its silhouette was up to 17 %
    below what finding communities among the vectors themselves gives; the third that decides is more.
    """
    from scipy import sparse

    there = np.ones(finest.size)
    members = sparse.csr_matrix((there, (np.arange(finest.size, dtype=np.int32), finest)))
    merged = (members.T @ weights @ members).tocsr()
    reached = [
        (one, _silhouette(given, _louvain(one).fit_predict(merged).astype(np.int32)[finest], least_size))
        for one in RESOLUTIONS[:-1]
    ]
    reached.append((RESOLUTIONS[-1], _silhouette(given, finest, least_size)))
    best = max(silhouette for _, silhouette in reached)
    if best == _NONE:
        return RESOLUTIONS[0]
    return next(one for one, silhouette in reversed(reached) if silhouette >= min(best, _MUCH_WORSE * best))


def _silhouette(given: Distinct, labels: NDArray[np.int32], least_size: int) -> float:
    """The mean of the first vectors, a random sample, times the share of them in a community that is kept.

    An outlier's is 0. Without the share, half of 70 passages were left out for some clear bunches.
    """
    kept = np.bincount(labels, weights=given.counts) >= least_size
    if kept.sum() < 2:
        return _NONE
    labels = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)[labels]
    middles = centres(given.points, labels)
    places = np.arange(min(len(given), _SAMPLE), dtype=np.int64)
    some = Points.from_array(places, given.points.rows(places))
    values = each_silhouette(some, labels[places], middles)
    return float(values.mean() * (labels[places] >= 0).mean())


def fuzzy_weights(graph: NeighbourGraph) -> Any:  # noqa: ANN401 - scipy has no types
    """How surely two are neighbours where they lie: UMAP's weights, 0 to 1, a symmetric sparse matrix (n, n).

    Each vector's distances are measured from its nearest neighbour and scaled so that its weights sum to
    log2(k): a dense and a sparse region then hold together alike. McInnes et al. 2018, section 3.1 and
    algorithms 2 and 3, https://arxiv.org/abs/1802.03426 (without the vector among its own neighbours).
    """
    from scipy import sparse

    count, k = graph.neighbours.shape
    there = graph.neighbours >= 0
    weights = np.empty((count, k), dtype=np.float32)
    for begin in range(0, count, _BLOCK):
        end = begin + _BLOCK
        distances = np.maximum(1 - graph.cosines[begin:end], 0)
        beyond = np.maximum(distances - distances[:, :1], 0)
        beyond[~there[begin:end]] = np.inf
        weights[begin:end] = np.exp(-beyond / _scales(beyond, float(np.log2(max(k, 2)))))
    rows = np.repeat(np.arange(count, dtype=np.int32), k)[there.ravel()]
    one_way = sparse.csr_matrix(
        (weights[there].astype(np.float64), (rows, graph.neighbours[there])), shape=(count, count)
    )
    other_way = one_way.T.tocsr()
    both = one_way + other_way - one_way.multiply(other_way)
    return both.tocsr()


def _scales(beyond: NDArray[np.float32], total: float) -> NDArray[np.float32]:
    """The scale (n, 1) of each row with which exp(-beyond / scale) sums to `total`, by halving."""
    low = np.full((len(beyond), 1), 1e-6, dtype=np.float32)
    high = np.full((len(beyond), 1), 4, dtype=np.float32)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        large = np.exp(-beyond / middle).sum(axis=1, keepdims=True) > total
        high, low = np.where(large, middle, high), np.where(large, low, middle)
    return high


def _louvain(resolution: float) -> Any:  # noqa: ANN401 - scikit-network has no types
    try:
        from sknetwork.clustering import Louvain
    except ImportError as error:
        raise NearsayError(
            "Communities of the neighbour graph need scikit-network. Install it: pip install scikit-network, "
            "or take another method: kmeans"
        ) from error
    return Louvain(resolution=resolution, return_probs=False, return_aggregate=False)
