"""Which texts of a training step go through the model together."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_cost", "length_groups"]

_GROUP_COST = {"cpu": 100}  # tokens: measured for a MiniLM on two cores
_GPU_GROUP_COST = 4_000


def group_cost(device: str) -> int:
    """What one more group costs on a kind of device, in tokens."""
    return _GROUP_COST.get(device, _GPU_GROUP_COST)


def length_groups(
    lengths: Sequence[int] | NDArray[np.int64], *, group_cost: int, budget: int
) -> list[NDArray[np.int64]]:
    """Split texts into groups of like length so that the whole costs least.

    lengths:    (texts,) tokens of each text as they are padded, at least 1
    group_cost: what one more group costs, in tokens: calling the model, and smaller matrices
    budget:     most padded tokens of a group; a longer text is a group of its own
    returns:    arrays of indices into `lengths`, longest texts first, every index exactly once

    A group costs its longest text's tokens times its texts, and `group_cost`. Sorted by length, the best
    groups are ranges that begin where a length begins: a text never costs less with longer ones than with
    those of its own length. So the best split is found by dynamic programming over the different lengths,
    however many texts there are. Where the budget forces a cut among texts of one length, groups are filled
    from the first of them on, which may take one group more for each length than the best split has.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    sizes = np.asarray(lengths, dtype=np.int64)[order]
    cuts = _cuts(sizes, budget)
    best = np.full(len(cuts), np.inf)
    best[0] = 0.0
    begins = np.zeros(len(cuts), dtype=np.int64)
    for end in range(1, len(cuts)):
        texts = cuts[end] - cuts[:end]
        padded = sizes[cuts[:end]] * texts
        costs = best[:end] + padded + group_cost
        costs[(padded > budget) & (texts > 1)] = np.inf
        begins[end] = np.argmin(costs)
        best[end] = costs[begins[end]]
    groups: list[NDArray[np.int64]] = []
    end = len(cuts) - 1
    while end:
        groups.append(order[cuts[begins[end]] : cuts[end]])
        end = int(begins[end])
    return groups[::-1]


def _cuts(sizes: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
    """Where groups may begin and end: where a length does, and where a group from there on is full.

    sizes: (texts,), longest first
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(sizes)) + 1])
    ends = np.append(starts[1:], len(sizes))
    cuts = [ends[-1:]]
    for start, end in zip(starts, ends, strict=True):
        most = max(budget // sizes[start], 1)
        cuts.append(np.arange(start, end + most, most))
    return np.unique(np.minimum(np.concatenate(cuts), len(sizes)))
