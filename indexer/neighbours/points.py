"""The passages that are explored together, with their vectors wherever they lie."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.filters.selection import list_all, select
from nearsay.indexer.query.search_notes import waiting_note
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.vector_store import VectorStore
from nearsay.training.sentence.text_encoder import TextEncoder

if TYPE_CHECKING:
    import torch

__all__ = [
    "Distinct",
    "Explorable",
    "Explored",
    "JoinedPoints",
    "Look",
    "Near",
    "Points",
    "Products",
    "Proposals",
    "Shown",
    "ShownPassage",
    "Vectors",
    "checked_count",
    "cosines_of",
    "greatest",
    "nothing_there",
    "removed_meanwhile",
    "runs",
]


@dataclass(frozen=True, slots=True)
class Points:
    """Passages by rising number; a *place* is a passage's position among them, 0 to len - 1."""

    ids: NDArray[np.int64]  # (n,) passage numbers, rising
    _vectors: VectorStore | NDArray[np.float32]  # where their vectors are mapped, or these (n, d) themselves
    _positions: NDArray[np.int64]  # (n,) where the passages' stand in it

    @classmethod
    def of(cls, snapshot: Snapshot, allowed: NDArray[np.int64] | None = None) -> "Points":
        """What a snapshot can find; allowed: rising passage numbers, None = all. Vectors stay on the disk."""
        ids = snapshot.living()
        if allowed is not None:
            ids = ids[np.isin(ids, allowed, assume_unique=True)]
        return cls(ids, snapshot.vectors, snapshot.vectors.positions(ids))

    @classmethod
    def from_array(cls, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> "Points":
        """ids: (n,) rising; vectors: (n, d) of unit length, in memory."""
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
    # For writing; why: "cluster". It gives the store as the holder of the lock may write it.
    locked: Callable[[CollectionRow, str], AbstractContextManager[Store]]
    encoder: Callable[[GenerationRow], TextEncoder]  # that made a generation's vectors, loaded

    def look(self, where: Where | None = None) -> "Look":
        """The passages that a filter lets through now."""
        snapshot = self.snapshot()
        return Look(self, snapshot, Points.of(snapshot, self.allowed(snapshot, where)))

    def allowed(self, snapshot: Snapshot, where: Where | None) -> NDArray[np.int64] | None:
        """The rising numbers of the passages that a filter lets through; None without one."""
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
    """What was found, in order, and what has to be said about it."""

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


def checked_count(count: int) -> int:
    """How many are asked for; BadInputError for none, or too many."""
    if not 1 <= count <= _MOST:
        raise BadInputError(f"count is {count}. Ask for 1 to {_MOST} passages")
    return count


def nothing_there(explored: Explored, where: Where | None) -> str:
    """Why there is no passage to look at: the filter, or that the collection holds none."""
    if where is not None:
        return "nothing found: no passage passes the filter"
    name = explored.name
    return f"nothing found: '{name}' holds no passages. Add some: nearsay documents add {name} FILE"


def removed_meanwhile(found: int, shown: int) -> tuple[str, ...]:
    """What has to be said where passages that were found are no longer there to be shown."""
    return (f"{found - shown} of the {found} found were removed meanwhile",) if shown < found else ()


# Copies put aside: which vectors are different, and which passages have each.
#
# A text that stands ten thousand times in a collection is one vector here, so copies cost nothing in a
# search for neighbours.


_BLOCK = 16_384
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
    members: NDArray[np.int64]  # (n,) all places, by rising number, then rising place
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

    def places(self, number: int) -> NDArray[np.int64]:
        """The places that have one of the vectors, rising."""
        return self.members[self.starts[number] : self.starts[number + 1]]


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


_GROUP = 32  # products of which the greatest stands for all when the first bar is found
_MOST_OF_A_BLOCK = 4_000_000  # proposals of one block: with more, float32 looks again
_LEAST_GROUP = 4
MOST_PRODUCTS = 2**24  # multiplied at a time: 32 MB in two bytes
_MOST_ROWS = 8192  # of these on one side
_FILLED_UP = 64  # rows: fewer shapes of products
_GATHER = 1024  # pairs scored at a time: twice 1.5 MB at 384 dimensions, which stay in the cache


@dataclass(frozen=True, slots=True)
class Products:
    """The vectors at some places in the format that is multiplied in, on the device that multiplies."""

    points: Vectors
    places: NDArray[np.int64]  # (m,) place of each row
    rows: "torch.Tensor"  # (m, d)
    error: float  # by how much a product of two rows can be off the cosine that float32 gives

    @classmethod
    def of(cls, points: Vectors, places: NDArray[np.int64], device: str | None = None) -> "Products":
        """device: "cpu", "cuda", None = the best there is; two bytes a number where it multiplies those."""
        import torch

        from nearsay.training.encoder.hardware import (
            Precision,
            Processor,
            choose_device,
            product_format,
            resolve_precision,
        )

        device = choose_device(device)
        dtype = product_format(resolve_precision(Precision.AUTO, device, Processor.detect()))
        rows = torch.empty((places.size, points.dimension), dtype=dtype, device=device)
        off = 0.0
        for begin in range(0, places.size, _BLOCK):
            exact = torch.from_numpy(points.rows(places[begin : begin + _BLOCK]))
            narrow = exact.to(dtype)
            off = max(off, float((exact - narrow.float()).norm(dim=1).max()))
            rows[begin : begin + len(narrow)] = narrow.to(device)
        return cls(points, places, rows, _error(off, points.dimension, dtype == torch.bfloat16, device))

    def __len__(self) -> int:
        return int(self.places.size)

    def between(self, first: NDArray[np.int64], second: slice) -> "torch.Tensor":
        """The products (q, r) of the rows named first with those named second, in the narrow format.

        A view: its lines do not lie one behind the other. Both sides are filled up to multiples of 64 rows,
        since oneDNN makes a kernel for every shape that it meets, and keeps about a thousand of them: pairs
        of a million vectors took .36 GB and a quarter of the time more.
        """
        import torch

        count, width = second.stop - second.start, min(_filled_up(second.stop - second.start), len(self))
        begin = min(second.start, len(self) - width)
        with torch.inference_mode():
            filling = np.full(_filled_up(first.size) - first.size, first[0] if first.size else 0)
            asked = torch.from_numpy(np.concatenate([first, filling])).to(self.rows.device)
            # index_select: in less than half the time of indexing.
            products = self.rows.index_select(0, asked) @ self.rows[begin : begin + width].T
            return products[: first.size, second.start - begin : second.start - begin + count]

    def again(self, first: NDArray[np.int64], second: slice) -> tuple["torch.Tensor", float]:
        """The same in float32 on the CPU, and by how much those can be off: for where all lies close."""
        import torch

        with torch.inference_mode():
            queries = torch.from_numpy(self.points.rows(self.places[first]))
            found = queries @ torch.from_numpy(self.points.rows(self.places[second])).T
        return found, _error(0.0, self.points.dimension, False, "cpu")


def cosines_of(points: Vectors, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float32]:
    """The cosines (m,) of the vectors at the first places with those at the second.

    In float32 by numpy's einsum, whose sum for two vectors depends on nothing but them.
    """
    order = np.lexsort((second, first))
    cosines = np.empty(first.size, dtype=np.float32)
    for begin in range(0, first.size, _GATHER):
        some = order[begin : begin + _GATHER]
        cosines[some] = np.einsum("ij,ij->i", points.rows(first[some]), points.rows(second[some]))
    return cosines


class Proposals(ABC):
    """The best pairs of rows: products propose them, float32 sums decide. Subclasses say which are best."""

    def __init__(
        self,
        products: Products,
        queries: NDArray[np.int64],
        bars: NDArray[np.float32],
        room: int,
        most: int,
        among: NDArray[np.bool_] | None = None,
    ) -> None:
        """queries: (count,) the rows that ask, which have numbers: 0, 1, …
        bars: what a pair has to reach, (count,) or one for all, -inf = not known yet; they only rise
        room: pairs that are held before they are looked through; most: that may stay undecided
        among: by row, which may be found; it goes with bars that are set
        """
        self.products = products
        self.queries = queries
        self.bars = bars
        self._room, self._most = room, most
        self._among = among
        self._one = np.zeros(0, dtype=np.int32)
        self._other = np.zeros(0, dtype=np.int32)
        self._low = np.zeros(0, dtype=np.float32)  # the cosine is no lower
        self._high = np.zeros(0, dtype=np.float32)  # and no higher
        self._kept = 0  # pairs after the last pruning
        self._new: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], np.float32]] = []
        self._waiting = 0  # pairs in `_new`, which are put to the others when there are many

    def look(self, some: NDArray[np.int64], rows: slice) -> None:
        """Look for pairs of some that ask (their numbers, rising) and the rows."""
        if some.size and rows.stop > rows.start:
            for part, others in _tiles(some, rows):
                self._look(part, others)

    def _look(self, some: NDArray[np.int64], rows: slice) -> None:
        products, error = self.products.between(self.queries[some], rows), self.products.error
        found = self._passing(products, error, some, rows, _MOST_OF_A_BLOCK)
        if found is None:  # the narrow format cannot tell so many of them apart
            products, error = self.products.again(self.queries[some], rows)
            found = self._passing(products, error, some, rows, products.numel())
        if found is not None and found[0].size:
            self._keep(*found, error)

    def _passing(
        self, products: "torch.Tensor", error: float, some: NDArray[np.int64], rows: slice, most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None:
        """Who asks, the row and the product of what may be among the best; None: more than `most`."""
        import torch

        with torch.inference_mode():
            self._set_bars(products, error, some, rows)
            bars = (self.bars[some] if self.bars.size > 1 else self.bars) - np.float32(error)
            passing = products >= _rounded_down(torch.from_numpy(bars).to(products.device), products.dtype)
            if self._among is not None:
                passing &= torch.from_numpy(self._among[rows]).to(products.device)
            flat = _set_places(passing)
            if flat.size > most:
                return None
            number, column = np.divmod(flat, products.shape[1])
            wanted = self._wanted(self.queries[some[number]], column + rows.start, rows)
            number, column = number[wanted], column[wanted]
            at = (torch.from_numpy(number).to(products.device), torch.from_numpy(column).to(products.device))
            return some[number], column + rows.start, products[at].float().cpu().numpy()

    @abstractmethod
    def _set_bars(self, products: "torch.Tensor", error: float, some: NDArray[np.int64], rows: slice) -> None:
        """Set bars that are not known yet to what enough of these products reach."""

    @abstractmethod
    def _wanted(self, first: NDArray[np.int64], second: NDArray[np.int64], rows: slice) -> NDArray[np.bool_]:
        """Which rows that ask make a pair with which of these rows."""

    def _keep(
        self, one: NDArray[np.int64], other: NDArray[np.int64], value: NDArray[np.float32], error: float
    ) -> None:
        self._new.append((one.astype(np.int32), other.astype(np.int32), value, np.float32(error)))
        self._waiting += one.size
        if self._one.size + self._waiting > max(2 * self._kept, self._room):
            self._prune()
            if self._one.size > self._most:
                self._decide()
            self._kept = self._one.size

    def _gather(self) -> None:
        """Put what was found since to the rest."""
        if self._new:
            ones, others, values, errors = zip(*self._new, strict=True)
            pairs = list(zip(values, errors, strict=True))
            self._one = np.concatenate([self._one, *ones])
            self._other = np.concatenate([self._other, *others])
            self._low = np.concatenate([self._low, *(value - error for value, error in pairs)])
            self._high = np.concatenate([self._high, *(value + error for value, error in pairs)])
            self._new.clear()
            self._waiting = 0

    def _take(self, kept: NDArray[np.int64]) -> None:
        self._one, self._other = self._one[kept], self._other[kept]
        self._low, self._high = self._low[kept], self._high[kept]

    @abstractmethod
    def _prune(self) -> None:
        """Gather, and let go what cannot be among the best."""

    @abstractmethod
    def _decide(self) -> None:
        """Score what is left in float32, and keep what is wanted by that."""


def greatest(products: "torch.Tensor", count: int) -> "torch.Tensor":
    """The products (q, r), or the greatest of groups of them (q, g), of which a topk takes a fraction.

    Either way `count` of a line are reached by as many products of that line.
    """
    size = min(_GROUP, products.shape[1] // (2 * count))
    if size < _LEAST_GROUP:
        return products
    groups = products.shape[1] // size
    return products[:, : groups * size].reshape(len(products), groups, size).amax(dim=2)


def _rounded_down(bars: "torch.Tensor", dtype: "torch.dtype") -> "torch.Tensor":
    """In the narrow format, never above what they were; (count, 1)."""
    import torch

    narrow = bars.to(dtype)
    below = torch.nextafter(narrow, torch.full_like(narrow, -torch.inf))
    return torch.where(narrow.float() > bars, below, narrow)[:, None]


def _tiles(some: NDArray[np.int64], rows: slice) -> Iterator[tuple[NDArray[np.int64], slice]]:
    """A product of some rows with others in pieces of MOST_PRODUCTS at most."""
    width = min(rows.stop - rows.start, _MOST_ROWS)
    height = MOST_PRODUCTS // max(1, _filled_up(width))
    height = max(1, height // _FILLED_UP * _FILLED_UP or height)
    for begin in range(0, some.size, height):
        for first in range(rows.start, rows.stop, width):
            yield some[begin : begin + height], slice(first, min(first + width, rows.stop))


def _set_places(passing: "torch.Tensor") -> NDArray[np.int64]:
    """Where a matrix of bool is True, rising, as places in its rows one after another."""
    if passing.device.type == "cpu":
        return np.flatnonzero(passing.numpy().ravel())
    found: NDArray[np.int64] = passing.reshape(-1).nonzero()[:, 0].cpu().numpy()
    return found


def _filled_up(count: int) -> int:
    return -(-count // _FILLED_UP) * _FILLED_UP


def _error(off: float, dimension: int, narrow: bool, device: str) -> float:
    """Bound |product - cosine| for unit vectors whose rounded forms lie `off` from them at most.

    Rounding the vectors: 2 off + off^2 (Cauchy-Schwarz). Summing in float32, here and in what decides: 2 d u
    each (Higham 2002, section 3.1). Rounding the product to bfloat16, of 8 significant bits: 2^-9 below 1;
    above, where only those errors lead, it comes back to 1 or is off by 2^-8.
    """
    before = 2.0 * off + off * off + 4.04 * 2.0**-24 * dimension
    if narrow:
        return before + 2.0**-9 if before < 2.0**-8 else before + 2.0**-8
    return before if device == "cpu" else before + 2.0**-9  # a GPU may cut both factors to TF32: 2^-10 each
