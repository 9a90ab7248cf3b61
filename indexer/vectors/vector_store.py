"""The vectors of a generation, in memory-mapped segments, and exact search over them.

Matrix products propose, `numpy.einsum` decides: BLAS rounds a row by its place in the matrix, so that copies
of one text would not tie; einsum does not. What might belong to the k best within the error bound of a
product is scored again, so a score is the same whichever way a passage was found.
"""

import ctypes
import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.data.threads import ThreadLock, usable_threads
from nearsay.indexer.vectors.segment import VectorSegment, widen

_DO_NOT_NEED: Final[int | None] = getattr(mmap, "MADV_DONTNEED", None)  # None: not on this system


def give_back(array: NDArray[Any]) -> None:
    """Let go of the pages of the mapped file that the array is a view of; of any other array nothing.

    They are read again, mostly from the system's cache, when they are next looked at.
    """
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and _DO_NOT_NEED is not None:
        base.madvise(_DO_NOT_NEED)


def trim() -> None:
    """Return freed memory that the C library keeps for later, where it can (glibc)."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None) if _DO_NOT_NEED is not None else None
    if release is not None:
        release(0)


_LENGTH = 1e-3  # by which a stored vector's length may differ from 1
_BLOCK = 16_384  # rows multiplied at a time
_QUERIES = 256  # queries at a time: with the rows above 16 MB of products
_CROWDED = 16_384  # passages as near as a query's k-th, beside k: with more, copies mostly, it is asked alone
_GATHER = 512  # vectors gathered at a time: .8 MB at 384 dimensions, which stay in the processor's cache
_OF_A_THREAD = 16_384  # pairs that are worth a thread of their own: 4 milliseconds
_READ_BY_A_THREAD = 49_152  # likewise, vectors that are read one after the other
_MANY = 256  # vectors in one read after which pages are given back: the system takes in up to 2 MB for each


@dataclass(frozen=True, slots=True)
class Candidates:
    """Passages by descending cosine similarity, ties by ascending number."""

    ids: NDArray[np.int64]  # (n,)
    scores: NDArray[np.float32]  # (n,)


NOTHING: Final = Candidates(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))


class VectorStore:
    """All vectors segments of a generation, by ascending passage number; immutable."""

    def __init__(
        self,
        segments: Sequence[VectorSegment],
        dimension: int,
        *,
        gives_back: bool = False,
        before: "VectorStore | None" = None,
    ) -> None:
        """`segments` in any order; their ranges of numbers do not overlap.

        gives_back: pages of the mapped files leave this process after every large read. They stay in the
        system's cache, but the next read takes them in again: for work that goes through everything once.
        before: a store of which some segments are here too; their numbers need not be gathered again
        """
        self.segments = tuple(sorted(segments, key=lambda segment: int(segment.ids[0])))
        self.dimension = dimension
        self.gives_back = gives_back
        self.starts = np.cumsum([0] + [segment.ids.size for segment in self.segments])
        self.first = int(self.segments[0].ids[0]) if self.segments else 0  # passage number; 0 without any
        self.last = int(self.segments[-1].ids[-1]) if self.segments else 0
        # Plain arrays over the same memory: numpy runs Python code for each view of a memmap.
        self._arrays = tuple(np.asarray(segment.stored) for segment in self.segments)
        self._without_gaps = bool(self.segments) and self.last - self.first + 1 == len(self)
        self.numbering: _Numbering = _Numbering() if before is None else before.numbering

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The numbers (n,) of all passages that have a vector, ascending; 8 bytes of memory each."""
        return self.numbering.of(self.segments)

    @property
    def overlaps(self) -> bool:
        """Whether two segments hold passages of one range: then places are wrong, and so are scores."""
        return any(one.ids[-1] >= other.ids[0] for one, other in pairwise(self.segments))

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the ids stand in `self.ids`; those without a vector are left out."""
        at = self.places(ids)
        return at[at >= 0]

    def places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each id stands in `self.ids`, -1 for one without a vector; any shape."""
        if self._without_gaps:
            place: NDArray[np.int64] = ids - self.first
            place[(place < 0) | (place >= len(self))] = -1
            return place
        return places_in(self.ids, ids)

    def numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """`self.ids` at some positions, without gathering them all where no number is left out."""
        return positions + self.first if self._without_gaps else self.ids[positions]

    def part(self, ids: NDArray[np.int64]) -> "VectorStore":
        """A copy in memory of these passages (ascending numbers), without those that have no vector."""
        positions = self.positions(ids)
        rows, cuts = self.rows(positions), np.searchsorted(positions, self.starts).tolist()
        segments = [
            VectorSegment(segment.sha256, self.numbers(positions[begin:end]), rows[begin:end])
            for segment, (begin, end) in zip(self.segments, pairwise(cuts), strict=True)
            if end > begin
        ]
        return VectorStore(segments, self.dimension)

    def rows(
        self, positions: NDArray[np.int64], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """The vectors (n, d) at ascending positions, written into `out` if there is one."""
        large = self.gives_back and positions.size >= _MANY
        if out is None and len(self._arrays) == 1 and self.segments[0].scales is None and not large:
            found: NDArray[np.float32] = self._arrays[0].take(positions, axis=0)
            return found
        gathered = np.empty((positions.size, self.dimension), dtype=np.float32) if out is None else out
        bounds = positions.searchsorted(self.starts)
        places = positions - self.starts[:-1].repeat(np.diff(bounds))  # within their segments
        cuts = bounds.tolist()
        for number, (begin, end) in enumerate(pairwise(cuts)):
            if begin == end:
                continue
            array, scales, some = self._arrays[number], self.segments[number].scales, places[begin:end]
            if scales is None:
                # With a mode other than "raise", numpy writes where it is told to without a copy between.
                array.take(some, axis=0, out=gathered[begin:end], mode="clip")
            else:
                widen(array.take(some, axis=0), scales.take(some), gathered[begin:end])
            if large:
                give_back(array)
        return gathered

    def nearest(
        self, query: NDArray[np.float32], k: int, alive: NDArray[np.bool_] | None = None, after: int = 0
    ) -> Candidates:
        """The k nearest by exact search among the passages numbered above `after`.

        query: (d,) unit length; alive: bool by passage number, True where a passage may be found; None = all.
        """
        return self.nearest_many(query[None, :], k, alive, after)[0]

    def nearest_many(
        self, queries: NDArray[np.float32], k: int, alive: NDArray[np.bool_] | None = None, after: int = 0
    ) -> list[Candidates]:
        """What `nearest` gives for each query (n, d), with one product for many of them."""
        first = self._first_after(after)
        if len(queries) == 1:
            return [self._nearest_alone(np.ascontiguousarray(queries[0]), k, alive, first)]
        found: list[Candidates] = []
        for begin in range(0, len(queries), _QUERIES):
            some = np.ascontiguousarray(queries[begin : begin + _QUERIES])
            best = _Proposed(len(some), k, exact_enough(some))
            for start, ids, vectors in self._blocks(first, len(self)):
                products = some @ vectors.T
                if alive is not None:
                    products[:, ~alive[ids]] = -np.inf
                best.add(products, start)
            decided = self._decided(some, best.queries, best.positions, k)
            for at in np.flatnonzero(np.isposinf(best.bars)):
                decided[at] = self._nearest_alone(some[at], k, alive, first)
            found += decided
        return found

    def _nearest_alone(
        self, query: NDArray[np.float32], k: int, alive: NDArray[np.bool_] | None, first: int
    ) -> Candidates:
        """The k nearest from a position on, by one array of all products: 4 bytes a vector.

        Each of several threads reads a part: BLAS would share every block among all cores, whose threads
        wait for each other.
        """
        products = np.empty(len(self) - first, dtype=np.float32)

        def of_a_thread(begin: int, end: int) -> None:
            # What is converted is read once, and soonest out of the processor's cache.
            for start, ids, vectors in self._blocks(first + begin, first + end, converted=_GATHER):
                part = products[start - first : start - first + len(vectors)]
                np.vecdot(vectors, query, out=part)
                if alive is not None:
                    part[~alive[ids]] = -np.inf

        _by_threads(of_a_thread, products.size, _READ_BY_A_THREAD)
        least = products.size - k
        bar = np.partition(products, least)[least] - exact_enough(query[None]) if least > 0 else -np.inf
        places = np.flatnonzero(products >= bar)
        places = places[products[places] > -np.inf]
        return self._decided_alone(query, self.numbers(places + first), k)

    def nearest_among(self, query: NDArray[np.float32], k: int, ids: NDArray[np.int64]) -> Candidates:
        """The k nearest of the given passages; those without a vector are left out."""
        return self.nearest_among_many(query[None, :], ids[None, :], k)[0]

    def nearest_among_many(
        self, queries: NDArray[np.float32], ids: NDArray[np.int64], k: int
    ) -> list[Candidates]:
        """The k nearest of each query's own passages.

        queries: (n, d) unit length; ids: (n, count) passage numbers, none twice in a row; those without a
        vector are left out, and so is -1.
        """
        if len(queries) == 1:
            return [self._decided_alone(queries[0], ids[0], k)]
        places = np.sort(self.places(ids), axis=1)  # of equal scores the lower number comes first
        # Most of what an index proposes may be put aside by now, and stands before the rest.
        places = places[:, np.count_nonzero(places < 0, axis=1).min(initial=places.shape[1]) :]
        there = places >= 0
        numbers, positions = np.nonzero(there)[0], places[there]
        order = np.argsort(positions)  # rows are read in the order of the file
        found = np.empty(positions.size, dtype=np.float32)
        found[order] = self._scores(queries, numbers[order], positions[order])
        scores = np.full(places.shape, -np.inf, dtype=np.float32)
        scores[there] = found
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, best, axis=1)
        ids = np.full(places.shape, -1, dtype=np.int64)
        ids[there] = self.numbers(positions)
        ids = np.take_along_axis(ids, best, axis=1)
        counts = np.count_nonzero(there, axis=1).tolist()
        return [
            Candidates(own[:count], some[:count])
            for own, some, count in zip(ids, scores, counts, strict=True)
        ]

    def _first_after(self, passage: int) -> int:
        """The position of the first vector of a passage with a greater number."""
        number = bisect_right(self.segments, passage, key=lambda segment: int(segment.ids[-1]))
        if number == len(self.segments):
            return len(self)
        within = np.searchsorted(self.segments[number].ids, passage, side="right")
        return int(self.starts[number]) + int(within)

    def _blocks(
        self, begin: int, end: int, converted: int | None = None
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """The vectors from one position to before another: where a block begins, its numbers, its rows.

        converted: rows of a block whose values are not stored as float32; None for as many as of others
        """
        for number, segment in enumerate(self.segments):
            start = int(self.starts[number])
            first, last = max(begin - start, 0), min(end - start, segment.ids.size)
            rows = _BLOCK if segment.scales is None else converted or _BLOCK
            for at in range(first, last, rows):
                some = slice(at, min(at + rows, last))
                yield start + at, segment.ids[some], segment.rows(some)
            if self.gives_back and first < last:
                give_back(segment.stored)

    def _decided(
        self,
        queries: NDArray[np.float32],
        numbers: NDArray[np.int64],
        positions: NDArray[np.int64],
        k: int,
    ) -> list[Candidates]:
        """The k best of the pairs (query number, position)."""
        if len(queries) == 1:
            return [self._decided_alone(queries[0], self.numbers(positions), k)]
        order = np.argsort(positions, kind="stable")  # rows are read in the order of the file
        numbers, positions = numbers[order], positions[order]
        scores = self._scores(queries, numbers, positions)
        # Positions and passage numbers both ascend, and both sorts are stable, so ties keep that order.
        best = np.argsort(-scores, kind="stable")
        best = best[np.argsort(numbers[best], kind="stable")]
        bounds = np.searchsorted(numbers[best], np.arange(len(queries) + 1))
        ids, scores = self.numbers(positions[best]), scores[best]
        return [
            Candidates(ids[begin : min(begin + k, end)], scores[begin : min(begin + k, end)])
            for begin, end in pairwise(bounds.tolist())
        ]

    def _scores(
        self, queries: NDArray[np.float32], numbers: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The product of each pair (query number, ascending position); many pairs by several threads."""
        scores = np.empty(positions.size, dtype=np.float32)

        def of_a_thread(first: int, last: int) -> None:
            # One buffer for all: blocks of a few MB, allocated again each time, cost six times the reading.
            vectors, asked = np.empty((2, min(_GATHER, last - first), self.dimension), dtype=np.float32)
            for begin in range(first, last, _GATHER):
                part = slice(begin, min(begin + _GATHER, last))
                size = part.stop - begin
                found = self.rows(positions[part], out=vectors[:size])
                queries.take(numbers[part], axis=0, out=asked[:size], mode="clip")
                np.einsum("ij,ij->i", found, asked[:size], out=scores[part])

        _by_threads(of_a_thread, positions.size)
        return scores

    def _decided_alone(self, query: NDArray[np.float32], ids: NDArray[np.int64], k: int) -> Candidates:
        ids = np.sort(ids)
        if ids.size and self._without_gaps and ids[0] >= self.first and ids[-1] <= self.last:
            positions = ids - self.first  # what `places` gives, in half the time
        else:
            positions = self.positions(ids)
        scores = np.empty(positions.size, dtype=np.float32)

        def of_a_thread(first: int, last: int) -> None:
            vectors = np.empty((min(_GATHER, last - first), self.dimension), dtype=np.float32)
            for begin in range(first, last, _GATHER):
                part = slice(begin, min(begin + _GATHER, last))
                found = self.rows(positions[part], out=vectors[: part.stop - begin])
                np.einsum("ij,j->i", found, query, out=scores[part])

        if positions.size <= _GATHER:
            np.einsum("ij,j->i", self.rows(positions), query, out=scores)
        else:
            _by_threads(of_a_thread, positions.size)
        return merge([Candidates(self.numbers(positions), scores)], k)


class _Numbering:
    """The passage numbers of stores that follow each other, in one array that grows at its end.

    What an earlier store sees of it does not change, so that a later one writes only what was added since.
    Safe to share between threads.
    """

    def __init__(self) -> None:
        self._files: list[str] = []  # the hashes of the segments whose numbers are in the array
        self._sizes: list[int] = []
        self._array = np.zeros(0, dtype=np.int64)
        self._lock = ThreadLock()

    def of(self, segments: Sequence[VectorSegment]) -> NDArray[np.int64]:
        """The numbers in all the segments, by ascending number, as a view that cannot be written to."""
        files = [segment.sha256 for segment in segments]
        sizes = [segment.ids.size for segment in segments]
        with self._lock:
            pairs = zip(files, self._files, strict=False)
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            begin, used, end = sum(sizes[:shared]), sum(self._sizes), sum(sizes)
            rest = np.concatenate([self._array[:0], *(segment.ids for segment in segments[shared:])])
            known = min(used, end) - begin  # segments that were merged have the same numbers again
            if not np.array_equal(rest[:known], self._array[begin : begin + known]):
                # Elsewhere than at the end: another array, which those that follow grow on.
                self._array = np.concatenate([self._array[:begin], rest])
                self._files, self._sizes, used, known = files, sizes, end, end - begin
            if end > self._array.size:
                grown = np.empty(end + end // 8, dtype=np.int64)
                grown[:used] = self._array[:used]
                self._array = grown
            if end >= used:
                self._array[used:end] = rest[known:]
                self._files, self._sizes = files, sizes
            numbers = self._array[:end]
            numbers.flags.writeable = False
            return numbers


class _Proposed:
    """For each query the positions that may belong to its k best, by products that may err.

    None for one with very many: its bar is then infinite.
    """

    def __init__(self, count: int, k: int, margin: float) -> None:
        """`count` queries; margin: by how much two products may mislead about two scores."""
        self.k = k
        self.margin = margin
        self.bars = np.full(count, -np.inf, dtype=np.float32)  # what is below cannot be among the k
        self.queries = np.zeros(0, dtype=np.int64)
        self.positions = np.zeros(0, dtype=np.int64)
        self._products = np.zeros(0, dtype=np.float32)

    def add(self, products: NDArray[np.float32], start: int) -> None:
        """products: (count, rows) of the rows at positions from `start`; -inf where none may be found."""
        rows = products.shape[1]
        if rows > self.k and np.isneginf(self.bars).any():
            highest = np.partition(products, rows - self.k, axis=1)[:, rows - self.k]
            self.bars = np.maximum(self.bars, highest - self.margin)
        numbers, columns = np.nonzero((products >= self.bars[:, None]) & (products > -np.inf))
        self.queries = np.concatenate([self.queries, numbers])
        self.positions = np.concatenate([self.positions, columns + start])
        self._products = np.concatenate([self._products, products[numbers, columns]])
        self._prune()

    def _prune(self) -> None:
        order = raise_bars(self.bars, self.queries, self._products, self.k, self.margin)
        crowds = np.bincount(self.queries, self._products >= self.bars[self.queries], self.bars.size)
        self.bars[crowds > self.k + _CROWDED] = np.inf
        kept = order[self._products[order] >= self.bars[self.queries[order]]]
        self.queries, self.positions = self.queries[kept], self.positions[kept]
        self._products = self._products[kept]


def raise_bars(
    bars: NDArray[np.float32],
    queries: NDArray[np.integer],
    values: NDArray[np.float32],
    k: int,
    margin: float = 0.0,
) -> NDArray[np.int64]:
    """Raise each query's bar (n,) to its k-th greatest value, less a margin, where it has as many.

    queries, values: (m,) of each candidate; returns: the candidates by query, then falling value, (m,)
    """
    order = np.lexsort((-values, queries))
    bounds = np.searchsorted(queries[order], np.arange(bars.size + 1))
    full = np.flatnonzero(np.diff(bounds) >= k)
    bars[full] = np.maximum(bars[full], values[order[bounds[full] + k - 1]] - margin)
    return order


def exact_enough(queries: NDArray[np.float32]) -> float:
    """Twice the error that a product of one of the queries (n, d) with a unit vector can have in float32.

    Higham 2002, section 3.1: |error| <= d u / (1 - d u) |x| |y| with u = 2^-24, in whatever order it is
    summed; two such sums differ by twice that, and two scores that are compared by twice that again.
    """
    longest = float(np.sqrt(np.einsum("ij,ij->i", queries, queries).max(initial=1.0)))
    return 4.04 * 2.0**-24 * int(queries.shape[1]) * longest


def _by_threads(work: Callable[[int, int], None], count: int, least: int = _OF_A_THREAD) -> None:
    """Let threads do a part each of so many, first to before last; as few as have at least so many."""
    threads = max(1, min(usable_threads(), count // least))
    cuts = np.linspace(0, count, threads + 1).astype(int).tolist()
    if threads == 1:
        work(0, count)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="nearsay-scores") as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))


def merge(parts: Sequence[Candidates], k: int) -> Candidates:
    """The k best of several; the same whatever the order of the parts."""
    if not parts:
        return NOTHING
    ids = np.concatenate([part.ids for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    if ids.size > 4 * k:  # a cheap cut first: everything that ties with the k-th best stays in
        threshold = np.partition(scores, scores.size - k)[scores.size - k]
        kept = scores >= threshold
        ids, scores = ids[kept], scores[kept]
    order = np.lexsort((ids, -scores))[:k]
    return Candidates(ids[order], scores[order])


def of_unit_length(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which of the vectors (n, d) have length 1, as all that are stored should."""
    near: NDArray[np.bool_] = np.abs(np.linalg.norm(vectors, axis=1) - 1.0) <= _LENGTH
    return near


def unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors (n, d) of any float type scaled to length 1: a dot product is their cosine similarity.

    NearsayError if one is zero, infinite or not a number: it has no direction.
    """
    vectors = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = int(np.count_nonzero(~np.isfinite(norms) | (norms == 0.0)))
    if bad:
        raise NearsayError(
            f"the encoder gave {bad} vectors that are zero, infinite or not numbers. Use another encoder"
        )
    return vectors if np.all(np.abs(norms - 1.0) < 1e-6) else vectors / norms


def places_in(rising: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each id stands among ascending ones, -1 for one that is not there; any shape."""
    if not rising.size:
        return np.full(ids.shape, -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(rising, ids), rising.size - 1)
    return np.where(rising[at] == ids, at, -1)
