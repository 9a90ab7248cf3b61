"""Density clustering: HDBSCAN on the neighbour graph; what lies alone is an outlier."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.clusters.cluster_graph import cluster_graph
from nearsay.indexer.clusters.content_order import Distinct
from nearsay.indexer.clusters.density_tree import excess_of_mass, single_linkage
from nearsay.indexer.clusters.scores import centres
from nearsay.indexer.neighbours.graph import NeighbourGraph
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.progress import Progress, ProgressListener, unheard

__all__ = ["CLOSEST", "LEAST_SIZE", "density_clusters"]

LEAST_SIZE = 10
CLOSEST = 0.05  # Euclidean, a cosine of .99875: what is closer counts as this far, lest copies decide alone
_FARTHEST = 2.0
_MOST_NEIGHBOURS = 100  # looked for when many passages make a cluster
_JOINED = 2000  # components of the graph whose centres are compared
_LOOKED_AT = 1000  # vectors of each, a random sample, among which the one nearest to the other is looked for


def density_clusters(
    given: Distinct,
    least_size: int,
    neighbours: int,
    *,
    listener: ProgressListener = unheard,
) -> NDArray[np.int32]:
    """The cluster (m,) of each vector, -1 for an outlier.

    HDBSCAN (Campello et al. 2013, https://doi.org/10.1007/978-3-642-37456-2_14) with the excess of mass, over
    Euclidean distances of the unit vectors. The core distance is that to the passage with which there are
    `least_size` of them, or to the last of the neighbours that the graph has; copies count as often as they
    are there. Edges are those of the graph (with as many neighbours as there are vectors it is HDBSCAN
    exactly); parts that it leaves unconnected are joined where their centres are nearest.
    """
    if len(given) < 2:
        return np.full(len(given), -1, dtype=np.int32)
    graph = cluster_graph(
        given.points, max(neighbours, min(least_size - 1, _MOST_NEIGHBOURS)), listener=listener
    )
    listener(Progress(0, len(given), "finding dense regions", "passages"))
    distances = np.sqrt(np.maximum(2 - 2 * graph.cosines.astype(np.float64), 0))
    core = _core_distances(graph, distances, given.counts, least_size)
    rows, columns, lengths = _spanning_edges(given, graph, distances, core)
    listener(Progress(len(given) // 2, len(given), "finding dense regions", "passages"))
    order = np.lexsort((columns, rows, lengths))
    merges = single_linkage(rows[order], columns[order])
    labels = excess_of_mass(merges, np.maximum(lengths[order], CLOSEST), given.counts, least_size)
    listener(Progress(len(given), len(given), "finding dense regions", "passages"))
    return labels


def _core_distances(
    graph: NeighbourGraph, distances: NDArray[np.float64], counts: NDArray[np.int64], samples: int
) -> NDArray[np.float64]:
    """The distance (m,) within which each vector has `samples` passages, itself and its copies counted."""
    around = np.where(graph.neighbours >= 0, counts[graph.neighbours], 0).cumsum(axis=1) + counts[:, None]
    enough = around >= samples
    first = np.where(enough.any(axis=1), enough.argmax(axis=1), (graph.neighbours >= 0).sum(axis=1) - 1)
    core: NDArray[np.float64] = distances[np.arange(len(distances)), first]
    core[counts >= samples] = 0
    return core


def _spanning_edges(
    given: Distinct, graph: NeighbourGraph, distances: NDArray[np.float64], core: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The m - 1 edges of the least spanning tree under mutual reachability: both ends and the lengths."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    count, k = graph.neighbours.shape
    there = graph.neighbours >= 0
    rows = np.repeat(np.arange(count, dtype=np.int32), k)[there.ravel()]
    columns = graph.neighbours[there]
    lengths = np.maximum(np.maximum(core[rows], core[columns]), distances[there])
    shift = 1e-9  # a length of 0 is no edge to scipy
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    _, kept = np.unique(low.astype(np.int64) * count + high, return_index=True)
    edges = sparse.csr_array((lengths[kept] + shift, (low[kept], high[kept])), shape=(count, count))
    parts, part = connected_components(edges, directed=False)
    tree = minimum_spanning_tree(edges).tocoo()
    ends = [tree.row.astype(np.int64)], [tree.col.astype(np.int64)], [tree.data - shift]
    if parts > 1:
        for into, joining in zip(
            ends, _joining_edges(given.points, part.astype(np.int32), core), strict=True
        ):
            into.append(joining)
    return np.concatenate(ends[0]), np.concatenate(ends[1]), np.concatenate(ends[2])


def _joining_edges(
    points: Points, part: NDArray[np.int32], core: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Edges that join the parts of a graph, between those of their vectors nearest to the other's centre."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    sizes = np.bincount(part)
    largest = np.argsort(-sizes, kind="stable")
    _, first = np.unique(part, return_index=True)
    a, b, lengths = [], [], []
    some = largest[:_JOINED]
    middles = centres(points, part)[some]
    apart = np.sqrt(np.maximum(2 - 2 * middles.astype(np.float64) @ middles.T, 0)) + 1e-6
    tree = minimum_spanning_tree(np.triu(apart, 1)).tocoo()
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(sizes)[:-1])
    for one, other in zip(tree.row, tree.col, strict=True):
        here, there = members[some[one]][:_LOOKED_AT], members[some[other]][:_LOOKED_AT]
        left = here[int((points.rows(here) @ middles[other]).argmax())]
        right = there[int((points.rows(there) @ middles[one]).argmax())]
        between = points.rows(np.array([left, right]))
        distance = float(np.linalg.norm(between[0] - between[1]))
        a.append(int(left))
        b.append(int(right))
        lengths.append(max(distance, float(core[left]), float(core[right])))
    for lone in largest[_JOINED:]:  # so many parts are no clusters: as far away as can be
        a.append(int(first[largest[0]]))
        b.append(int(first[lone]))
        lengths.append(_FARTHEST)
    return np.array(a, dtype=np.int64), np.array(b, dtype=np.int64), np.array(lengths)
