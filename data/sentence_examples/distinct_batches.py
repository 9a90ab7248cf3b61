"""Batches of a set's rows: all rows once an epoch, and no text in two rows of a batch if that is wanted."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.sentence_examples.batch_spread import Spread
from nearsay.data.sentence_examples.normalised_text import normalised_text

__all__ = ["DistinctBatches", "EpochBatches"]

_DRAWS: Final = 3  # tries to spread an epoch's rows over its batches before an earlier spread is taken


class EpochBatches:
    """The rows of each batch of one epoch."""

    def __init__(self, place: NDArray[np.integer[Any]], count: int, random: np.random.Generator) -> None:
        """`place`: (rows,) the batch of each row, 0 … count - 1. The order within a batch is random."""
        order = random.permutation(len(place))
        self._rows = order[np.argsort(place[order], kind="stable")]
        self._ends = np.cumsum(np.bincount(place, minlength=count))

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self._ends)

    def rows(self, batch: int) -> tuple[int, ...]:
        """Give the rows of batch number `batch`."""
        start = self._ends[batch - 1] if batch else 0
        return tuple(self._rows[start : self._ends[batch]].tolist())


class DistinctBatches:
    """Deals a set's rows out to batches, anew in each epoch, always to the same number of batches.

    Batches are of equal size up to one row, rather than full ones and a small last one, so none is lost.
    There are as few as the batch size allows; with `distinct` at least as many as rows share one text, and
    more if the texts are so entangled that no way is found. An epoch is a function of its seeds alone.

    distinct: no two rows of a batch share a normalised text, in whichever column. A row that holds a text
        twice itself (an anchor that is its own positive) stays.

    Rows with rare company are placed first, each text's rows walking over the batches in an order of their
    own; rows that share no text fill the places left. Where that does not come out even, rows are exchanged;
    where that fails in an epoch, it takes the first epoch's batches in another order.
    """

    def __init__(
        self, texts: Sequence[tuple[str, ...]], batch: int, *, distinct: bool, seeds: tuple[int, ...]
    ) -> None:
        """`texts`: the rows, at least one; `batch`: rows at most; `seeds`: whatever tells this set apart."""
        self._seeds = seeds
        self._size = batch
        self._rows = len(texts)
        self._shared = _shared_texts(texts) if distinct else {}
        self._often = Counter(text for row in self._shared.values() for text in row)
        self.most_shared = max(self._often.values(), default=1)
        """How many rows hold the text that is in most of them."""
        self.count = max(math.ceil(self._rows / batch), self.most_shared if distinct else 1)
        """Batches in an epoch."""
        while (first := self._spread(0)) is None:
            self.count = min(self._rows, self.count + 1 + self.count // 20)
        self._first = first.astype(np.int32 if self._rows < 2**31 else np.int64)

    def epoch(self, number: int) -> EpochBatches:
        """Deal the rows out for epoch `number`, from 0."""
        random = self._random(number, _DRAWS)
        place = self._spread(number)
        if place is None:
            place = random.permutation(self.count)[self._first]
        return EpochBatches(place, self.count, random)

    def _random(self, epoch: int, draw: int) -> np.random.Generator:
        return np.random.default_rng((*self._seeds, epoch, draw))

    def _spread(self, epoch: int) -> NDArray[np.int64] | None:
        for draw in range(_DRAWS):
            random = self._random(epoch, draw)
            sizes = np.full(self.count, self._rows // self.count)
            sizes[random.permutation(self.count)[: self._rows % self.count]] += 1
            spread = Spread(self._rows, sizes, self._size, random)
            if spread.place_apart(self._shared, self._often):
                return spread.place
        return None


def _shared_texts(texts: Sequence[tuple[str, ...]]) -> dict[int, tuple[int, ...]]:
    """Number the normalised texts that several rows hold: row to its numbers, for rows that have any."""
    exact: dict[str, int] = {}
    known: dict[str, int] = {}
    numbers: list[tuple[int, ...]] = []
    for row in texts:
        found = []
        for text in row:
            number = exact.get(text)
            if number is None:
                number = exact[text] = known.setdefault(normalised_text(text), len(known))
            found.append(number)
        numbers.append(tuple(dict.fromkeys(found)))
    rows = Counter(number for row in numbers for number in row)
    shared = {
        row: tuple(number for number in held if rows[number] > 1)
        for row, held in enumerate(numbers)
        if any(rows[number] > 1 for number in held)
    }
    return shared
