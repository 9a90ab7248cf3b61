"""Which of a group stands for it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Vectors

__all__ = ["by_centrality"]

_DIGITS = 6  # of a cosine: what differs by less is as central, and the earliest is taken
_BLOCK = 16_384  # vectors in memory at a time


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
    wanted = np.flatnonzero(size[group] > 1)
    if not wanted.size:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    wanted = wanted[np.argsort(group[wanted], kind="stable")]  # each group's things together
    groups, number = np.unique(group[wanted], return_inverse=True)
    places = np.argsort(things, kind="stable")
    bounds = np.searchsorted(things[places], np.arange(group.size + 1))
    central = _centralities(points, wanted, number, places, bounds)
    place = places[bounds[wanted]]
    earliest = np.full(groups.size, things.size)
    np.minimum.at(earliest, number, place)
    order = np.lexsort((place, -central, earliest[number], -size[groups][number]))
    starts = np.flatnonzero(np.diff(number[order], prepend=-1, append=-1))
    return starts.astype(np.int64), place[order].astype(np.int64)


def _centralities(
    points: Vectors,
    wanted: NDArray[np.int64],
    number: NDArray[np.int64],
    places: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The cosine (m,) of each wanted thing to the middle of its group, rounded.

    wanted: (m,) things, those of a group together; number: (m,) the group of each, rising
    places: those of each thing together, bounds: (things + 1,) where each thing's begin
    """
    central = np.empty(wanted.size)
    first = np.flatnonzero(np.diff(number, prepend=-1, append=-1))  # of each group
    begin = 0
    while begin < first.size - 1:  # whole groups, as many as fit, or one that does not
        full = int(np.searchsorted(first, first[begin] + _BLOCK, side="right")) - 1
        end = max(begin + 1, full)
        some = np.arange(first[begin], first[end])
        middles = np.zeros((end - begin, points.dimension))
        for part, means in _means(points, some, wanted, places, bounds):
            np.add.at(middles, number[part] - begin, means)
        middles /= np.maximum(np.linalg.norm(middles, axis=1, keepdims=True), 1e-12)
        for part, means in _means(points, some, wanted, places, bounds):
            central[part] = np.einsum("ij,ij->i", means, middles[number[part] - begin])
        begin = end
    return np.round(central, _DIGITS)


def _means(
    points: Vectors,
    some: NDArray[np.int64],
    wanted: NDArray[np.int64],
    places: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Some of the wanted things a block at a time, and the unit-length mean of each one's vectors."""
    for begin in range(0, some.size, _BLOCK):
        part = some[begin : begin + _BLOCK]
        held = bounds[wanted[part] + 1] - bounds[wanted[part]]
        row = np.repeat(np.arange(part.size), held)
        its = places[np.repeat(bounds[wanted[part]] - np.cumsum(held) + held, held) + np.arange(row.size)]
        means = np.zeros((part.size, points.dimension))
        for first in range(0, row.size, _BLOCK):
            np.add.at(means, row[first : first + _BLOCK], points.rows(its[first : first + _BLOCK]))
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        yield part, means
