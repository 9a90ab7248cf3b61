"""Passages that were not laid out, put onto a map among those that were; nobody else moves."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.layout import settled
from nearsay.indexer.maps.membership import memberships
from nearsay.indexer.maps.nearest import nearest_anchors
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import ProgressListener, unheard

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["projected", "weighted_places"]

_ROUNDING = 1e-6  # a cosine distance below is that of a copy
_ROUNDS, _FEW_ROUNDS = 100, 30  # as umap-learn transforms up to 10,000 points, and more
_MANY = 10_000
_SHARE = 0.25  # of a layout's first steps, as there
_LEAST = 16  # anchors; among fewer there is nothing to be pushed off from


def projected(
    new: Points,
    anchors: Points,
    places: NDArray[np.float32],
    neighbours: int,
    seed: int,
    *,
    listener: ProgressListener = unheard,
) -> NDArray[np.float32]:
    """The place of each new passage among the passages that were laid out.

    places: (m, 2) of the anchors, the passages that were laid out; returns: (n, 2). Each begins in the
    weighted mean of its nearest anchors and is then moved as in a layout while they stay, as umap-learn
    transforms; it knows nothing of the other new ones. A passage with an anchor's vector has its place.
    """
    near, cosines = nearest_anchors(new, anchors, neighbours, listener=listener)
    distances = _distances(cosines)
    begun = weighted_places(distances, near, places)
    copies = distances[:, 0] == 0.0
    weights = memberships(distances, from_nearest=False)
    weights[copies] = 0.0
    if copies.all() or len(anchors) < _LEAST:
        return begun
    together = np.concatenate([places, begun])
    graph = _towards_anchors(near, weights, len(anchors))
    rounds = _ROUNDS if len(new) <= _MANY else _FEW_ROUNDS
    settled_places = settled(
        graph, together, rounds=rounds, seed=seed, first_share=_SHARE, fixed=len(anchors), listener=listener
    )
    return settled_places[len(anchors) :]


def _towards_anchors(near: NDArray[np.int64], weights: NDArray[np.float64], anchors: int) -> "csr_matrix":
    """The graph (anchors + n, anchors + n) in which each new point knows its anchors; nobody knows more."""
    from scipy.sparse import csr_matrix

    count = anchors + len(near)
    rows = np.repeat(np.arange(anchors, count), near.shape[1])
    return csr_matrix((weights.ravel(), (rows, near.ravel())), shape=(count, count))


def _distances(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine distances; what is nothing but rounding is none."""
    distances = np.maximum(1.0 - cosines, 0.0)
    found: NDArray[np.float32] = np.where(distances < _ROUNDING, 0.0, distances).astype(np.float32)
    return found


def weighted_places(
    distances: NDArray[np.float32], near: NDArray[np.int64], places: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The mean of the neighbours' places, weighted as umap-learn weights them where it begins to transform.

    distances: (n, k) cosine distances to the neighbours; near: (n, k) which places; places: (m, 2).
    A point with the same vector as a neighbour takes its place.
    """
    weights = memberships(distances, from_nearest=False)
    same = distances[:, 0] == 0.0
    weights[same] = 0.0
    weights[same, 0] = 1.0
    total = weights.sum(axis=1, keepdims=True)
    weights = np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), 1.0 / weights.shape[1])
    found: NDArray[np.float32] = np.einsum("nk,nkd->nd", weights, places[near]).astype(np.float32)
    return found
