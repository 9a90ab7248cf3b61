"""Batches of a set's rows: all rows once an epoch, and no text in two rows of a batch if that is wanted."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.sentence_examples.batch_spread import Spread
from nearsay.data.sentence_examples.shared_texts import no_shared_texts, shared_texts

__all__ = ["DistinctBatches", "EpochBatches"]

_DRAWS: Final = 3  # tries to spread an epoch's rows over its batches before the first epoch's are taken


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

    Batches are of equal size up to a row, rather than full ones and a small last one, so none is lost. There
    are as few as the batch size allows; with `distinct` at least as many as rows share one text, and more if
    the texts are so entangled that no way is found. An epoch is a function of its seeds alone; one for which
    no way is found takes the first epoch's batches in another order.

    distinct: no two rows of a batch share a normalised text, in whichever column. A row that holds a text
        twice itself (an anchor that is its own positive) stays.
    """

    def __init__(
        self, texts: Sequence[tuple[str, ...]], batch: int, *, distinct: bool, seeds: tuple[int, ...]
    ) -> None:
        """`texts`: the rows, at least one; `batch`: rows at most; `seeds`: whatever tells this set apart."""
        self._seeds = seeds
        self._size = batch
        self._rows = len(texts)
        self._shared = shared_texts(texts) if distinct else no_shared_texts(self._rows)
        self.most_shared: int = self._shared.most
        """How many rows hold the text that is in most of them; 1 without `distinct`."""
        self.count: int = max(math.ceil(self._rows / batch), self.most_shared)
        """Batches in an epoch."""
        while (first := self._spread(0)) is None:
            self.count = min(self._rows, self.count + 1 + self.count // 20)
        self._first = first

    def epoch(self, number: int) -> EpochBatches:
        """Deal the rows out for epoch `number`, from 0."""
        random = np.random.default_rng((*self._seeds, number, _DRAWS))
        place = self._spread(number) if number else self._first
        if place is None:
            place = random.permutation(self.count)[self._first]
        return EpochBatches(place, self.count, random)

    def _spread(self, epoch: int) -> NDArray[np.int64] | None:
        for draw in range(_DRAWS):
            random = np.random.default_rng((*self._seeds, epoch, draw))
            sizes = np.full(self.count, self._rows // self.count)
            sizes[random.permutation(self.count)[: self._rows % self.count]] += 1
            spread = Spread(self._shared, sizes, self._size, random)
            if spread.place_all():
                return spread.place
        return None
