"""Which rows of which set each training step takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.distinct_batches import DistinctBatches, EpochBatches
from nearsay.data.sentence_examples.examples import SentenceExamples

__all__ = ["ExampleMix", "MixedBatch", "Sampling"]

_TURNS: Final = 2**16  # keeps the chance that orders the sets apart from that which deals a set's rows out


class Sampling(StrEnum):
    """In which order the sets of a mix have their turns."""

    PROPORTIONAL = "proportional"  # by chance, a set with more batches more often, all through the epoch
    ROUND_ROBIN = "round-robin"  # one batch of each set in turn; a set that is used up drops out


@dataclass(frozen=True, slots=True)
class MixedBatch:
    """What one training step takes."""

    source: int  # which set, from 0
    rows: tuple[int, ...]  # its rows, from 0


class ExampleMix:
    """Deals the rows of several sets out to training steps; each batch is of one set.

    Every row is taken once an epoch, whichever the sampling, and an epoch has always the same number of
    steps. A set's batches are of equal size up to one row, at most the batch size, instead of full ones and a
    small last one (`DistinctBatches`). A step's batch depends on the sets, the batch sizes, the seed and the
    step's number alone, not on what was asked before, so a run goes on exactly where it was. The order of one
    epoch is kept, 8 bytes a row; the first step asked for in another one deals its rows out anew.
    """

    def __init__(
        self,
        sources: Sequence[SentenceExamples],
        *,
        batch: int | Sequence[int],
        seed: int,
        sampling: Sampling = Sampling.PROPORTIONAL,
        distinct: Sequence[bool] = (),
    ) -> None:
        """Work the batches of the first epoch out, to know their number.

        batch: rows a step at most, for all sets or for each
        seed: 0 or more
        distinct: for each set, whether two rows of a batch may share no normalised text: for objectives that
            take a batch's other rows for negatives. () = for none

        BadInputError for sets without rows and for numbers that cannot be.
        """
        count = len(sources)
        sizes = [batch] * count if isinstance(batch, int) else list(batch)
        apart = list(distinct) or [False] * count
        _check(sources, sizes, apart, seed)
        self._seed = seed
        self._sampling = sampling
        self._dealers = [
            DistinctBatches(source.texts, size, distinct=wanted, seeds=(seed, number))
            for number, (source, size, wanted) in enumerate(zip(sources, sizes, apart, strict=True))
        ]
        self.batches: tuple[int, ...] = tuple(dealer.count for dealer in self._dealers)
        """Batches of each set in an epoch."""
        self.steps_per_epoch: int = sum(self.batches)
        """Steps until every row of every set was taken once."""
        self.notes: tuple[str, ...] = tuple(
            f"{source.name}: one text is in {dealer.most_shared} rows, so its {len(source)} rows make "
            f"{dealer.count} batches of about {len(source) // dealer.count} instead of {size}"
            for source, dealer, size in zip(sources, self._dealers, sizes, strict=True)
            if dealer.count > -(-len(source) // size)
        )
        """Sentences for the user: which sets have smaller batches than asked for, and why."""
        self._epoch: tuple[int, list[EpochBatches], NDArray[np.int64], NDArray[np.int64]] | None = None

    def batch(self, step: int) -> MixedBatch:
        """Give the batch of a step, from 0. The first of an epoch takes longer: it deals the rows out."""
        if step < 0:
            raise BadInputError(f"the step is {step}; steps are counted from 0")
        number, position = divmod(step, self.steps_per_epoch)
        epoch = self._epoch
        if epoch is None or epoch[0] != number:
            dealt = [dealer.epoch(number) for dealer in self._dealers]
            epoch = self._epoch = (number, dealt, *self._turns(number))
        _, dealt, sources, turns = epoch
        source = int(sources[position])
        return MixedBatch(source, dealt[source].rows(int(turns[position])))

    def _turns(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Say for each step of an epoch whose turn it is, and how many turns that set had before."""
        sources = np.repeat(np.arange(len(self.batches)), self.batches)
        before = np.concatenate([np.arange(count) for count in self.batches])
        if self._sampling is Sampling.ROUND_ROBIN:
            order = np.lexsort((sources, before))
            return sources[order], before[order]
        random = np.random.default_rng((self._seed, len(self.batches), epoch, _TURNS))
        sources = random.permutation(sources)
        turns = np.empty_like(sources)
        turns[np.argsort(sources, kind="stable")] = before
        return sources, turns


def _check(
    sources: Sequence[SentenceExamples], sizes: Sequence[int], distinct: Sequence[bool], seed: int
) -> None:
    if not sources:
        raise BadInputError("there is no set to take examples from; name at least one")
    for source in sources:
        if not len(source):
            raise BadInputError(f"{source.name} holds no examples; leave it out, or give one with rows")
    if len(sizes) != len(sources) or len(distinct) != len(sources):
        raise BadInputError(
            f"{len(sources)} sets, {len(sizes)} batch sizes and {len(distinct)} choices of distinct rows; "
            "give one for each set"
        )
    if any(size < 1 for size in sizes):
        raise BadInputError(f"the batch is {min(sizes)} rows; give 1 or more")
    if seed < 0:
        raise BadInputError(f"the seed is {seed}; give 0 or more")
