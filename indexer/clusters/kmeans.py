"""k-means: so many round clusters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.clusters.content_order import Distinct
from nearsay.indexer.clusters.scores import nearest_centre
from nearsay.indexer.plans.engine import faiss_module
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["Fitted", "kmeans"]

_ITERATIONS = 25
_TRAINED_ON = 100_000  # vectors, or 256 a cluster where that is more
_REPEATS = 3  # from different starts, the best is kept


class Fitted(NamedTuple):
    """Clusters with their centres."""

    labels: NDArray[np.int32]  # (m,)
    centres: NDArray[np.float32]  # (clusters, d) unit length
    cosines: NDArray[np.float32]  # (m,) to the own centre


def kmeans(
    given: Distinct,
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
