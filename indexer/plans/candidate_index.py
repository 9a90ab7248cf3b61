"""An opened FAISS index of any kind: it proposes passages, the stored float32 vectors decide.

Candidates are scored again exactly, so a score is the same whichever way a passage was found.
Douze et al. 2024, https://arxiv.org/abs/2401.08281
"""

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import TEMPORARY_PREFIX, replacing
from nearsay.indexer.plans.engine import Engine, faiss_module, one_thread
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, exact_enough, merge

__all__ = ["CandidateIndex", "Lists", "UnitedIndex", "united"]


# One query alone in inverted lists: centres compared in half precision, half the memory to read.
#
# Of a million vectors in 2,048 lists, finding the lists takes about half of a query's time inside the
# index, bound by reading their centres. Many queries at once share each read: for them float32 and BLAS are
# quicker.


_MORE = 4  # lists that are looked at beyond the wanted: rounding may have put one behind them


class Lists(NamedTuple):
    """The lists that queries look into, and the products of their centres with the queries: (n, probes)."""

    numbers: NDArray[np.int64]
    products: NDArray[np.float32]


class _Centres(NamedTuple):
    """In half precision."""

    index: Any  # FAISS's, of the rounded centres
    exact: NDArray[np.float32]  # (lists, d) as the index has them
    margin: float  # two centres whose products with a unit vector differ by more keep their order


class LoneQuery:
    """Asks a FAISS index of inverted lists for one query; safe to use from several threads."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - FAISS has no types
        """index: a trained IndexIVF or one of its kinds; its centres do not change any more.

        Where the index reads from mapped memory, whoever made it keeps that.
        """
        self._index = index
        self._lists, self._dimension = int(index.nlist), int(index.d)

    @cached_property
    def centres_hash(self) -> bytes:
        """The same for indexes filled into copies of one trained index; a second a gigabyte, once."""
        flat = faiss_module().downcast_index(self._index.quantizer)
        centres = faiss_module().rev_swig_ptr(flat.get_xb(), self._lists * self._dimension)
        return hashlib.sha256(centres.data).digest()

    def candidates(self, query: NDArray[np.float32], count: int, parameters: Any) -> NDArray[np.int64]:  # noqa: ANN401
        """The numbers (1, count) of what lies nearest in the nearest lists; -1 = no more.

        The lists are those that float32 finds, but for ties within its own rounding: where half precision
        leaves open which are the last, it decides.

        query: (1, d) unit length, contiguous; parameters: SearchParametersIVF
        """
        lists = self._nearest_lists(query, parameters.nprobe)
        if lists is None:
            found: NDArray[np.int64] = self._index.search(query, count, params=parameters)[1]
            return found
        return self.within(query, count, parameters, lists)

    def lists(self, queries: NDArray[np.float32], probes: int) -> Lists:
        """The lists that are nearest to each query (n, d), for every index with the same centres."""
        found = self._nearest_lists(queries, probes)
        if found is not None:
            return Lists(found.numbers[:probes], found.products[:probes])
        products, numbers = self._index.quantizer.search(queries, probes)
        return Lists(numbers, products)

    def within(
        self,
        queries: NDArray[np.float32],
        count: int,
        parameters: Any,  # noqa: ANN401 - FAISS has no types
        lists: Lists,
    ) -> NDArray[np.int64]:
        """The numbers (n, count) of what lies nearest in lists that are chosen already; -1 = no more."""
        pointer = faiss_module().swig_ptr
        scores = np.empty((len(queries), count), dtype=np.float32)
        ids = np.empty((len(queries), count), dtype=np.int64)
        self._index.search_preassigned_c(  # what search_preassigned wraps: that takes no parameters
            len(queries),
            pointer(queries),
            count,
            pointer(lists.numbers),
            pointer(lists.products),
            pointer(scores),
            pointer(ids),
            False,
            parameters,
            None,
        )
        return ids

    def _nearest_lists(self, query: NDArray[np.float32], probes: int) -> Lists | None:
        """The nearest lists of one query, or some more; None: the index has to say."""
        wide = probes + _MORE
        if wide > self._lists or query.shape != (1, self._dimension):
            return None
        faiss, centres = faiss_module(), self._centres
        products, numbers = np.empty(wide, dtype=np.float32), np.empty(wide, dtype=np.int64)
        centres.index.search_c(
            1, faiss.swig_ptr(query), wide, faiss.swig_ptr(products), faiss.swig_ptr(numbers)
        )
        last = products.item(probes - 1)
        if last - products.item(probes) > centres.margin:
            return Lists(numbers, products)
        if last - products.item(wide - 1) <= centres.margin:
            return None
        again = centres.exact[numbers] @ query[0]
        order = (-again).argsort(kind="stable")
        return Lists(numbers[order], again[order])

    @cached_property
    def _centres(self) -> _Centres:
        """Made when it is first asked, in some milliseconds, of 2 bytes a number."""
        faiss = faiss_module()
        lists, dimension = self._lists, self._dimension
        flat = faiss.downcast_index(self._index.quantizer)
        exact = faiss.rev_swig_ptr(flat.get_xb(), lists * dimension).reshape(lists, dimension)
        half = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, self._index.metric_type)
        half.train(exact)
        half.add(exact)
        # Cauchy-Schwarz, and what summing in float32 may add (Higham 2002, section 3.1).
        off = np.linalg.norm(exact - half.reconstruct_n(0, lists), axis=1).max()
        longest = np.linalg.norm(exact, axis=1).max()
        return _Centres(half, exact, float(2.0 * off + 4.04 * 2.0**-24 * dimension * longest))


_WRITTEN_AT_ONCE = 4 << 20  # bytes
_MOST_SEGMENTS = 32  # FAISS goes through all candidates once a segment; with more, numpy is quicker


class _Members:
    """Which passages a FAISS index holds."""

    def __init__(self, engine: Engine, index: Any) -> None:  # noqa: ANN401 - FAISS has no types
        self._engine, self._index = engine, index

    @cached_property
    def bits(self) -> NDArray[np.uint8]:
        """A bit for each passage number, the lowest first; goes through the whole index, once."""
        ids = self._engine.ids(self._index)
        held = np.zeros(int(ids.max(initial=0)) + 1, dtype=np.bool_)
        held[ids] = True
        return np.packbits(held, bitorder="little")

    def are_among(self, bits: NDArray[np.uint8]) -> bool:
        """Whether all of them are set in the bits of others."""
        return self.bits.size <= bits.size and not np.any(self.bits & ~bits[: self.bits.size])


class _Living(NamedTuple):
    """What was worked out of one read-only array of the living."""

    alive: NDArray[np.bool_]
    bits: NDArray[np.uint8] | None  # None: everything in the index is alive


class CandidateIndex:
    """An opened index over all passages up to `through`; safe to search from several threads."""

    def __init__(
        self,
        engine: Engine,
        index: Any,  # noqa: ANN401 - FAISS has no types
        through: int,
        sha256: str = "",
        parameters: Mapping[str, int] | None = None,
        mapped: NDArray[np.uint8] | None = None,
        *,
        alone: LoneQuery | None = None,
        members: _Members | None = None,
    ) -> None:
        """`index`: FAISS's, its ids are passage numbers; `sha256`: of its segment, once written.

        parameters: how far a search looks (`probes`, `ef`) and how many candidates it scores again
        (`factor`, as a multiple of k); what is left out is the engine's default. mapped: the serialisation
        that the index reads its codes from, kept for as long as it. alone, members: what asks the same FAISS
        index for one query, and knows what is in it; None = made here.
        """
        self.engine = engine
        self.through = through
        self.sha256 = sha256
        self.parameters = {**engine.defaults, **(parameters or {})}
        self._index = index
        self._mapped = mapped
        if alone is None and engine.has_centres and index is not None:
            alone = LoneQuery(index)
        self._alone = alone
        self._members = members or _Members(engine, index)
        self._living: _Living | None = None
        self._unfiltered: dict[int, Any] = {}  # FAISS's parameters by count: dear to make, only read
        self._wider: dict[tuple[tuple[str, int], ...], Self] = {}  # by parameters; each keeps its own bits

    @property
    def faiss_index(self) -> Any:  # noqa: ANN401 - FAISS has no types
        """FAISS's own, to be copied to a GPU."""
        return self._index

    @property
    def kind(self) -> PlanKind:
        """Which kind of index it is."""
        return self.engine.kind

    def looking(self, parameters: Mapping[str, int]) -> Self:
        """The same index, searched with other parameters; shares everything and is free to make."""
        return type(self)(
            self.engine,
            self._index,
            self.through,
            self.sha256,
            parameters,
            self._mapped,
            alone=self._alone,
            members=self._members,
        )

    @property
    def lists(self) -> int:
        """The most lists that a search can look into; 0 where there are none."""
        return int(self._index.nlist) if self.engine.has_centres else 0

    def wider(self, factor: float) -> Self:
        """The same index, looking `factor` times as far and scoring as many times the candidates.

        The index itself where it cannot look further; the same object for the same reach.
        """
        reach = dict(self.parameters)
        if "probes" in reach:
            reach["probes"] = max(reach["probes"], min(round(reach["probes"] * factor), self.lists))
        elif "ef" in reach:
            reach["ef"] = max(reach["ef"], min(round(reach["ef"] * factor), len(self)))
        else:
            return self
        reach["factor"] = max(reach["factor"], min(round(reach["factor"] * factor), len(self)))
        if reach == self.parameters:
            return self
        return self._wider.setdefault(tuple(sorted(reach.items())), self.looking(reach))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the index, rising."""
        return np.sort(self.engine.ids(self._index))

    def add(self, vectors: VectorStore, ids: NDArray[np.int64]) -> None:
        """Take in passages (rising numbers) that it lacks, on one thread; not while searched, nor mapped."""
        with one_thread():
            self._index.add_with_ids(vectors.rows(vectors.positions(ids)), ids)
        self._members = _Members(self.engine, self._index)

    def serialise(self) -> NDArray[np.uint8]:
        """FAISS's own serialisation."""
        serialised: NDArray[np.uint8] = faiss_module().serialize_index(self._index)
        return serialised

    @contextmanager
    def serialised_in(self, folder: Path) -> Iterator[NDArray[np.uint8]]:
        """What `serialise` gives, as a mapped temporary file in the folder: memory holds no second index."""
        path = folder / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        faiss = faiss_module()
        try:
            with replacing(path) as stream:
                faiss.write_index(self._index, faiss.PyCallbackIOWriter(stream.write, _WRITTEN_AT_ONCE))
            yield np.memmap(path, dtype=np.uint8, mode="r")
        finally:
            path.unlink(missing_ok=True)

    def chosen_lists(self, queries: NDArray[np.float32]) -> Lists | None:
        """The lists that `proposed` looks into for each query (n, d); None for a kind without lists."""
        if self._alone is None:
            return None
        with one_thread() if len(queries) == 1 else nullcontext():
            return self._alone.lists(queries, min(self.parameters["probes"], self.lists))

    def looks_where(self, other: "CandidateIndex") -> bool:
        """Whether it has the centres of another one and looks into as many lists: into the same ones."""
        alike = self.centres_hash is not None and self.centres_hash == other.centres_hash
        return alike and self.parameters == other.parameters

    @property
    def centres_hash(self) -> bytes | None:
        """What indexes with the same centres have in common; None for a kind without."""
        return None if self._alone is None else self._alone.centres_hash

    def candidates(
        self,
        queries: NDArray[np.float32],
        count: int,
        alive: NDArray[np.bool_] | None = None,
        lists: Lists | None = None,
    ) -> NDArray[np.int64]:
        """The `count` passages that the index holds for nearest, for each query; -1 = no more.

        queries: (n, d) unit length; alive: bool by passage number, True where a passage may be found, None =
        all (an array that cannot be written to is packed once and remembered); returns: (n, count).
        lists: to look into, which `chosen_lists` gave, of this index or one that looks there; None = its own
        """
        bits = self._bits(alive)
        if bits is None:
            parameters = self._unfiltered.get(count)
            if parameters is None:
                parameters = self.engine.search_parameters(self._looking_for(count), None)
                self._unfiltered[count] = parameters
        else:
            selector = faiss_module().IDSelectorBitmap(bits)  # which outlive the search
            parameters = self.engine.search_parameters(self._looking_for(count), selector)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        # More threads only wait for each other over a single query: .10 ms instead of .14 at a million.
        with one_thread() if len(queries) == 1 else nullcontext():
            if lists is not None and self._alone is not None:
                return self._alone.within(queries, count, parameters, lists)
            if len(queries) == 1 and self._alone is not None:
                return self._alone.candidates(queries, count, parameters)
            ids: NDArray[np.int64] = self._index.search(queries, count, params=parameters)[1]
        return ids

    def proposed(
        self,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_] | None = None,
        lists: Lists | None = None,
    ) -> NDArray[np.int64]:
        """The candidates that are scored to find k: `candidates`, `factor` times as many."""
        return self.candidates(queries, min(k * self.parameters["factor"], max(len(self), 1)), alive, lists)

    def nearest_many(
        self,
        vectors: VectorStore,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_] | None = None,
    ) -> list[Candidates]:
        """The k nearest as far as the index shows them, scored by the stored vectors; (n, d) gives n."""
        queries = np.ascontiguousarray(queries)
        return self.scored(vectors, queries, k, self.proposed(queries, k, alive))

    @staticmethod
    def scored(
        vectors: VectorStore, queries: NDArray[np.float32], k: int, ids: NDArray[np.int64]
    ) -> list[Candidates]:
        """The k best of what is proposed for each query (n, count), by the stored vectors."""
        if len(queries) > 1 and len(vectors.segments) <= _MOST_SEGMENTS and vectors.is_float32:
            ids = _shortlist(vectors, queries, ids, k)
        return vectors.nearest_among_many(queries, ids, k)

    def _looking_for(self, count: int) -> Mapping[str, int]:
        # A graph's walk cannot return more than its ef.
        if "ef" in self.parameters:
            return {**self.parameters, "ef": max(self.parameters["ef"], count)}
        return self.parameters

    def _bits(self, alive: NDArray[np.bool_] | None) -> NDArray[np.uint8] | None:
        if alive is None:
            return None
        known = self._living  # one read: another thread may replace it
        if known is not None and known.alive is alive:
            return known.bits
        bits = np.packbits(alive, bitorder="little")
        if alive.flags.writeable:  # it is asked anew for each search: seldom worth the look
            return bits
        known = _Living(alive, None if self._members.are_among(bits) else bits)
        self._living = known
        return known.bits


def _shortlist(
    vectors: VectorStore, queries: NDArray[np.float32], ids: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """The ids (n, count) with -1 in the place of all that cannot be among the k best of their query.

    FAISS multiplies without gathering, on all its threads, but rounds otherwise than what decides: whatever
    is within the error bound stays.
    """
    if ids.shape[1] <= k:
        return ids
    faiss = faiss_module()
    places = vectors.places(ids)
    products = np.full(ids.shape, -np.inf, dtype=np.float32)
    some = np.empty(ids.shape, dtype=np.float32)
    for segment, start in zip(vectors.segments, vectors.starts[:-1].tolist(), strict=True):
        rows = np.asarray(segment.stored)
        inside = np.where((places >= start) & (places < start + len(rows)), places - start, -1)
        faiss.fvec_inner_products_by_idx(  # gives -inf for -1
            faiss.swig_ptr(some),
            faiss.swig_ptr(queries),
            faiss.swig_ptr(rows),
            faiss.swig_ptr(inside),
            vectors.dimension,
            len(queries),
            ids.shape[1],
        )
        np.maximum(products, some, out=products)
    kth = np.partition(products, ids.shape[1] - k, axis=1)[:, ids.shape[1] - k]
    return np.where(products >= (kth - exact_enough(queries))[:, None], ids, -1)


class UnitedIndex(CandidateIndex):
    """Several indexes over ranges that follow each other, searched as one.

    Each index proposes for its own range, and the stored vectors decide among all that were proposed.
    """

    def __init__(self, parts: Sequence[CandidateIndex], vectors: VectorStore) -> None:
        """`parts`: by their ranges, of one kind; `vectors`: of all passages in them."""
        hashes = ",".join(part.sha256 for part in parts)
        super().__init__(parts[0].engine, None, parts[-1].through, hashes, parts[0].parameters)
        self.parts = tuple(parts)
        self._vectors = vectors

    @cached_property
    def _alike(self) -> list[bool]:
        """Which of them look where the first one does: the lists of a query are chosen once for all these."""
        return [part.looks_where(self.parts[0]) for part in self.parts]

    @property
    def lists(self) -> int:
        """The most lists that a search can look into in one of them."""
        return max(part.lists for part in self.parts)

    def looking(self, parameters: Mapping[str, int]) -> Self:
        """The same indexes, searched with other parameters."""
        return type(self)([part.looking(parameters) for part in self.parts], self._vectors)

    def wider(self, factor: float) -> Self:
        """Each looking `factor` times as far; the same object for the same reach, itself where none can."""
        parts = [part.wider(factor) for part in self.parts]
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        key = tuple(item for part in parts for item in sorted(part.parameters.items()))
        return self._wider.setdefault(key, type(self)(parts, self._vectors))

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the indexes, rising."""
        return np.sort(np.concatenate([part.ids() for part in self.parts]))

    def add(self, vectors: VectorStore, ids: NDArray[np.int64]) -> None:  # noqa: ARG002
        """TypeError: new passages get an index of their own."""
        raise TypeError("several indexes searched as one take in nothing")

    def serialise(self) -> NDArray[np.uint8]:
        """TypeError: each is kept by itself."""
        raise TypeError("several indexes searched as one are each kept by themselves")

    def candidates(
        self,
        queries: NDArray[np.float32],
        count: int,
        alive: NDArray[np.bool_] | None = None,
        lists: Lists | None = None,  # noqa: ARG002 - of one index
    ) -> NDArray[np.int64]:
        """The `count` nearest of what each proposes, by the stored vectors; (n, count), -1 = no more."""
        found = np.full((len(queries), count), -1, dtype=np.int64)
        for row, best in enumerate(self.nearest_many(self._vectors, queries, count, alive)):
            found[row, : best.ids.size] = best.ids
        return found

    def nearest_many(
        self,
        vectors: VectorStore,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_] | None = None,
    ) -> list[Candidates]:
        """The k nearest as far as the indexes show them, scored by the stored vectors; (n, d) gives n."""
        queries = np.ascontiguousarray(queries)
        lists = self.parts[0].chosen_lists(queries) if any(self._alike[1:]) else None
        found = [
            self.scored(vectors, queries, k, part.proposed(queries, k, alive, lists if alike else None))
            for part, alike in zip(self.parts, self._alike, strict=True)
        ]
        return [merge(of_query, k) for of_query in zip(*found, strict=True)]


def united(parts: Sequence[Any], vectors: VectorStore) -> CandidateIndex:
    """The one index, or several as one."""
    one: CandidateIndex = parts[0]
    return one if len(parts) == 1 else UnitedIndex(parts, vectors)
