"""Rows spread over batches so that no two rows of a batch share a text."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spread"]

_PROBES: Final = 200  # batches that are tried for one row
_STRIDES: Final = 64  # different orders in which texts walk over the batches


class Spread:
    """One try to place every row in a batch, by chance and then by exchange."""

    def __init__(self, rows: int, sizes: NDArray[np.int64], limit: int, random: np.random.Generator) -> None:
        """`sizes`: (batches,) rows wanted in each, `rows` in sum; `limit`: rows that a batch may have."""
        self.place: NDArray[np.int64] = np.full(rows, -1, np.int64)
        """(rows,) the batch of each row; -1 = not yet placed."""
        self._room: list[int] = sizes.tolist()  # places left of those wanted
        self._sizes = sizes
        self._limit = limit
        self._random = random
        self._held: dict[int, set[int]] = {}  # batch to the shared texts in it

    def place_apart(self, shared: Mapping[int, tuple[int, ...]], often: Mapping[int, int]) -> bool:
        """Place all rows; False if some could not be placed.

        shared: row to the numbers of the texts it has in common with other rows; rows without are not in it
        often: how many rows hold each such text
        """
        left = self._walk(shared, often)
        self._fill(shared)
        return not left or self._exchange(left, shared)

    def _walk(self, shared: Mapping[int, tuple[int, ...]], often: Mapping[int, int]) -> list[int]:
        """Place the rows that share texts, those with the commonest text first; gives those left over."""
        if not shared:
            return []
        random, count = self._random, len(self._room)
        rows = np.fromiter(shared, np.int64, len(shared))
        random.shuffle(rows)
        common = {row: max(shared[row], key=lambda text: (often[text], text)) for row in rows.tolist()}
        order: list[int] = sorted(common, key=lambda row: -often[common[row]])  # stable: chance decides ties
        strides = _strides(count, random)
        # where each text's rows are: the next batch to try, and how far the one after it is
        walks: dict[int, tuple[int, int]] = {}
        starts: list[int] = random.integers(count, size=len(order)).tolist()
        left: list[int] = []
        for number, row in enumerate(order):
            texts, text = shared[row], common[row]
            batch, stride = walks.get(text) or (starts[number], strides[number % len(strides)])
            for _ in range(min(count, _PROBES)):
                found, batch = batch, (batch + stride) % count
                if self._room[found] and self._fits(texts, found):
                    self._put(row, texts, found)
                    self._room[found] -= 1
                    break
            else:
                left.append(row)
            walks[text] = (batch, stride)
        return left

    def _fill(self, shared: Mapping[int, tuple[int, ...]]) -> None:
        """Put the rows that share nothing where there is room."""
        free = np.flatnonzero(self.place < 0)
        if shared:
            free = free[~np.isin(free, np.fromiter(shared, np.int64, len(shared)))]
        places = self._random.permutation(np.repeat(np.arange(len(self._room)), self._room))
        self.place[free] = places[: len(free)]
        self._open = places[len(free) :].tolist()  # batches with room, once for each place

    def _exchange(self, left: Sequence[int], shared: Mapping[int, tuple[int, ...]]) -> bool:
        members: list[list[int]] = [[] for _ in self._room]
        for row, batch in enumerate(self.place.tolist()):
            if batch >= 0:
                members[batch].append(row)
        return all(self._place_late(row, shared, members) for row in left) and all(members)

    def _place_late(self, row: int, shared: Mapping[int, tuple[int, ...]], members: list[list[int]]) -> bool:
        """Place a row in a batch with room, or in one that passes another row on to a batch with room."""
        texts = shared[row]
        target = self._open_for(texts)
        if target is not None:
            self._open.remove(target)
            self._put(row, texts, target)
            members[target].append(row)
            return True
        tried: list[int] = self._random.integers(len(self._room), size=_PROBES).tolist()
        for batch in tried:
            if not self._fits(texts, batch):
                continue
            for other in members[batch]:
                passed = shared.get(other, ())
                target = self._open_for(passed)
                if target is None:
                    continue
                self._open.remove(target)
                self._held.setdefault(batch, set()).difference_update(passed)
                members[batch].remove(other)
                self._put(other, passed, target)
                members[target].append(other)
                self._put(row, texts, batch)
                members[batch].append(row)
                return True
            if len(members[batch]) < self._limit:
                self._put(row, texts, batch)
                members[batch].append(row)
                return True
        return False

    def _open_for(self, texts: tuple[int, ...]) -> int | None:
        return next((batch for batch in self._open[:_PROBES] if self._fits(texts, batch)), None)

    def _fits(self, texts: tuple[int, ...], batch: int) -> bool:
        held = self._held.get(batch)
        return held is None or held.isdisjoint(texts)

    def _put(self, row: int, texts: tuple[int, ...], batch: int) -> None:
        self.place[row] = batch
        if texts:
            self._held.setdefault(batch, set()).update(texts)


def _strides(count: int, random: np.random.Generator) -> list[int]:
    """Draw steps with which a walk over `count` batches comes to each of them."""
    drawn = random.integers(1, max(count, 2), size=4 * _STRIDES).tolist()
    return [step for step in drawn if math.gcd(step, count) == 1][:_STRIDES] or [1]
