"""In which order examples are learned from."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExampleOrder"]

_GROUPED_BATCHES = 32  # batches whose examples are sorted by length together


class ExampleOrder:
    """Each epoch's batches: shuffled anew, with examples of like length together so that little is padding.

    A step's batch depends on the seed and the step's number alone, so that a run can begin at any step.
    """

    def __init__(self, lengths: Sequence[int], *, batch: int, seed: int) -> None:
        """`lengths`: tokens of each example; `batch`: examples in a step."""
        if not lengths or batch < 1:
            raise ValueError(f"{len(lengths)} examples in batches of {batch}")
        self._lengths = np.asarray(lengths, dtype=np.int64)
        self._batch = batch
        self._seed = seed
        self._epoch = -1
        self._batches: list[NDArray[np.int64]] = []
        self.steps_per_epoch = -(-len(self._lengths) // batch)

    def rows(self, step: int) -> NDArray[np.int64]:
        """Give the places of the examples of a step, counted from 0; the last of an epoch may be fewer."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._batches, self._epoch = self._shuffled(epoch), epoch
        return self._batches[place]

    def _shuffled(self, epoch: int) -> list[NDArray[np.int64]]:
        random = np.random.default_rng((self._seed, epoch))
        order = random.permutation(len(self._lengths))
        group = self._batch * _GROUPED_BATCHES
        batches = []
        for start in range(0, len(order), group):
            rows = order[start : start + group]
            rows = rows[np.argsort(self._lengths[rows], kind="stable")]
            batches += [rows[first : first + self._batch] for first in range(0, len(rows), self._batch)]
        return [batches[place] for place in random.permutation(len(batches))]
