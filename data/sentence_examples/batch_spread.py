"""Rows spread over batches so that no two rows of a batch share a text."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.sentence_examples.shared_texts import SharedTexts

__all__ = ["Spread"]

_PROBES: Final = 200  # batches that are tried for one row
_STRIDES: Final = 64  # different orders in which texts walk over the batches


class Spread:
    """One try to place every row in a batch: by chance first, then by exchange.

    Rows that share a text are placed first, those with the commonest text before the others. Each text's rows
    walk over the batches in an order of their own, so that they meet only rows of other texts. Rows that
    share nothing then take the places left, and what could not be placed exchanges with what fits elsewhere.
    The time goes with the number of rows.
    """

    def __init__(
        self, shared: SharedTexts, sizes: NDArray[np.int64], limit: int, random: np.random.Generator
    ) -> None:
        """`sizes`: (batches,) rows wanted in each, all rows in sum; `limit`: rows that a batch may have."""
        rows = len(shared.rows) + len(shared.others)
        self.place: NDArray[np.int64] = np.full(rows, -1, np.int64)
        """(rows,) the batch of each row; -1 = not placed."""
        self._shared = shared
        self._room: list[int] = sizes.tolist()  # places left of those wanted
        self._limit = limit
        self._random = random
        self._held: list[set[int]] = [set() for _ in self._room] if shared.count else []  # shared texts

    def place_all(self) -> bool:
        """Place the rows; False if some could not be."""
        left = self._walk() if self._shared.count else []
        self._fill()
        return not left or self._exchange(left)

    def _walk(self) -> list[int]:
        """Place the rows that share texts; gives those left over."""
        shared, random, room, held = self._shared, self._random, self._room, self._held
        count = len(room)
        order = random.permutation(len(shared.rows))
        order = order[np.argsort(-shared.often[order], kind="stable")]
        # of each text: the next batch its rows try, and how far the one after it is
        batches: list[int] = random.integers(count, size=shared.count).tolist()
        steps: list[int] = random.choice(_strides(count, random), size=shared.count).tolist()
        probes = range(min(count, _PROBES))
        found: list[int] = []
        left: list[int] = []
        places: list[int] = []
        for sharing in order.tolist():
            texts, text = shared.texts[sharing], shared.commonest[sharing]
            batch, step = batches[text], steps[text]
            for _ in probes:
                there, batch = batch, (batch + step) % count
                if room[there] and held[there].isdisjoint(texts):
                    held[there].update(texts)
                    room[there] -= 1
                    found.append(sharing)
                    places.append(there)
                    break
            else:
                left.append(sharing)
            batches[text] = batch
        self.place[shared.rows[found]] = places
        return left

    def _fill(self) -> None:
        """Put the rows that share nothing where there is room."""
        free = self._shared.others
        places = self._random.permutation(np.repeat(np.arange(len(self._room)), self._room))
        self.place[free] = places[: len(free)]
        self._open: list[int] = places[len(free) :].tolist()  # batches with room, once for each place

    def _exchange(self, left: Sequence[int]) -> bool:
        rows: list[int] = self._shared.rows.tolist()
        texts = dict(zip(rows, self._shared.texts, strict=True))
        members: list[list[int]] = [[] for _ in self._room]
        for row, batch in enumerate(self.place.tolist()):
            if batch >= 0:
                members[batch].append(row)
        placed = all(self._place_late(rows[sharing], texts, members) for sharing in left)
        for batch, inside in enumerate(members):
            self.place[inside] = batch
        return placed and all(members)

    def _place_late(self, row: int, texts: dict[int, tuple[int, ...]], members: list[list[int]]) -> bool:
        """Place a row in a batch with room, or in one of which a row can go to a batch with room."""
        target = self._open_for(texts[row])
        if target is not None:
            self._move(row, texts[row], target, members)
            self._open.remove(target)
            return True
        tried: list[int] = self._random.integers(len(self._room), size=_PROBES).tolist()
        for batch in tried:
            if not self._held[batch].isdisjoint(texts[row]):
                continue
            for other in members[batch]:
                target = self._open_for(texts.get(other, ()))
                if target is not None:
                    members[batch].remove(other)
                    self._held[batch].difference_update(texts.get(other, ()))
                    self._move(other, texts.get(other, ()), target, members)
                    self._open.remove(target)
                    self._move(row, texts[row], batch, members)
                    return True
            if len(members[batch]) < self._limit:
                self._move(row, texts[row], batch, members)
                return True
        return False

    def _open_for(self, texts: tuple[int, ...]) -> int | None:
        return next((batch for batch in self._open[:_PROBES] if self._held[batch].isdisjoint(texts)), None)

    def _move(self, row: int, texts: tuple[int, ...], batch: int, members: list[list[int]]) -> None:
        members[batch].append(row)
        self._held[batch].update(texts)


def _strides(count: int, random: np.random.Generator) -> list[int]:
    """Draw steps with which a walk over `count` batches comes to each of them."""
    drawn: list[int] = random.integers(1, max(count, 2), size=4 * _STRIDES).tolist()
    return [step for step in drawn if math.gcd(step, count) == 1][:_STRIDES] or [1]
