"""The clusters that passages would fall into that came after the clustering."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.clusters.scores import centres, own_cosines
from nearsay.indexer.neighbours.points import Points

__all__ = ["nearest_clusters"]

_BLOCK = 4096
_SLACK = 1e-6  # by which two products of the same vectors may differ


def nearest_clusters(
    points: Points, labels: NDArray[np.int32], others: Points, places: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The cluster whose centre is nearest to each passage; -1 if no member is as far from it as the passage.

    points, labels: the passages that were clustered and the clusters' numbers (n,), negative for none
    others, places: those that are asked about, (m,) places among other points
    """
    numbers, codes = np.unique(labels, return_inverse=True)
    inside = numbers >= 0
    numbers = numbers[inside]
    if not numbers.size:
        return np.full(places.size, -1, dtype=np.int32)
    own = (codes - np.count_nonzero(~inside)).astype(np.int32)
    own[own < 0] = -1
    middles = centres(points, own)
    members = own >= 0
    farthest = np.full(numbers.size, np.inf, dtype=np.float32)
    np.minimum.at(farthest, own[members], own_cosines(points, own, middles)[members])
    found = np.full(places.size, -1, dtype=np.int32)
    for begin in range(0, places.size, _BLOCK):
        cosines = others.rows(places[begin : begin + _BLOCK]) @ middles.T
        best = cosines.argmax(axis=1)
        near = cosines[np.arange(best.size), best] >= farthest[best] - _SLACK
        found[begin : begin + best.size] = np.where(near, numbers[best], -1)
    return found
