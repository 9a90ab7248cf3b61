"""Agglomerative clustering: merged pair by pair, for small sets."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.clusters.content_order import Distinct
from nearsay.indexer.clusters.options import Linkage
from nearsay.indexer.progress import Progress, ProgressListener, unheard

__all__ = ["MOST", "Merged", "agglomerative", "check"]

MOST = 20_000  # different passages: 1.6 GB of distances, twice


class Merged(NamedTuple):
    """Clusters and the dendrogram that they were cut from."""

    labels: NDArray[np.int32]  # (m,)
    merges: NDArray[np.float64]  # (m - 1, 4) scipy's linkage matrix: two numbers, their distance, how many


def check(count: int, threshold: float | None, linkage: Linkage) -> None:
    """BadInputError for what `agglomerative` cannot do."""
    if count > MOST:
        raise BadInputError(
            f"agglomerative clustering holds all distances at once: {count} different passages are more "
            f"than {MOST}. Narrow them by a filter, or take another method: graph or kmeans"
        )
    if threshold is not None and linkage is Linkage.WARD:
        raise BadInputError(
            f"threshold = {threshold} is a cosine similarity, and Ward's distances are none. "
            "Take the linkage average or complete, or give the number of clusters"
        )


def agglomerative(
    given: Distinct,
    clusters: int | None,
    threshold: float | None,
    linkage: Linkage,
    *,
    listener: ProgressListener = unheard,
) -> Merged:
    """Merge the two closest clusters until there are so many, or none within a cosine similarity.

    Ward's distance is Euclidean; the mean and the largest are cosine distances (1 - cosine). Copies count
    once. BadInputError for more than 20,000 different passages, since all distances are held at once.
    """
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import pdist

    check(len(given), threshold, linkage)
    if len(given) < 2:
        return Merged(np.zeros(len(given), dtype=np.int32), np.zeros((0, 4)))
    listener(Progress(0, len(given), "merging clusters", "passages"))
    vectors = given.points.rows(np.arange(len(given))).astype(np.float64)
    distances = pdist(vectors, "sqeuclidean")
    if linkage is Linkage.WARD:
        np.sqrt(distances, out=distances)
    else:
        distances /= 2  # of unit vectors: 1 - cosine
    merges: NDArray[np.float64] = hierarchy.linkage(distances, str(linkage))
    listener(Progress(len(given), len(given), "merging clusters", "passages"))
    if threshold is not None:
        found = hierarchy.fcluster(merges, 1 - threshold, criterion="distance")
    else:
        found = hierarchy.fcluster(merges, clusters or 1, criterion="maxclust")
    return Merged(found.astype(np.int32) - 1, merges)
