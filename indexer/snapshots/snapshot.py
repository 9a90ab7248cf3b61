"""A snapshot of a collection's live generation."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import generations, ranges, refinements
from nearsay.indexer.catalogue.bulk import number_lists
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow, SegmentState
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.plans.candidate_index import CandidateIndex, UnitedIndex, united
from nearsay.indexer.plans.centroids import Chosen
from nearsay.indexer.plans.engine import faiss_is_installed
from nearsay.indexer.plans.engines import open_index, reach_over
from nearsay.indexer.plans.gpu import GpuIndex
from nearsay.indexer.plans.gpu_opening import answering
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots.quarantine import OVERLAPPING, opened_segment, remedy
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind, VectorSegment, open_index_bytes, open_vectors
from nearsay.indexer.vectors.vector_store import NOTHING, Candidates, VectorStore, merge
from nearsay.training.sentence.query_adapter import QueryAdapter


@dataclass(frozen=True, slots=True)
class Part:
    """The passages from a number up to the next part's."""

    first: int
    end: int | None  # the first of the next part; None: the last part, which gets new passages

    def has(self, passage: int) -> bool:
        """Whether it contains the passage."""
        return self.first <= passage and (self.end is None or passage < self.end)


@dataclass(slots=True)
class _Together:
    """Files whose passages overlap: an index and the vectors that it was built from."""

    last: int
    rows: list[SegmentRow]

    @property
    def count(self) -> int:
        return sum(row.count for row in self.rows if row.kind is SegmentKind.VECTORS)


def parted(rows: Iterable[SegmentRow], count: int) -> list[Part]:
    """Split into up to `count` parts with about equal numbers of vectors, at ends of files."""
    every = _together(rows)
    total, count = sum(each.count for each in every), min(count, len(every))
    firsts: dict[int, int] = {}
    before, at = 0, -1
    for number, each in enumerate(every):
        middle = (2 * before + each.count) * count // (2 * total)
        at = min(max(middle, at, count - (len(every) - number)), at + 1)  # no part stays without any
        firsts.setdefault(at, each.rows[0].first_passage)
        before += each.count
    bounds = sorted(firsts.values())
    bounds[:1] = [1]
    return [Part(first, end) for first, end in zip(bounds, [*bounds[1:], None], strict=True)]


def part_of(rows: Iterable[SegmentRow], part: Part) -> list[SegmentRow]:
    """The files of a part: those that begin in it, with those that overlap them."""
    return [row for each in _together(rows) if part.has(each.rows[0].first_passage) for row in each.rows]


def _together(rows: Iterable[SegmentRow]) -> Sequence[_Together]:
    found: list[_Together] = []
    for row in sorted(rows, key=lambda row: (row.first_passage, row.kind is SegmentKind.VECTORS)):
        if row.kind is SegmentKind.TOKENS or not row.count:
            continue
        if found and row.first_passage <= found[-1].last:
            found[-1].rows.append(row)
            found[-1].last = max(found[-1].last, row.last_passage)
        else:
            found.append(_Together(row.last_passage, [row]))
    return found


Passages: TypeAlias = NDArray[np.int64] | NDArray[np.bool_]  # ascending numbers, or by passage number

# Passages that pass a filter: so few are all scored, rather than looked for through the index. One product
# scores them for several queries, so these have so many each, up to a share of all and a number.
_SCANNED = 20_000
_SCAN_SHARE = 0.05
_SCAN_MOST = 100_000
_COPIED = 100_000  # passages whose vectors are copied so that several queries are scored with them alone
_SAMPLED = 256  # passages whose mean cosine stands for all
_FAR = 10  # times as many passages as the contract is measured at: for so many one reach is enough
_SURER = 0.3  # power of how many more than the contract is measured at: twice the reach for ten times as many
_CALM = 2  # times running that nothing better turns up where a search under a filter looks twice as far
_SPREADING = 0.75  # doublings of the reach for every halving of what passes


@dataclass(frozen=True, slots=True, eq=False)
class Removals:
    """The removals of passages that a snapshot includes."""

    last: int = 0  # the number of the last one
    # (n,) passages that had no vector when it was taken: some may be on their way
    early: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class Snapshot:
    """An immutable view of a generation. Searching it takes no lock and reads no SQL."""

    collection: CollectionRow
    generation: GenerationRow
    plan: Plan
    vectors: VectorStore
    opened: Mapping[int, VectorSegment]  # its segments by their number in the catalogue
    indexes: frozenset[int]  # the catalogue numbers of its indexes
    index: CandidateIndex | None
    alive: NDArray[np.bool_]  # by passage number: has a vector and is not removed
    searchable: int  # number of passages that a search can find
    waiting: int  # passages without a vector yet
    removals: Removals
    notes: tuple[str, ...]
    gpu_notes: tuple[str, ...] = ()  # of these, the notes about GPUs
    refinement: Refinement | None = None  # applied to queries before a search

    @cached_property
    def chance(self) -> float:
        """The mean cosine of two different passages, estimated from up to 256: their similarity by chance.

        About 0 for some encoders, .7 for others; 0 with fewer than two passages. It does not depend on
        segments or removed passages, so that a compaction changes no score.
        """
        count = min(self.searchable, _SAMPLED)
        if count < 2:
            return 0.0
        places = np.linspace(0, self.searchable - 1, count).astype(np.int64)
        every = self.searchable == len(self.vectors)
        sample = self.vectors.numbers(places) if every else np.flatnonzero(self.alive)[places]
        centre = self.vectors.rows(self.vectors.positions(sample)).mean(axis=0, dtype=np.float64)
        return float((count * (centre @ centre) - 1) / (count - 1))

    @property
    def through(self) -> int | None:
        """The last passage that the index covers; None without an index, when all are compared."""
        return None if self.index is None else self.index.through

    @property
    def lineage(self) -> tuple[str, ...]:
        """The lineage of the generation, and its refinement."""
        refined = () if self.refinement is None else (self.refinement.said,)
        return (*self.generation.lineage, *refined)

    @property
    def adapter(self) -> QueryAdapter | None:
        """Applied to query vectors before a search; None: nothing."""
        return None if self.refinement is None else self.refinement.adapter

    @property
    def word_weight(self) -> float | None:
        """The weight of words in the fusion learned from judgements; None: the default."""
        return None if self.refinement is None else self.refinement.word_weight

    def living(self) -> NDArray[np.int64]:
        """The numbers of the passages that a search can find, ascending."""
        living: NDArray[np.int64] = self.vectors.ids[self.alive[self.vectors.ids]]
        return living

    def finds(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the passages (n,) a search can find."""
        there = ids < self.alive.size
        there[there] = self.alive[ids[there]]
        return there

    def for_one_search(self) -> "Snapshot":
        """The snapshot for a single search: itself."""
        return self

    def for_measuring(self) -> "Snapshot":
        """The snapshot for measurements: complete, or ClusterError."""
        return self

    @property
    def all_notes(self) -> tuple[str, ...]:
        """All notes; a GPU may have failed since the snapshot was taken."""
        if not isinstance(self.index, GpuIndex):
            return self.notes
        return (*self.notes, *(note for note in self.index.notes if note not in self.notes))

    @property
    def device(self) -> str:
        """Where the index is searched: cpu, cuda:0."""
        return self.index.device if isinstance(self.index, GpuIndex) else "cpu"

    @property
    def answered_by(self) -> str:
        """The kind of index that is searched: exact, ivf, gpu-flat-fp16."""
        if isinstance(self.index, GpuIndex) and self.index.device != "cpu":
            return str(self.index.plan.kind)
        return str(PlanKind.EXACT if self.index is None else self.plan.kind)

    def nearest(self, query: NDArray[np.float32], k: int, allowed: Passages | None = None) -> Candidates:
        """The k nearest passages.

        query: (d,) unit length; allowed: ascending passage numbers that may be found, or bool by passage
               number; None = all
        """
        (found,) = self.nearest_many(query[None, :], k, allowed)
        return found

    def nearest_many(
        self,
        queries: NDArray[np.float32],
        k: int,
        allowed: Passages | None = None,
        sure_of: int | None = None,
    ) -> list[Candidates]:
        """The k nearest passages of each query; fewer only if fewer may be found.

        queries: (n, d) unit length
        allowed: ascending passage numbers that may be found, or bool by passage number; None = all
        sure_of: the first this many have the contract's recall, the others may have less; None = all k
        """
        if allowed is None:
            return self._of_all(queries, k, k if sure_of is None else sure_of)
        if allowed.dtype == np.bool_:
            chosen = np.zeros_like(self.alive)
            chosen[: allowed.size] = allowed[: chosen.size]
            chosen &= self.alive
            count = int(np.count_nonzero(chosen))
            if self.index is not None and count > self._scanned(len(queries)):
                return self._settled(queries, k, chosen, count)
            return self._among(queries, k, np.flatnonzero(chosen))
        allowed = allowed[allowed < self.alive.size].astype(np.int64, copy=False)
        allowed = allowed[self.alive[allowed]]
        if self.index is None or allowed.size <= self._scanned(len(queries)):
            return self._among(queries, k, allowed)
        chosen = np.zeros_like(self.alive)
        chosen[allowed] = True
        return self._settled(queries, k, chosen, allowed.size)

    def _of_all(self, queries: NDArray[np.float32], k: int, sure_of: int) -> list[Candidates]:
        """Search with more probes if more than the contract's number are requested.

        Up to ten times as many by a rule: the usual reach finds .941 of ten WordNet definitions and .889 of a
        hundred, twice the reach .942. Beyond, until hardly any better one is found: of a thousand, the usual
        reach may find a third.
        """
        more = max(1.0, sure_of / self.plan.contract.at)
        if more <= _FAR or not self.reaches_beyond(1.0):
            return self.looked_up(queries, k, self.alive, more**_SURER)
        return self._settled(queries, k, self.alive, self.searchable)

    def _scanned(self, queries: int) -> float:
        """Score the few passages that match a filter exactly, in one product for all queries."""
        return max(_SCANNED, min(_SCANNED * queries, _SCAN_SHARE * self.searchable, _SCAN_MOST))

    def _settled(
        self, queries: NDArray[np.float32], k: int, chosen: NDArray[np.bool_], passing: int
    ) -> list[Candidates]:
        """Search the allowed passages further and further until hardly any better one is found.

        With a filter that correlates with meaning, the passages may be in lists that the usual reach leaves
        out, and the share of matching passages does not show it. So the reach is doubled, for each query
        until it was `settled` twice in a row; if the index's scores are not rough, only the additional lists
        are searched. The first reach is half of what an uncorrelated filter needs.
        """
        newer = self.newer(queries, k, chosen)
        share = self.searchable / max(passing, 1)
        reach = 2.0 ** max(0, int(np.ceil(_SPREADING * np.log2(share))) - 1)
        best = self.looked_up(queries, k, chosen, reach, newer, further=self.reaches_beyond(reach))
        calm = np.zeros(len(queries), dtype=np.int64)  # how often running nothing better turned up
        while (unsettled := np.flatnonzero(calm < _CALM)).size and self.reaches_beyond(reach):
            nearer, reach = reach, 2.0 * reach
            some = unsettled.tolist()
            known = [best[at] for at in some], [newer[at] for at in some]
            found = self._looked_beyond(queries[unsettled], k, chosen, reach, nearer, *known)
            for at, after in zip(some, found, strict=True):
                calm[at] = calm[at] + 1 if self.settled(best[at], after, k) else 0
                best[at] = after
        return best

    def settled(self, before: Candidates, after: Candidates, k: int) -> bool:
        """Whether so few of k are new after doubling the reach that the contract's recall is safe."""
        new = np.setdiff1d(after.ids, before.ids, assume_unique=True).size
        return after.ids.size == k and new <= (1.0 - self.plan.contract.recall) / 2.0 * k

    def reaches_beyond(self, reach: float) -> bool:
        """Whether the index can search further than `reach` times its usual reach."""
        return self.index is not None and self.index.wider(2.0 * reach) is not self.index.wider(reach)

    def newer(
        self, queries: NDArray[np.float32], k: int, alive: NDArray[np.bool_] | None = None
    ) -> list[Candidates]:
        """The k nearest passages of each query that the index does not cover; of all without an index."""
        through = 0 if self.index is None else self.index.through
        if self.vectors.last <= through:
            return [NOTHING] * len(queries)
        return self.vectors.nearest_many(queries, k, self.alive if alive is None else alive, through)

    def looked_up(
        self,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_],
        reach: float = 1.0,
        newer: Sequence[Candidates] | None = None,
        chosen: Chosen | None = None,
        *,
        further: bool = False,
    ) -> list[Candidates]:
        """Search the index, and exactly what it does not cover, or where it found too few.

        reach:   multiple of the usual reach of the index
        newer:   the result of `newer` for these queries
        chosen:  the lists of these queries, used if the index would choose the same
        further: the caller will search further where the index found too few, so fewer may be returned
        """
        newer = self.newer(queries, k, alive) if newer is None else newer
        if self.index is None:
            return list(newer)
        found = self.index.wider(reach).nearest_many(self.vectors, queries, self._wanted(k), alive, chosen)
        best = [merge([old, new], k) for old, new in zip(found, newer, strict=True)]
        dry = [at for at, candidates in enumerate(found) if candidates.ids.size < k]
        if dry and not further:
            for at, exact in zip(dry, self._among(queries[dry], k, np.flatnonzero(alive)), strict=True):
                best[at] = exact
        return best

    def _wanted(self, k: int) -> int:
        """Number of passages to request from an index: recall was measured at `contract.at`, not below."""
        return max(k, self.plan.contract.at)

    def _looked_beyond(
        self,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_],
        reach: float,
        nearer: float,
        best: Sequence[Candidates],
        newer: Sequence[Candidates],
    ) -> list[Candidates]:
        """The k nearest, given `best`, the result of `nearer` times the usual reach.

        newer: the result of `newer` for these queries
        """
        if self.index is None or self.index.rough:  # shards look at all again, too
            further = self.reaches_beyond(reach)
            return self.looked_up(queries, k, alive, reach, newer, further=further)
        further_lists = self.index.wider(reach).beyond(self.index.wider(nearer))
        found = further_lists.nearest_many(self.vectors, queries, self._wanted(k), alive)
        both = []
        for old, new in zip(best, found, strict=True):
            fresh = ~np.isin(new.ids, old.ids)
            both.append(merge([old, Candidates(new.ids[fresh], new.scores[fresh])], k))
        short = [at for at, each in enumerate(both) if each.ids.size < k]
        if short and not self.reaches_beyond(reach):
            for at, exact in zip(short, self._among(queries[short], k, np.flatnonzero(alive)), strict=True):
                both[at] = exact
        return both

    def _among(self, queries: NDArray[np.float32], k: int, allowed: NDArray[np.int64]) -> list[Candidates]:
        few = allowed.size <= len(self.vectors) // 2  # of more, gathering costs more than it leaves out
        if len(queries) == 1 and few:
            return self.vectors.nearest_among_many(queries, allowed[None, :], k)
        if few and allowed.size <= _COPIED:
            return self.vectors.part(allowed).nearest_many(queries, k)
        chosen = np.zeros_like(self.alive)
        chosen[allowed] = True
        return self.vectors.nearest_many(queries, k, chosen)


def take(
    connection: sa.Connection,
    store: Store,
    collection: CollectionRow,
    before: Snapshot | None = None,
    generation: GenerationRow | None = None,
    *,
    part: Part | None = None,
    elsewhere: bool = False,
) -> Snapshot | None:
    """Open the live generation, or another, as the transaction sees it; None if none is live yet.

    part:      open only these passages
    elsewhere: other processes search it and check its files: map them unread, and open no index

    Segments that `before` has open are not opened again. A damaged vector segment raises DamagedSegmentError;
    a damaged index is left out with a note, because exact search works without it. A file that cannot be
    opened at the moment raises StorageError.
    """
    generation = generation or generations.live(connection, collection.id)
    if generation is None:
        return None
    if before is not None and before.collection.id != collection.id:
        before = None  # deleted and recreated under the same name: its passages are numbered from 1 again
    rows = generations.segments_of(connection, collection.id, generation.number)
    if part is not None:
        rows = part_of(rows, part)
    damaged = [row for row in rows if row.state is SegmentState.QUARANTINED]
    vectors = [row for row in rows if row.kind is SegmentKind.VECTORS]
    if any(row in vectors for row in damaged):
        missing = sum(row.count for row in damaged if row in vectors)
        raise DamagedSegmentError(_refusal(collection.name, "a segment is in quarantine", missing))
    # Not by content: a segment that was mended has the content again, but what is mapped is the damaged file.
    open_before: Mapping[int, VectorSegment] = before.opened if before is not None else {}
    opened = {row.id: open_before[row.id] for row in vectors if row.count and row.id in open_before}
    fresh = [row for row in vectors if row.count and row.id not in opened]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # their hashes are most of the work
        found = pool.map(lambda row: _open(store, collection, generation, row, unread=elsewhere), fresh)
        opened |= dict(zip((row.id for row in fresh), found, strict=True))
    same = (
        before is not None
        and before.generation.identity == generation.identity
        and before.collection.compactions == collection.compactions
    )
    vector_store = VectorStore(
        list(opened.values()),
        generation.encoder.dimension,
        before=before.vectors if before is not None and same else None,
    )
    if vector_store.overlaps:
        raise DamagedSegmentError(
            f"collection '{collection.name}': {OVERLAPPING}, and nothing is answered. "
            f"{remedy(collection.name, generation)}"
        )
    alive, removals = _alive(connection, generation, vector_store, before if same else None)
    alive.flags.writeable = False  # an index packs it once and remembers it
    plan = Plan.from_json(generation.plan)
    indexes = [row for row in rows if row.kind is SegmentKind.INDEX]
    stored, notes = _index(
        store, collection, generation, indexes, plan, vector_store, before, elsewhere=elsewhere
    )
    index, said = answering(
        store.device,
        vector_store,
        alive,
        cpu=stored,
        plan=None if plan.gpu is None else plan.gpu.taken,
        before=None if before is None else before.index,
        same=same,
        refused=() if before is None else before.gpu_notes,
    )
    # What a first search would make for those that follow; to a part's, lists are told.
    if stored is not None and index is stored and part is None:
        stored.candidates(np.zeros((1, vector_store.dimension), dtype=np.float32), 1, alive)
    notes = (*notes, *said)
    warning = plan.warning(collection.name)
    if (index is not None or (elsewhere and not notes)) and warning is not None:
        notes = (*notes, warning)
    return Snapshot(
        collection=collection,
        generation=generation,
        plan=plan,
        vectors=vector_store,
        opened=opened,
        indexes=frozenset(row.id for row in indexes),
        index=index,
        alive=alive,
        searchable=int(np.count_nonzero(alive)),
        waiting=ranges.unembedded(connection, generation),
        removals=removals,
        notes=notes,
        gpu_notes=said,
        refinement=refinements.live_of(
            connection,
            collection.id,
            generation.number,
            None if before is None else before.refinement,
        ),
    )


def _open(
    store: Store, collection: CollectionRow, generation: GenerationRow, row: SegmentRow, *, unread: bool
) -> VectorSegment:
    try:
        return opened_segment(store, collection, generation, row, open_vectors, seen=True, unread=unread)
    except DamagedSegmentError as error:
        raise DamagedSegmentError(_refusal(collection.name, str(error), row.count)) from error


def _index(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    indexes: list[SegmentRow],
    plan: Plan,
    vectors: VectorStore,
    before: Snapshot | None,
    *,
    elsewhere: bool,
) -> tuple[CandidateIndex | None, tuple[str, ...]]:
    if not indexes or plan.kind is PlanKind.EXACT:
        return None, ()
    remedy = f"searched exactly instead. Rebuild it: nearsay index rebuild {collection.name}"
    if any(row.state is SegmentState.QUARANTINED for row in indexes):
        return None, (f"the index is in quarantine; {remedy}",)
    if elsewhere:
        return None, ()
    known = None if before is None else before.index
    stored = known.stored if isinstance(known, GpuIndex) else known
    opened: dict[str, CandidateIndex] = {}
    if before is not None and stored is not None:
        if before.plan.parameters == plan.parameters:
            parts = stored.parts if isinstance(stored, UnitedIndex) else (stored,)
            opened = {part.sha256: part for part in parts}
        if len(opened) == len(indexes) and all(row.sha256 in opened for row in indexes):
            return united([opened[row.sha256] for row in indexes], vectors), ()
    if not faiss_is_installed():
        return None, (
            "FAISS is not installed; searched exactly instead. Install it: pip install 'nearsay[cpu]'",
        )
    for row in indexes:
        if row.sha256 not in opened:
            try:
                opened[row.sha256] = _opened_index(store, collection, generation, row, plan)
            except DamagedSegmentError as error:
                return None, (f"{error}; {remedy}",)
    return united([opened[row.sha256] for row in indexes], vectors), ()


def _opened_index(
    store: Store, collection: CollectionRow, generation: GenerationRow, row: SegmentRow, plan: Plan
) -> CandidateIndex:
    serialised = opened_segment(store, collection, generation, row, open_index_bytes, seen=True)
    index = open_index(plan.kind, serialised, row.last_passage, row.sha256, plan.parameters)
    return index.looking(reach_over(plan, index))


def _alive(
    connection: sa.Connection, generation: GenerationRow, vectors: VectorStore, before: Snapshot | None
) -> tuple[NDArray[np.bool_], Removals]:
    """Which passages have a vector and are not removed, by number, and the known removals.

    before: an earlier snapshot of the generation since its last compaction, so that only changes are read
    """
    alive = np.zeros(vectors.last + 1, dtype=np.bool_)
    opened = set() if before is None else {id(segment) for segment in before.opened.values()}
    fresh = [segment.ids for segment in vectors.segments if id(segment) not in opened]
    if before is not None:
        fresh = [ids[before.vectors.places(ids) < 0] for ids in fresh]
        if len(before.vectors) + sum(ids.size for ids in fresh) != len(vectors):
            return _alive(connection, generation, vectors, None)  # something has no vector any more
        alive[: before.alive.size] = before.alive
    known = Removals() if before is None else before.removals
    for ids in fresh:
        span = slice(int(ids[0]), int(ids[-1]) + 1) if ids.size else slice(0, 0)
        alive[span if span.stop - span.start == ids.size else ids] = True
    since = sa.select(removed_passages.c.passage, removed_passages.c.sequence).where(
        removed_passages.c.collection_id == generation.collection_id,
        removed_passages.c.sequence > known.last,
    )
    news, sequences = number_lists(connection, since)
    for removed in (known.early, news):
        alive[removed[removed < alive.size]] = False
    early = np.concatenate([known.early, news[vectors.places(news) < 0]])
    return alive, Removals(int(sequences.max(initial=known.last)), early)


def _refusal(collection: str, reason: str, passages: int) -> str:
    unsearched = counted(passages, "passage")
    return (
        f"collection '{collection}': {reason}, so {unsearched} cannot be searched and nothing "
        f"is answered. Embed them again: nearsay index rebuild {collection}"
    )
