"""The tree that single linkage makes of dense regions, and the clusters that last longest in it."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["excess_of_mass", "single_linkage"]


def single_linkage(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which two nodes each edge of a spanning tree joins, edges by rising length.

    rows, columns: (m - 1,) ends, 0 to m - 1; returns (m - 1, 2): node m + i is what edge i makes
    """
    count = rows.size + 1
    above = list(range(2 * count - 1))
    joined = []
    for new, (a, b) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True), start=count):
        pair = []
        for node in (a, b):
            root = node
            while above[root] != root:
                above[root] = above[above[root]]  # halve the way for the next
                root = above[root]
            pair.append(root)
            above[root] = new
        joined.append(pair)
    return np.array(joined, dtype=np.int64).reshape(-1, 2)


def excess_of_mass(
    merges: NDArray[np.int64],
    lengths: NDArray[np.float64],
    counts: NDArray[np.int64],
    least_size: int,
) -> NDArray[np.int32]:
    """The cluster (m,) of each vector, -1 for an outlier; clusters are numbered in the tree's order.

    A node whose two parts both have `least_size` passages splits into two clusters; a smaller part falls out
    of its cluster. Of a cluster and those under it, those with more mass are taken: each passage adds
    1 / length at which it leaves less 1 / length at which the cluster began (Campello et al. 2013, sections
    4 and 5). The whole is never one cluster.

    merges: (m - 1, 2) see `single_linkage`; lengths: (m - 1,) rising, over 0; counts: (m,) copies
    """
    count = counts.size
    sizes = [*counts.tolist(), *([0] * (count - 1))]
    joined, density = merges.tolist(), (1 / lengths).tolist()
    for node, (a, b) in enumerate(joined, start=count):
        sizes[node] = sizes[a] + sizes[b]
    top = 2 * count - 2
    cluster = [0] * (top + 1)  # that a node is in or fell out of
    fallen = [False] * (top + 1)
    begun, mass, parent = [0.0], [0.0], [-1]
    for node in range(top, -1, -1):
        own = cluster[node]
        if node < count:
            if not fallen[node]:  # copies that are a cluster by themselves
                mass[own] += sizes[node] * (density[0] - begun[own])
            continue
        a, b = joined[node - count]
        at = density[node - count]
        splits = not fallen[node] and sizes[a] >= least_size and sizes[b] >= least_size
        for part in (a, b):
            cluster[part] = own
            fallen[part] = fallen[node]
            if splits:
                cluster[part] = len(begun)
                begun.append(at)
                mass.append(0.0)
                parent.append(own)
            elif not fallen[node] and sizes[part] < least_size:
                fallen[part] = True
                mass[own] += sizes[part] * (at - begun[own])
        if splits:
            mass[own] += sizes[node] * (at - begun[own])
    return _longest_lasting(np.array(cluster[:count]), mass, parent)


def _longest_lasting(cluster: NDArray[np.int64], mass: list[float], parent: list[int]) -> NDArray[np.int32]:
    """Where the clusters with most mass, none in another, put each vector."""
    under = [0.0] * len(mass)  # the mass of the best of what is under each
    taken = [True] * len(mass)
    for own in range(len(mass) - 1, 0, -1):  # children stand after their parents
        if under[own] > mass[own]:
            taken[own] = False
        under[parent[own]] += max(under[own], mass[own])
    number = [-1] * len(mass)
    found = 0
    for own in range(1, len(mass)):
        if number[parent[own]] >= 0:
            number[own] = number[parent[own]]
        elif taken[own]:
            number[own] = found
            found += 1
    return np.array(number, dtype=np.int32)[cluster]
