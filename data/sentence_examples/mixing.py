"""Which rows of which set each training step takes."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.mapped import numbered
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.data.sentence_examples.text_rows import TextRows

_HASHED: Final = 65_536  # texts that are normalised at a time
_DIGEST: Final = 16  # bytes: so many texts that two of them would share one there are not


@dataclass(frozen=True, slots=True)
class SharedTexts:
    """Which rows hold a text that another row holds too; texts are numbered from 0."""

    rows: NDArray[np.int64]  # (sharing rows,) their numbers, ascending
    texts: NDArray[np.int64]  # (sharing rows, width) those that are shared, the commonest first, then -1
    often: NDArray[np.int64]  # (sharing rows,) how many rows hold the commonest

    @property
    def most(self) -> int:
        """How many rows hold the text that is in most of them."""
        return int(self.often.max(initial=1))


def shared_texts(texts: Sequence[tuple[str, ...]]) -> SharedTexts:
    """Find the rows that share a normalised text with another row, in whichever column.

    A text that a row holds twice itself counts once.
    """
    every = _sorted_numbers(TextRows.of(texts, len(texts[0])))
    again = np.zeros(every.shape, np.bool_)
    again[:, 1:] = every[:, 1:] == every[:, :-1]
    counts = np.bincount(every[~again])
    rows = np.flatnonzero(((counts[every] > 1) & ~again).any(axis=1))
    often = np.where(again[rows], 0, counts[every[rows]])  # (rows, width): in how many rows each text is
    numbers = np.where(often > 1, np.cumsum(counts > 1)[every[rows]] - 1, -1)
    order = np.argsort(-often, axis=1, kind="stable")
    return SharedTexts(rows, np.take_along_axis(numbers, order, axis=1), often.max(axis=1, initial=0))


def _sorted_numbers(rows: TextRows) -> NDArray[np.integer[Any]]:
    """Number the normalised texts, in order of first appearance: (rows, width), ascending in each row."""
    flat = rows.numbers.ravel()
    firsts, numbers = numbered(flat)
    digests = np.empty((len(firsts), _DIGEST // 8), np.uint64)
    for start in range(0, len(firsts), _HASHED):
        some = rows.texts.each(flat[firsts[start : start + _HASHED]])
        found = np.frombuffer(b"".join(map(_normalised_digest, some)), np.uint64)
        digests[start : start + _HASHED] = found.reshape(-1, _DIGEST // 8)
    normalised = numbered(digests)[1]
    return np.sort(normalised[numbers].reshape(rows.numbers.shape), axis=1)


def _normalised_digest(text: str) -> bytes:
    plain = normalised_text(text).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=_DIGEST).digest()


_WALKED: Final = 2**18  # rows whose numbers are Python's at a time
_MIX: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: spreads numbers over a table
_PROBES: Final = 200  # batches that are tried for one row
_EXCHANGES: Final = 2000  # rows that one may take the place of
_STRIDES: Final = 64  # different orders in which texts walk over the batches


class _Held:
    """Which texts each batch holds: (batch, text) in one table of 16 to 32 bytes an entry.

    Open addressing with linear probing; a set of each batch would take several times as much.
    """

    def __init__(self, entries: int, texts: int) -> None:
        """`entries`: at most so many; `texts`: numbers of texts are below it."""
        self._mask = (1 << (2 * entries).bit_length()) - 1
        self._slots = np.zeros(self._mask + 1, np.int64).data  # 0 = empty
        self._texts = texts

    def any(self, batch: int, texts: Sequence[int]) -> bool:
        """Whether the batch holds one of the texts."""
        return any(self._slots[self._slot(batch * self._texts + text + 1)] for text in texts)

    def add(self, batch: int, texts: Sequence[int]) -> None:
        """Note that the batch holds the texts, which it did not hold."""
        for text in texts:
            key = batch * self._texts + text + 1
            self._slots[self._slot(key)] = key

    def remove(self, batch: int, texts: Sequence[int]) -> None:
        """Note that the batch holds the texts no more, which it held."""
        for text in texts:
            self._slots[self._slot(batch * self._texts + text + 1)] = -1  # not 0: what lies behind is found

    def _slot(self, key: int) -> int:
        """Where the key is, or where it would be."""
        slots, mask = self._slots, self._mask
        at = (key * _MIX >> 16) & mask
        while (found := slots[at]) and found != key:
            at = (at + 1) & mask
        return at


class Spread:
    """One try to place every row in a batch.

    Rows that share a text are placed first, those with the commonest text before the others. Each text's rows
    walk over the batches in an order of their own, so that they meet only rows of other texts; those that
    find no place soon are put wherever there is one. Rows that share nothing then take the places left, and
    what is still without one takes that of a row which fits elsewhere.
    The time goes with the number of rows.
    """

    def __init__(
        self, rows: int, shared: SharedTexts, sizes: NDArray[np.int64], random: np.random.Generator
    ) -> None:
        """`sizes`: (batches,) rows wanted in each, `rows` in sum."""
        self.place: NDArray[np.int64] = np.full(rows, -1, np.int64)
        """(rows,) the batch of each row; -1 = not placed."""
        self._shared = shared
        self._room: list[int] = sizes.tolist()  # places left
        self._random = random
        self._texts = int(shared.texts.max(initial=-1)) + 1
        self._held = _Held(shared.texts.size, self._texts)

    def place_all(self) -> bool:
        """Place the rows; False if some could not be."""
        left = self._put_anywhere(self._walk() if self._texts else [])
        free = np.ones(len(self.place), np.bool_)
        free[self._shared.rows] = False
        places = self._random.permutation(np.repeat(np.arange(len(self._room)), self._room))
        self.place[free], open_places = np.split(places, [free.sum()])
        return all(self._exchange(*one, there) for one, there in zip(left, open_places.tolist(), strict=True))

    def _walk(self) -> list[tuple[int, list[int]]]:
        """Place the rows that share texts; gives those left over, and their texts."""
        shared, random = self._shared, self._random
        count = len(self._room)
        order = random.permutation(len(shared.rows))
        order = order[np.argsort(-shared.often[order], kind="stable")]
        # of each text: the next batch its rows try, and how far the one after it is
        batches = random.integers(count, size=self._texts).data
        steps = random.choice(_strides(count, random), size=self._texts).data
        probes = range(min(count, _PROBES))
        left: list[tuple[int, list[int]]] = []
        for some in np.array_split(order, -(-len(order) // _WALKED)):
            for row, held in zip(shared.rows[some].tolist(), shared.texts[some].tolist(), strict=True):
                texts = _real(held)
                batch, step = batches[texts[0]], steps[texts[0]]
                for _ in probes:
                    there, batch = batch, (batch + step) % count
                    if self._put(row, texts, there):
                        break
                else:
                    left.append((row, texts))
                batches[texts[0]] = batch
        return left

    def _put(self, row: int, texts: list[int], batch: int) -> bool:
        """Place a row in a batch; False where there is no room, or a row with one of its texts."""
        if not self._room[batch] or self._held.any(batch, texts):
            return False
        self._held.add(batch, texts)
        self._room[batch] -= 1
        self.place[row] = batch
        return True

    def _put_anywhere(self, rows: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
        """Place rows in any batch with room; gives those for which none is found."""
        if not rows:
            return rows
        batches = self._random.permutation(np.flatnonzero(self._room))[:_PROBES].tolist()
        return [(row, texts) for row, texts in rows if not any(self._put(row, texts, one) for one in batches)]

    def _exchange(self, row: int, texts: list[int], free: int) -> bool:
        """Place a row in the batch of another one, which fits into batch `free`; False where none does."""
        held, place = self._held, self.place
        for number in self._random.integers(len(self._shared.rows), size=_EXCHANGES).tolist():
            other, others = int(self._shared.rows[number]), _real(self._shared.texts[number].tolist())
            batch = int(place[other])
            met = [text for text in texts if text not in others]
            if batch >= 0 and not held.any(free, others) and not held.any(batch, met):
                held.remove(batch, others)
                held.add(batch, texts)
                held.add(free, others)
                place[row], place[other] = batch, free
                return True
        return False


def _real(texts: list[int]) -> list[int]:
    return [text for text in texts if text >= 0]


def _strides(count: int, random: np.random.Generator) -> list[int]:
    """Draw steps with which a walk over `count` batches comes to each of them."""
    drawn: list[int] = random.integers(1, max(count, 2), size=4 * _STRIDES).tolist()
    return [step for step in drawn if math.gcd(step, count) == 1][:_STRIDES] or [1]


_DRAWS: Final = 3  # tries to spread an epoch's rows over its batches before the first epoch's are taken
_ORDER: Final = 3  # keeps the chance that orders the rows of batches apart from that which deals them out


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
        """Return the rows of batch number `batch`."""
        start = self._ends[batch - 1] if batch else 0
        return tuple(self._rows[start : self._ends[batch]].tolist())


class DistinctBatches:
    """Deals a set's rows out to batches, reshuffled in each epoch, always to the same number of batches.

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
        self._rows = len(texts)
        none = np.zeros(0, np.int64)
        self._shared = shared_texts(texts) if distinct else SharedTexts(none, none, none)
        self.most_shared: int = self._shared.most
        """How many rows hold the text that is in most of them; 1 without `distinct`."""
        self.count: int = max(math.ceil(self._rows / batch), self.most_shared)
        """Batches in an epoch."""
        while (first := self._spread(0)) is None:
            self.count = min(self._rows, self.count + 1 + self.count // 20)
        self._first = first

    def epoch(self, number: int) -> EpochBatches:
        """Deal the rows out for epoch `number`, from 0."""
        random = np.random.default_rng((*self._seeds, number, _ORDER))
        place = self._spread(number) if number else self._first
        if place is None:
            place = random.permutation(self.count)[self._first]
        return EpochBatches(place, self.count, random)

    def _spread(self, epoch: int) -> NDArray[np.int64] | None:
        random = np.random.default_rng((*self._seeds, epoch, 0))
        for _ in range(_DRAWS):
            sizes = np.full(self.count, self._rows // self.count)
            sizes[random.permutation(self.count)[: self._rows % self.count]] += 1
            spread = Spread(self._rows, self._shared, sizes, random)
            if spread.place_all():
                return spread.place
        return None


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
    step's number alone, not on what was asked before, so a run goes on exactly where it was. The orders of
    two epochs are kept, 16 bytes a row, and beside them 8 bytes a text where rows share texts; the first step
    asked for in another epoch deals its rows out again.
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
        """Return the batch of a step, from 0. The first of an epoch takes longer: it deals the rows out."""
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
