"""Which of a group stands for it."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Vectors

__all__ = ["by_centrality"]

_DIGITS = 6  # of a cosine: what differs by less is as central, and the earliest is taken
_BLOCK = 16_384


def by_centrality(
    points: Vectors, things: NDArray[np.int64], group: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Groups of two things and more, the largest first, each from its most central thing to its least.

    things: (n,) what each place belongs to, 0, 1, …; group: (things,) the group of each
    returns: where each group begins (groups + 1,), and for each thing of a group its first place

    A thing is its mean vector, as central as its cosine to the mean of the group's things; of those that are
    as central the one that was added first comes first. Groups of one size stand by their earliest thing.
    """
    size = np.bincount(group, minlength=1)
    wanted = size[group] > 1
    if not wanted.any():
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    row = np.cumsum(wanted) - 1
    means = np.zeros((int(wanted.sum()), points.dimension), dtype=np.float32)
    places = np.flatnonzero(wanted[things])
    for begin in range(0, places.size, _BLOCK):
        some = places[begin : begin + _BLOCK]
        np.add.at(means, row[things[some]], points.rows(some))
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.float32(1e-12))
    groups, number = np.unique(group[wanted], return_inverse=True)
    middles = np.zeros((groups.size, points.dimension))
    np.add.at(middles, number, means)
    middles /= np.maximum(np.linalg.norm(middles, axis=1, keepdims=True), 1e-12)
    central = np.round(np.einsum("ij,ij->i", means, middles[number]), _DIGITS)
    first = np.full(group.size, things.size)
    np.minimum.at(first, things, np.arange(things.size))
    place = first[wanted]
    earliest = np.full(groups.size, things.size)
    np.minimum.at(earliest, number, place)
    order = np.lexsort((place, -central, earliest[number], -size[groups][number]))
    ordered = number[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1, append=-1))
    return starts.astype(np.int64), place[order].astype(np.int64)
