"""Passages that were not laid out, put onto a map among those that were; nobody else moves."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.membership import memberships
from nearsay.indexer.maps.nearest import nearest_anchors
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.progress import ProgressListener, unheard

__all__ = ["projected", "weighted_places"]


def projected(
    new: Points,
    anchors: Points,
    places: NDArray[np.float32],
    neighbours: int,
    *,
    listener: ProgressListener = unheard,
) -> NDArray[np.float32]:
    """The place of each new passage: the weighted mean of those of its nearest laid-out neighbours.

    places: (m, 2) of the anchors, the passages that were laid out; returns: (n, 2)
    """
    near, cosines = nearest_anchors(new, anchors, neighbours, listener=listener)
    return weighted_places(np.maximum(1.0 - cosines, 0.0), near, places)


def weighted_places(
    distances: NDArray[np.float32], near: NDArray[np.int64], places: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The mean of the neighbours' places, weighted as umap-learn weights them where it begins to transform.

    distances: (n, k) cosine distances to the neighbours; near: (n, k) which places; places: (m, 2).
    A point with the same vector as a neighbour takes its place.
    """
    distances = np.where(distances < 1e-6, 0.0, distances).astype(np.float32)  # copies, but for rounding
    weights = memberships(distances, from_nearest=False)
    same = distances[:, 0] == 0.0
    weights[same] = 0.0
    weights[same, 0] = 1.0
    total = weights.sum(axis=1, keepdims=True)
    weights = np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), 1.0 / weights.shape[1])
    found: NDArray[np.float32] = np.einsum("nk,nkd->nd", weights, places[near]).astype(np.float32)
    return found
