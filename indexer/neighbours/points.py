"""The passages that are explored together, with their vectors wherever they lie."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.filters.selection import list_all, select
from nearsay.indexer.query.search_notes import waiting_note
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.vector_store import VectorStore
from nearsay.training.sentence.text_encoder import TextEncoder


@dataclass(frozen=True, slots=True)
class Points:
    """Passages by ascending number; a *place* is a passage's position among them, 0 to len - 1."""

    ids: NDArray[np.int64]  # (n,) passage numbers, ascending
    _vectors: VectorStore | NDArray[np.float32]  # where their vectors are mapped, or these (n, d) themselves
    _positions: NDArray[np.int64]  # (n,) where the passages' stand in it

    @classmethod
    def of(cls, snapshot: Snapshot, allowed: NDArray[np.int64] | None = None) -> "Points":
        """What a snapshot can find; allowed: ascending passage numbers, None = all. Vectors stay on disk."""
        ids = snapshot.living()
        if allowed is not None:
            ids = ids[np.isin(ids, allowed, assume_unique=True)]
        return cls(ids, snapshot.vectors, snapshot.vectors.positions(ids))

    @classmethod
    def from_array(cls, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> "Points":
        """ids: (n,) ascending; vectors: (n, d) of unit length, in memory."""
        return cls(ids, vectors, np.arange(ids.size))

    def __len__(self) -> int:
        return int(self.ids.size)

    @property
    def dimension(self) -> int:
        """Of the vectors."""
        if isinstance(self._vectors, VectorStore):
            return self._vectors.dimension
        return int(self._vectors.shape[1])

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The unit-length vectors (m, d) at any places, in their order."""
        positions = self._positions[places]
        if not isinstance(self._vectors, VectorStore):
            return np.take(self._vectors, positions, axis=0)
        rising, back = np.unique(positions, return_inverse=True)
        found = self._vectors.rows(rising)
        return found if np.array_equal(rising, positions) else found[back]

    def some(self, places: NDArray[np.int64]) -> "Points":
        """Those at any places, in the order asked for and numbered from 0; nothing is read yet."""
        return Points(np.arange(places.size), self._vectors, self._positions[places])

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first place of each block of so many passages, and their vectors."""
        for begin in range(0, len(self), size):
            yield begin, self.rows(np.arange(begin, min(begin + size, len(self))))


@dataclass(frozen=True, slots=True)
class JoinedPoints:
    """The passages of one collection and, at the places after them, those of another."""

    first: Points
    second: Points

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @property
    def dimension(self) -> int:
        """Of the vectors of both."""
        return self.first.dimension

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The unit-length vectors (m, d) at any places, in their order."""
        after = places >= len(self.first)
        if not after.any():
            return self.first.rows(places)
        rows = np.empty((places.size, self.dimension), dtype=np.float32)
        rows[~after] = self.first.rows(places[~after])
        rows[after] = self.second.rows(places[after] - len(self.first))
        return rows

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first place of each block of so many passages, and their vectors."""
        yield from self.first.blocks(size)
        for begin, vectors in self.second.blocks(size):
            yield begin + len(self.first), vectors


Vectors: TypeAlias = Points | JoinedPoints  # of unit length by place, wherever they lie


class Explorable(Protocol):
    """A collection."""

    @property
    def explore(self) -> "Explored":
        """What there is to see in it without a query."""
        ...


@dataclass(frozen=True, slots=True)
class Explored:
    """A collection as explorations see it."""

    name: str
    store: Store
    snapshot: Callable[[], Snapshot]  # the newest
    # For writing: of which collection, why ("cluster"), and how many seconds to wait, if not as the store
    # says. It gives the store as the holder of the lock may write it.
    locked: Callable[..., AbstractContextManager[Store]]
    encoder: Callable[[GenerationRow], TextEncoder]  # that made a generation's vectors, loaded

    def look(self, where: Where | None = None) -> "Look":
        """The passages that a filter lets through now."""
        snapshot = self.snapshot()
        return Look(self, snapshot, Points.of(snapshot, self.allowed(snapshot, where)))

    def allowed(self, snapshot: Snapshot, where: Where | None) -> NDArray[np.int64] | None:
        """The ascending numbers of the passages that a filter lets through; None without one."""
        if where is None:
            return None
        with self.store.database.reading() as connection:
            return list_all(connection, snapshot, select(connection, snapshot, where, frozenset()))

    def rows(self, snapshot: Snapshot, numbers: Iterable[int] | NDArray[np.int64]) -> dict[int, PassageRow]:
        """The passages of these numbers that are still there."""
        wanted = [int(number) for number in numbers]
        with self.store.database.reading() as connection:
            return passages.read_passages(connection, snapshot.collection.id, wanted)


@dataclass(frozen=True, slots=True)
class Look:
    """Passages of a collection as one snapshot shows them."""

    explored: Explored
    snapshot: Snapshot
    points: Points

    def documents(self) -> NDArray[np.int64]:
        """The number of each passage's document, (n,); see `documents_of`."""
        with self.explored.store.database.reading() as connection:
            return passages.documents_of(connection, self.snapshot.collection.id, self.points.ids)

    def rows(self, numbers: Iterable[int] | NDArray[np.int64]) -> dict[int, PassageRow]:
        """The passages of these numbers that are still there."""
        return self.explored.rows(self.snapshot, numbers)

    @property
    def waiting(self) -> tuple[str, ...]:
        """That passages wait for their vectors and could not be looked at, if there are any."""
        return (waiting_note(self.snapshot, "looked at"),) if self.snapshot.waiting else ()

    def nothing_there(self, where: Where | None) -> tuple[str, ...]:
        """Why there is no passage: none passes the filter of those that have a vector, or there is none."""
        if where is None:
            return (f"nothing found: {no_vectors(self.explored)}",)
        return ("nothing found: no passage passes the filter", *self.waiting)


_MOST = 10_000  # passages that can be asked for

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage with its document, without a query that it answers."""

    rank: int  # from 1
    score: float  # what it was ranked by
    id: str  # of the document
    title: str
    text: str  # of the passage
    metadata: Mapping[str, JsonValue]
    passage: int  # 0-based place of the passage in its document

    @classmethod
    def of(cls, row: PassageRow, rank: int, score: float, **more: Any) -> Self:  # noqa: ANN401
        """A row of the catalogue as it is shown; more: the fields that a kind of its own has."""
        return cls(rank, score, row.document_id, row.title, row.text, row.metadata, row.ordinal, **more)


@dataclass(frozen=True, slots=True)
class Near:
    """The passage that is nearest to another."""

    id: str  # of its document
    title: str
    text: str
    cosine: float  # between the two


@dataclass(frozen=True, slots=True)
class Shown(Sequence[_Item], Generic[_Item]):
    """The results, in order, with notes."""

    items: tuple[_Item, ...]
    looked_at: int  # passages
    notes: tuple[str, ...] = ()  # plain sentences

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | Sequence[_Item]:
        return self.items[at]

    def __len__(self) -> int:
        return len(self.items)


def checked_count(count: int) -> None:
    """BadInputError where none are asked for, or too many."""
    if not 1 <= count <= _MOST:
        raise BadInputError(f"count is {count}. Ask for 1 to {_MOST} passages")


def no_vectors(explored: Explored) -> str:
    """Why no passage can be looked at, and what to do: none came, or all wait for their vectors."""
    name, snapshot = explored.name, explored.snapshot()
    if snapshot.waiting:
        return waiting_note(snapshot, "looked at")
    return f"'{name}' holds no passages. Add some: nearsay documents add {name} FILE"


def removed_meanwhile(found: int, shown: int) -> tuple[str, ...]:
    """What has to be said where passages that were found are no longer there to be shown."""
    return (f"{found - shown} of the {found} found were removed meanwhile",) if shown < found else ()


# Copies put aside: which vectors are different, and which passages have each.
#
# A text that stands ten thousand times in a collection is one vector here, so copies cost nothing in a
# search for neighbours.


_HASHED = 1024  # vectors at a time, which stay in the cache as 64-bit numbers
_COARSE_DIMENSIONS = 32
_COARSE_STEPS = 64  # in a unit: vectors that differ by rounding alone nearly always share the coarse key


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different vectors of some points, in an order that looks random, and is the same for the same set.

    Whatever is computed on them in turn, or on the first few as a sample, does not depend on the order in
    which the passages came.
    """

    first: NDArray[np.int64]  # (m,) the first place that has each
    number: NDArray[np.int64]  # (n,) which of them each place has
    members: NDArray[np.int64]  # (n,) all places, by ascending number, then ascending place
    starts: NDArray[np.int64]  # (m + 1,) where the places of each begin in `members`

    @classmethod
    def of(cls, points: Vectors, seed: int = 0) -> "Distinct":
        """By two 64-bit hashes of each vector, which is read once; another seed gives another order.

        The first hash is of coarsely rounded numbers: where an encoder's rounding makes the same text differ
        in the last bits, its place hardly changes. So two vectors that share it are as good as copies
        already, and of a million such pairs one is taken for copies with a chance below 1e-9.
        """
        generator = np.random.default_rng(seed)
        coarse = _odd(generator, min(_COARSE_DIMENSIONS, points.dimension))
        exact = _odd(generator, points.dimension)
        keys = np.empty((len(points), 2), dtype=np.uint64)
        for begin, rows in points.blocks(_HASHED):
            end = begin + len(rows)
            rounded = np.rint(rows[:, : coarse.size] * _COARSE_STEPS).astype(np.int64)
            keys[begin:end, 0] = _mixed(rounded.view(np.uint64), coarse)
            bits = (rows + np.float32(0)).view(np.uint32)  # -0 becomes 0
            keys[begin:end, 1] = _mixed(bits.astype(np.uint64), exact)
        members = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: places rise among copies
        ordered = keys[members]
        new = np.ones(len(keys), dtype=np.bool_)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        starts = np.append(np.flatnonzero(new), len(keys)).astype(np.int64)
        number = np.empty(len(keys), dtype=np.int64)
        number[members] = np.cumsum(new) - 1
        return cls(members[starts[:-1]], number, members, starts)

    def __len__(self) -> int:
        return int(self.first.size)

    @property
    def copies(self) -> NDArray[np.int64]:
        """How many places have each, (m,)."""
        return np.diff(self.starts)

    @property
    def rank(self) -> NDArray[np.int64]:
        """How many places before each have its vector, (n,)."""
        found = np.empty(self.number.size, dtype=np.int64)
        found[self.members] = np.arange(found.size) - np.repeat(self.starts[:-1], self.copies)
        return found


def runs(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers from each start on, as many as its count, one run after the other."""
    return np.arange(int(counts.sum())) + np.repeat(starts - np.cumsum(counts) + counts, counts)


def _odd(generator: np.random.Generator, size: int) -> NDArray[np.uint64]:
    drawn: NDArray[np.uint64] = generator.integers(0, 2**64, size, dtype=np.uint64) | np.uint64(1)
    return drawn


def _mixed(numbers: NDArray[np.uint64], factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Multilinear hashing, then the finaliser of SplitMix64 (Steele et al. 2014)."""
    mixed: NDArray[np.uint64] = (numbers * factors).sum(axis=1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
