"""An opened FAISS index of any kind: it proposes passages, the stored float32 vectors decide.

Candidates are scored again exactly, so a score is the same whichever way a passage was found.
Douze et al. 2024, https://arxiv.org/abs/2401.08281
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import TEMPORARY_PREFIX, replacing
from nearsay.indexer.plans.centroids import Centroids, Chosen, Lists, Where, probes_at
from nearsay.indexer.plans.engine import Engine, faiss_module, one_thread
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, exact_enough, merge

_WRITTEN_AT_ONCE = 4 << 20  # bytes
_MOST_SEGMENTS = 32  # FAISS goes through all candidates once a segment; with more, numpy is quicker


class _Members:
    """Which passages a FAISS index holds, and which of those live by the last array that was asked with."""

    def __init__(self, engine: Engine, index: Any) -> None:  # noqa: ANN401 - FAISS has no types
        self._engine, self._index = engine, index
        # A read-only array of the living, and its bits; None instead of these where it leaves none out.
        self._living: tuple[NDArray[np.bool_], NDArray[np.uint8] | None] | None = None

    @cached_property
    def bits(self) -> NDArray[np.uint8]:
        """A bit for each passage number, the lowest first; goes through the whole index, once."""
        ids = self._engine.ids(self._index)
        held = np.zeros(int(ids.max(initial=0)) + 1, dtype=np.bool_)
        held[ids] = True
        return np.packbits(held, bitorder="little")

    def living(self, alive: NDArray[np.bool_] | None) -> NDArray[np.uint8] | None:
        """A bit for each passage that is alive; None where that leaves none of them out.

        An array that cannot be written to is packed once and remembered.
        """
        if alive is None:
            return None
        known = self._living  # one read: another thread may replace it
        if known is not None and known[0] is alive:
            return known[1]
        bits = np.packbits(alive, bitorder="little")
        if alive.flags.writeable:  # it is asked again for each search: seldom worth the look
            return bits
        all_live = self.bits.size <= bits.size and not np.any(self.bits & ~bits[: self.bits.size])
        self._living = alive, None if all_live else bits
        return None if all_live else bits


class CandidateIndex:
    """An opened index over all passages up to `through`; safe to search from several threads."""

    def __init__(
        self,
        engine: Engine,
        index: Any,  # noqa: ANN401 - FAISS has no types
        through: int,
        sha256: str = "",
        parameters: Mapping[str, int] | None = None,
        *,
        centroids: Centroids | None = None,
        members: _Members | None = None,
    ) -> None:
        """`index`: FAISS's, its ids are passage numbers; `sha256`: of its segment, once written.

        parameters: how far a search looks (`probes`) and how many candidates it scores again (`factor`,
        as a multiple of k); what is left out is the engine's default. centroids, members: of
        the same FAISS index; None = made here.
        """
        self.engine, self.kind = engine, engine.kind
        self.through = through
        self.sha256 = sha256
        self.parameters = {**engine.defaults, **(parameters or {})}
        self.faiss_index = index
        if centroids is None and engine.has_centroids and index is not None:
            centroids = Centroids(index.quantizer, index)
        self._centroids = centroids
        self._members = members or _Members(engine, index)
        self.nearer: Self | None = None  # what looked into some of the lists already
        self._wider: dict[tuple[tuple[str, int], ...], Self] = {}  # by parameters

    @property
    def rough(self) -> bool:
        """Whether near vectors are still in the lists that it looked into, behind those that it proposed."""
        return self.engine.rough

    def looking(self, parameters: Mapping[str, int]) -> Self:
        """The same index, searched with other parameters; shares everything and is free to make."""
        return type(self)(
            self.engine,
            self.faiss_index,
            self.through,
            self.sha256,
            parameters,
            centroids=self._centroids,
            members=self._members,
        )

    @property
    def lists(self) -> int:
        """The most lists that a search can look into; 0 where there are none."""
        return int(self.faiss_index.nlist) if self.engine.has_centroids else 0

    def wider(self, factor: float) -> Self:
        """The same index, looking `factor` times as far.

        Where it is rough it scores as many times the candidates. The index itself where it cannot look
        further; the same object for the same reach.
        """
        reach = dict(self.parameters)
        if "probes" not in reach:
            return self
        reach["probes"] = probes_at(factor, reach["probes"], self.lists)
        if self.rough:
            reach["factor"] = max(reach["factor"], min(round(reach["factor"] * factor), len(self)))
        if reach == self.parameters:
            return self
        return self._wider.setdefault(tuple(sorted(reach.items())), self.looking(reach))

    def beyond(self, nearer: Self) -> Self:
        """The same index, looking only into the lists that another one of `wider` leaves out."""
        found = copy(self)
        found.nearer = nearer
        return found

    def __len__(self) -> int:
        return int(self.faiss_index.ntotal)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the index, rising."""
        return np.sort(self.engine.ids(self.faiss_index))

    def add(self, vectors: VectorStore, ids: NDArray[np.int64]) -> None:
        """Take in passages (ascending numbers) that it lacks, on one thread; not while searched."""
        with one_thread():
            self.faiss_index.add_with_ids(vectors.rows(vectors.positions(ids)), ids)
        self._members = _Members(self.engine, self.faiss_index)

    def serialise(self) -> NDArray[np.uint8]:
        """FAISS's own serialisation."""
        serialised: NDArray[np.uint8] = faiss_module().serialize_index(self.faiss_index)
        return serialised

    @contextmanager
    def serialised_in(self, folder: Path) -> Iterator[NDArray[np.uint8]]:
        """What `serialise` gives, as a mapped temporary file in the folder: memory holds no second index."""
        path = folder / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        faiss = faiss_module()
        try:
            with replacing(path) as stream:
                faiss.write_index(self.faiss_index, faiss.PyCallbackIOWriter(stream.write, _WRITTEN_AT_ONCE))
            yield np.memmap(path, dtype=np.uint8, mode="r")
        finally:
            path.unlink(missing_ok=True)

    def chosen_lists(self, queries: NDArray[np.float32]) -> Lists | None:
        """The lists that it looks into for each query (n, d), contiguous; None for a kind without lists."""
        if self._centroids is None:
            return None
        lists = self._centroids.nearest(queries, self._probes)
        known = None if self.nearer is None else self.nearer.chosen_lists(queries)
        return lists if known is None else lists.without(known)

    @cached_property
    def where(self) -> Where | None:
        """Indexes for which this is the same look into the same lists; None for a kind without."""
        return None if self._centroids is None else Where(self._centroids.hash, self._probes)

    @property
    def _probes(self) -> int:
        return min(self.parameters["probes"], self.lists)

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
        bits = self._members.living(alive)
        if bits is None:
            parameters = self._unfiltered
        else:
            selector = faiss_module().IDSelectorBitmap(bits)  # which outlive the search
            parameters = self.engine.search_parameters(self._looking, selector)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if lists is None and (len(queries) == 1 or self.nearer is not None):
            lists = self.chosen_lists(queries)
        with one_thread() if len(queries) == 1 else nullcontext():
            if lists is not None:
                return self._within(queries, count, parameters, lists)
            ids: NDArray[np.int64] = self.faiss_index.search(queries, count, params=parameters)[1]
        return ids

    def _within(
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
        self.faiss_index.search_preassigned_c(  # what search_preassigned wraps: that takes no parameters
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
        chosen: Chosen | None = None,
    ) -> list[Candidates]:
        """The k nearest as far as the index shows them, scored by the stored vectors; (n, d) gives n.

        chosen: the queries' lists, used if they are those that the index would choose
        """
        queries = np.ascontiguousarray(queries)
        lists = None if chosen is None or chosen.where != self.where else chosen.lists
        return self.scored(vectors, queries, k, self.proposed(queries, k, alive, lists))

    @staticmethod
    def scored(
        vectors: VectorStore, queries: NDArray[np.float32], k: int, ids: NDArray[np.int64]
    ) -> list[Candidates]:
        """The k best of what is proposed for each query (n, count), by the stored vectors."""
        as_scored = all(segment.scales is None for segment in vectors.segments)  # stored so
        if len(queries) > 1 and len(vectors.segments) <= _MOST_SEGMENTS and as_scored:
            ids = _shortlist(vectors, queries, ids, k)
        return vectors.nearest_among_many(queries, ids, k)

    @cached_property
    def _unfiltered(self) -> object:
        """FAISS's parameters without a filter: dear to make, only read."""
        return self.engine.search_parameters(self._looking, None)

    @property
    def _looking(self) -> Mapping[str, int]:
        if "probes" in self.parameters:  # of lists that were chosen FAISS reads as many as it is told
            return {**self.parameters, "probes": self._probes}
        return self.parameters


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

    def beyond(self, nearer: Self) -> Self:
        """Each looking only into the lists that it leaves out in another one; those that have none go."""
        both = zip(self.parts, nearer.parts, strict=True)
        return type(self)([part.beyond(old) for part, old in both if part is not old], self._vectors)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the indexes, ascending."""
        return np.sort(np.concatenate([part.ids() for part in self.parts]))

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
        chosen: Chosen | None = None,
    ) -> list[Candidates]:
        """The k nearest as far as the indexes show them, scored by the stored vectors; (n, d) gives n.

        The lists of a query are chosen once for all indexes that look into the same ones. chosen: the lists
        for some of them
        """
        queries = np.ascontiguousarray(queries)
        known: dict[Where | None, Lists | None] = {} if chosen is None else {chosen.where: chosen.lists}
        every = [part.where for part in self.parts]

        def proposed(part: CandidateIndex, where: Where | None) -> NDArray[np.int64]:
            if where not in known and every.count(where) > 1:
                known[where] = part.chosen_lists(queries)
            return part.proposed(queries, k, alive, known.get(where))

        ids = map(proposed, self.parts, every)
        if len(queries) == 1:  # one reading of what all propose; of many queries it would be large
            return self.scored(vectors, queries, k, np.concatenate([*ids], axis=1))
        found = [self.scored(vectors, queries, k, of_part) for of_part in ids]
        return [merge(of_query, k) for of_query in zip(*found, strict=True)]


def united(parts: Sequence[Any], vectors: VectorStore) -> CandidateIndex:
    """The one index, or several as one."""
    one: CandidateIndex = parts[0]
    return one if len(parts) == 1 else UnitedIndex(parts, vectors)
