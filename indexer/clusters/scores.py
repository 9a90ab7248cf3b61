"""Scores of a clustering: centres, cohesion and separation."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

ROUNDING: Final = 1e-6  # largest difference between two products of the same vectors
_BLOCK = 8192
_PRODUCTS = 2**24  # in memory at a time: 64 MB


def centres(
    points: Points, labels: NDArray[np.int32], weights: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """The mean vector of each cluster at unit length; (clusters, d), outliers (-1) excluded.

    Zeros for an empty cluster, or one whose vectors cancel out.
    """
    return of_unit_length(sums(points, labels, weights))


def sums(
    points: Points, labels: NDArray[np.int32], weights: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """The sum of each cluster's vectors, (clusters, d), outliers (-1) excluded."""
    from scipy import sparse

    count = int(labels.max(initial=-1)) + 1
    found = np.zeros((count, points.dimension), dtype=np.float64)
    for begin, rows in points.blocks(_BLOCK):
        here = labels[begin : begin + len(rows)]
        inside = np.flatnonzero(here >= 0)
        heavy = np.ones(inside.size) if weights is None else weights[begin + inside].astype(np.float64)
        belongs = sparse.csr_array((heavy, (here[inside], inside)), shape=(count, len(rows)))
        found += belongs @ rows.astype(np.float64)
    return found


def of_unit_length(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    """The vectors (n, d) scaled to unit length; nearly zero ones become zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(
        vectors, lengths, out=np.zeros_like(vectors), where=lengths > 1e-9
    ).astype(np.float32)
    return scaled


def own_cosines(
    points: Points, labels: NDArray[np.int32], middles: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Each passage's cosine similarity to its cluster's centre; (n,), 0 for outliers."""
    cosines = np.zeros(len(points), dtype=np.float32)
    for begin, rows in points.blocks(_BLOCK):
        here = labels[begin : begin + len(rows)]
        inside = np.flatnonzero(here >= 0)
        cosines[begin + inside] = np.einsum("ij,ij->i", rows[inside], middles[here[inside]])
    return cosines


def silhouette(
    points: Points, labels: NDArray[np.int32], middles: NDArray[np.float32]
) -> NDArray[np.float64]:
    """The mean simplified silhouette of each cluster; (clusters,), between -1 and 1.

    A passage's value is (b - a) / max(a, b), with the cosine distance (1 - cosine) a to its own centre and b
    to the nearest other one: exact, in one pass, where the full silhouette compares all pairs (Hruschka et
    al. 2004, "Evolutionary algorithms for clustering gene-expression data"; Vendramin et al. 2010,
    https://doi.org/10.1002/sam.10080). NaN with fewer than two clusters.
    """
    if len(middles) < 2:
        return np.full(len(middles), np.nan)
    return mean_of_each(each_silhouette(points, labels, middles), labels, len(middles))


def each_silhouette(
    points: Points, labels: NDArray[np.int32], middles: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The simplified silhouette of every passage (see `silhouette`); (n,), 0 for outliers."""
    values = np.zeros(len(points), dtype=np.float32)
    for begin, rows in points.blocks(_rows_at_once(len(middles))):
        here = labels[begin : begin + len(rows)]
        inside = np.flatnonzero(here >= 0)
        distances = 1 - rows[inside] @ middles.T
        at = np.arange(inside.size), here[inside]
        own = np.maximum(distances[at], 0)
        distances[at] = np.inf
        other = np.maximum(distances.min(axis=1), 0)
        larger = np.maximum(own, other)
        values[begin + inside] = np.divide(
            other - own, larger, out=np.zeros_like(larger), where=larger > 1e-7
        )
    return values


def nearest_centre(
    points: Points, middles: NDArray[np.float32], *, listener: ProgressListener = unheard
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Each passage's nearest cluster centre, and the cosine similarity to it; (n,) each."""
    labels = np.empty(len(points), dtype=np.int32)
    cosines = np.empty(len(points), dtype=np.float32)
    for begin, rows in points.blocks(_rows_at_once(len(middles))):
        end = begin + len(rows)
        products = rows @ middles.T
        labels[begin:end] = products.argmax(axis=1)
        cosines[begin:end] = products[np.arange(len(rows)), labels[begin:end]]
        listener(Progress(end, len(points), "assigning to clusters", "passages"))
    return labels, cosines


def _rows_at_once(clusters: int) -> int:
    return max(64, min(_BLOCK, _PRODUCTS // max(clusters, 1)))


def mean_of_each(
    values: NDArray[np.float32], labels: NDArray[np.int32], clusters: int
) -> NDArray[np.float64]:
    """The mean of each cluster's values (n,), outliers excluded; (clusters,), 0 for an empty one."""
    inside = labels >= 0
    sums = np.bincount(labels[inside], weights=values[inside], minlength=clusters)
    sizes = np.bincount(labels[inside], minlength=clusters)
    return sums / np.maximum(sizes, 1)
