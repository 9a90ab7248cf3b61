"""Groups from pairs: of all that hang together, or of those of which every two are a pair."""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["Link", "linked"]


class Link(StrEnum):
    """When passages belong together."""

    TRANSITIVE = "transitive"  # a chain of pairs leads from each to each: connected components
    COMPLETE = "complete"  # every two are a pair: complete linkage, cut at the threshold


def linked(
    count: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    cosines: NDArray[np.float32],
    link: Link,
) -> NDArray[np.int64]:
    """The number of the group (count,) of each of `count` things; 0, 1, … by each group's first.

    first, second, cosines: (m,) the pairs over the threshold, each once

    Complete linkage joins the two groups whose least similar two are most similar, as long as every two of
    both are a pair (Sørensen 1948); of joins that tie, the one with the lower numbers comes first.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = coo_array((np.ones(first.size, dtype=np.int8), (first, second)), shape=(count, count))
    _, component = connected_components(pairs, directed=False)
    component = component.astype(np.int64)
    if link is Link.COMPLETE:
        component = _complete(component, first, second, cosines)
    _, begins, number = np.unique(component, return_index=True, return_inverse=True)
    rank = np.empty(begins.size, dtype=np.int64)
    rank[np.argsort(begins)] = np.arange(begins.size)
    return rank[number]


def _complete(
    component: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    cosines: NDArray[np.float32],
) -> NDArray[np.int64]:
    """The components cut where two of one are no pair; the number of a group is that of its first."""
    group = np.arange(component.size)
    size = np.bincount(component)
    pairs = np.bincount(component[first], minlength=size.size)
    whole = pairs == size * (size - 1) // 2
    lowest = np.full(size.size, component.size)
    np.minimum.at(lowest, component, group)
    group = np.where(whole[component], lowest[component], group)
    order = np.argsort(component[first], kind="stable")
    order = order[~whole[component[first[order]]]]
    bounds = np.flatnonzero(np.diff(component[first[order]], prepend=-1, append=-1))
    for begin, end in pairwise(bounds.tolist()):
        some = order[begin:end]
        for joined, into in _joins(first[some].tolist(), second[some].tolist(), cosines[some].tolist()):
            group[joined] = into
    return group


def _joins(first: list[int], second: list[int], cosines: list[float]) -> Iterator[tuple[list[int], int]]:
    """Members and number of each group of one component."""
    links: dict[int, dict[int, float]] = defaultdict(dict)  # of groups by their first members
    for one, other, cosine in zip(first, second, cosines, strict=True):
        links[one][other] = links[other][one] = cosine
    members = {one: [one] for one in links}
    waiting = [(-cosine, min(a, b), max(a, b)) for a, b, cosine in zip(first, second, cosines, strict=True)]
    heapq.heapify(waiting)
    while waiting:
        less, one, other = heapq.heappop(waiting)
        if links.get(one, {}).get(other) != -less:
            continue  # one of them was joined to something else since
        members[one] += members.pop(other)
        theirs, mine = links.pop(other), links[one]
        del theirs[one], mine[other]
        for third in theirs.keys() | mine.keys():
            if third in theirs:
                del links[third][other]
            if third in mine and third in theirs:
                least = min(mine[third], theirs[third])
                if least != mine[third]:
                    mine[third] = links[third][one] = least
                    heapq.heappush(waiting, (-least, min(one, third), max(one, third)))
            elif third in mine:
                del links[third][one], mine[third]
    yield from ((joined, one) for one, joined in members.items())
