"""Which texts of a training step go through the model together."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["length_groups"]


def length_groups(
    lengths: Sequence[int] | NDArray[np.int64], *, group_cost: int, budget: int
) -> list[NDArray[np.int64]]:
    """Split texts into groups of like length so that the whole costs least.

    lengths:    (texts,) tokens of each text, at least 1
    group_cost: what one more group costs, in tokens: calling the model, and smaller matrices
    budget:     most padded tokens of a group; a longer text is a group of its own
    returns:    arrays of indices into `lengths`, longest texts first, every index exactly once

    A group costs its longest text's tokens times its texts, and `group_cost`. Sorted by length, the best
    groups are ranges, and the best split is found by dynamic programming over where the last one begins.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    sizes = np.asarray(lengths, dtype=np.int64)[order]
    count = len(sizes)
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    begins = np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        starts = np.arange(max(0, end - _widest(budget, sizes[end - 1])), end)
        texts = end - starts
        padded = sizes[starts] * texts
        costs = best[starts] + padded + group_cost
        costs[(padded > budget) & (texts > 1)] = np.inf
        chosen = int(np.argmin(costs))
        best[end], begins[end] = costs[chosen], starts[chosen]
    groups: list[NDArray[np.int64]] = []
    end = count
    while end:
        groups.append(order[begins[end] : end])
        end = int(begins[end])
    return groups[::-1]


def _widest(budget: int, shortest: int) -> int:
    """The most texts of a group whose shortest text has so many tokens."""
    return max(budget // max(shortest, 1), 1)
