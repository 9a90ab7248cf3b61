"""When a generation gets an index, and when it gets a further one or a new one.

An addition builds none unless it is asked to: it says when one would pay off, and what has none is searched
exactly. The first index is chosen by measurement. Passages that come later join it once there are enough of
them, as it was trained; they get an index of their own, by the plan that stands, where that does not find
them, and on a cluster. What several indexes propose is united and scored exactly (`plans.united`).
`prepare_index` makes each of these, with the writer lock or while others add, and chooses anew where the
collection has doubled; `keep_prepared` lets it take its place.
"""

import contextlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.data.known_hashes import known_sha256
from nearsay.indexer.catalogue import collections, generations, passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED, faiss_is_installed, fill
from nearsay.indexer.plans.engines import build, part_shape
from nearsay.indexer.plans.gpu import FaissGpus, find_gpus, requested_gpus, wants_gpu
from nearsay.indexer.plans.gpu_opening import tune_on_gpu
from nearsay.indexer.plans.plan import (
    EXACT_UP_TO,
    REBUILD_AT,
    RETUNE_AT,
    TAIL,
    TAIL_SHARE,
    Plan,
    PlanKind,
    RecallContract,
)
from nearsay.indexer.plans.trials import Searcher, drawn
from nearsay.indexer.plans.tuning import Tuned, enough_to_show, tune, tune_again
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError, open_all, remedy
from nearsay.indexer.snapshots.segment_writer import IndexPart, emptied, reopened, written_index
from nearsay.indexer.vectors.errors import BusyError, DamagedSegmentError
from nearsay.indexer.vectors.progress import ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.vectors.vector_store import VectorStore, trim
from nearsay.indexer.writing.compaction import (
    aside,
    clear_building,
    keep_merged,
    merged_for_index,
    moved,
    superseding,
)

_TRIES = 5  # merges of others that may go by while files are being opened
_ASKED = 100  # passages that have to find their neighbours in an index that takes in others
_DOUBT = 2.0  # standard errors of the difference that chance may make
_LARGE = 500_000_000  # bytes of vectors: of more, mapped pages are given back after each pass


@dataclass(frozen=True, slots=True)
class IndexState:
    """A generation's plan and files at one moment: what indexes it has, and what they leave out."""

    plan: Plan
    vectors: list[SegmentRow]
    indexes: list[SegmentRow]

    @property
    def stored(self) -> int:
        """Vectors there are, those of removed passages included: no fewer than the living."""
        return sum(row.count for row in self.vectors)

    @property
    def indexed(self) -> bool:
        return bool(self.indexes) and all(row.state is SegmentState.CURRENT for row in self.indexes)

    @property
    def one_of_all(self) -> bool:
        """One index covers everything."""
        newest = max((row.last_passage for row in self.vectors), default=0)
        return self.indexed and len(self.indexes) == 1 and self.indexes[0].last_passage >= newest

    @property
    def through(self) -> int:
        """The last passage that an index covers."""
        return max((row.last_passage for row in self.indexes), default=0)

    def oldest(self, index: SegmentRow, count: int) -> list[SegmentRow]:
        """The files that have the vectors of so many of the first passages of an index."""
        rows = [row for row in self.vectors if row.last_passage >= index.first_passage]
        enough = np.cumsum([row.count for row in rows]).searchsorted(count)
        return rows[: int(enough) + 1]

    def after(self, passage: int) -> list[SegmentRow]:
        """The files that have vectors of later passages."""
        return [row for row in self.vectors if row.last_passage > passage]

    @property
    def enough(self) -> float:
        """Of more passages than this that no index covers, they are indexed."""
        return max(TAIL, TAIL_SHARE * sum(row.count for row in self.indexes))

    @property
    def newer(self) -> int:
        """Vectors that no index covers, those of removed passages included."""
        newer = ((row.count, row.last_passage - self.through) for row in self.after(self.through))
        return sum(min(counts) for counts in newer)  # a file that reaches across has so many at most

    @property
    def whole(self) -> bool:
        """No segment of vectors is in quarantine: its passages would be missing from an index for good."""
        return all(row.state is SegmentState.CURRENT for row in self.vectors)


def index_state(store: Store, collection: CollectionRow, generation: GenerationRow) -> IndexState:
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id, generation.number)
        every = {row.number: row for row in generations.all_of(connection, collection.id)}
    now = every[generation.number]
    vectors = [row for row in rows if row.kind is SegmentKind.VECTORS and row.count]
    indexes = [row for row in rows if row.kind is SegmentKind.INDEX]
    indexes.sort(key=lambda row: row.last_passage)
    return IndexState(
        plan=Plan.from_json(now.plan),
        # Above the watermark, passages are still to come between those that have a vector.
        vectors=[row for row in vectors if row.first_passage <= now.embedded_through],
        indexes=indexes,
    )


def refresh_index(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    *,
    always: bool = False,
    contract: RecallContract | None = None,
    listener: ProgressListener = unheard,
) -> Plan:
    """Make the index that is due while the caller holds the writer lock; the plan then.

    always:   an index that is there is built anew
    contract: what the plan has to keep from now on; None for what it keeps already. It is kept with
              what was measured for it, so that work that is stopped claims nothing; at once only where
              exact search answers and nothing was measured
    listener: hears of candidates when they are measured

    What has no index gets one as `prepare_index` chooses it, and what is newer than the indexes joins them.
    Without FAISS nothing is built and search stays exact; nor is anything built while a segment of
    vectors is in quarantine: a contract that was not measured then is not in the plan (see `unmeasured`).
    """
    state = index_state(store, collection, generation)
    plan, promise = state.plan, None if contract == state.plan.contract else contract
    if plan.kind is PlanKind.EXACT:
        most = _exact_up_to(plan) if promise is None else EXACT_UP_TO
        small = state.stored <= most or _living(store, collection).size <= most
        if promise is not None and (small or not plan.measured_at):
            plan = _promised(store, collection, generation, plan, promise)
        if small:
            return plan
    newer = state.indexed and not always and promise is None
    if not state.whole or not faiss_is_installed() or (newer and state.newer <= state.enough):
        return plan
    for merged in () if newer else merged_for_index(store, collection, generation):
        keep_merged(store, collection, generation, merged)
    with aside(store) as folder:
        prepared = prepare_index(
            store,
            collection,
            generation,
            folder,
            contract=promise,
            newer=newer,
            always=always,
            listener=listener,
        )
        return plan if prepared is None else keep_prepared(store, collection, generation, prepared)


def left_for_later(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    contract: RecallContract,
) -> tuple[str, ...]:
    """What has to be said of an addition that measures and builds nothing.

    A contract for what is searched exactly is kept: it holds, and whoever chooses an index has to keep it.
    """
    state, notes = index_state(store, collection, generation), []
    plan, wanted = state.plan, state.plan.kind is not PlanKind.EXACT
    if contract != plan.contract and not wanted and not plan.measured_at:
        _promised(store, collection, generation, plan, contract)
    elif contract != plan.contract:
        notes.append(
            f"{contract} was not measured, {plan.contract} goes on. Measure it: "
            + _measuring(collection.name, plan, contract)
        )
    if state.indexes and not state.indexed:
        notes.append(
            "the index is in quarantine: each search compares with all passages. "
            + remedy(collection.name, generation)
        )
        return tuple(notes)
    gone = removed_passages.c.collection_id == collection.id
    gone &= removed_passages.c.passage > state.through
    with store.database.reading() as connection:
        counted = sa.select(sa.func.count()).select_from(removed_passages).where(gone)
        removed = connection.execute(counted).scalar_one()
    newer = state.newer - removed
    enough = state.enough if wanted else _exact_up_to(plan)
    if newer > enough:
        one_by_one = "are newer than the index" if state.indexes else "have no index"
        install = "" if faiss_is_installed() else "pip install 'nearsay[cpu]', then "
        notes.append(
            f"{newer:,} passages {one_by_one}: each search compares with every one of them. From "
            f"{enough:,.0f} on it is quicker to index them: {install}nearsay index optimize {collection.name}"
            + (" --newer" if state.indexes else "")
            + (" --cluster ADDRESS" if store.cluster is not None else "")
        )
    return tuple(notes)


def _measuring(collection: str, plan: Plan, contract: RecallContract) -> str:
    """The command that measures a contract in the place of the plan's."""
    command = f"nearsay index tune {collection} --recall {contract.recall}@{contract.at}"
    if contract.memory_bytes != plan.contract.memory_bytes:
        command += f" --memory {contract.memory_bytes or 'none'}"
    return command


def _promised(
    store: Store, collection: CollectionRow, generation: GenerationRow, plan: Plan, contract: RecallContract
) -> Plan:
    """Keep what a plan has to keep from now on; the plan."""
    plan = replace(plan, contract=contract)
    with store.database.writing() as connection:
        generations.set_plan(connection, generation, plan.to_json())
        collections.changed(connection, collection.id)
    return plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """A new index, written beside the segments and not in the catalogue yet."""

    plan: Plan | None  # None: the one that stands
    parts: tuple[IndexPart, ...]  # none: exact search was chosen
    replaces: tuple[SegmentRow, ...]  # indexes that there were
    queries: NDArray[np.float32] | None = None  # of the user's that it was measured with
    beside: tuple[SegmentRow, ...] = ()  # the other indexes, of earlier passages


def prepare_index(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    folder: Path,
    *,
    contract: RecallContract | None = None,
    queries: NDArray[np.float32] | None = None,
    newer: bool = False,
    always: bool = False,
    listener: ProgressListener = unheard,
) -> Prepared | None:
    """Build one index of everything, with or without the writer lock; None where none is due.

    folder:   the caller's own, on the file system of the segments, for what is written
    contract: choose anew, to keep this; queries: (n, d) unit length, to measure with, None = those that were
              given before, if they are enough for it, else stored vectors
    newer:    index what is newer than the indexes alone, once there is enough of it
    always:   build it though there is one of everything

    Without a contract nothing is measured unless the collection has doubled. The kind is then chosen anew
    where stored vectors chose it; where queries that were given did, it stays if it keeps the contract for
    these queries, looking as far as that takes, and is chosen anew with them if not. (An older nearsay did
    not keep them: the kind stays, and so does the share of its lists that is looked into.) `keep_prepared`
    puts it into the catalogue. MissingExtraError where one is due and FAISS is not installed; BusyError where
    merges of others replace the files again and again.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(StaleSnapshotError):
            return _prepare(
                store,
                collection,
                generation,
                contract,
                queries,
                listener,
                folder=folder,
                newer=newer,
                always=always,
            )
    raise BusyError(
        f"the files of collection '{collection.name}' are being replaced again and again. "
        "Run the command again in a moment"
    )


def _prepare(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    contract: RecallContract | None,
    queries: NDArray[np.float32] | None,
    listener: ProgressListener,
    *,
    folder: Path,
    newer: bool,
    always: bool,
) -> Prepared | None:
    state = index_state(store, collection, generation)
    if contract is None and not state.whole:
        return None
    if contract is None and newer and state.indexed:
        return _prepared_further(store, collection, generation, state, folder)
    plan, living = state.plan, _living(store, collection)
    total, choose, doubled = living.size, contract is not None, False
    if contract is not None:
        _refuse_empty(collection, total)
        queries = _given(store, generation, contract) if queries is None else queries
    else:
        choose, doubled, queries = _grown(store, generation, plan, total)
        if not choose and (plan.kind is PlanKind.EXACT or (state.one_of_all and not always)):
            return None
        if not faiss_is_installed():
            raise MissingExtraError("The index of a large collection", "cpu")
    plan = replace(plan, contract=contract or plan.contract)
    clear_building(store)
    if store.cluster is not None:
        from nearsay.indexer.cluster.indexing import index_on_cluster

        plan, parts = index_on_cluster(
            store,
            generation,
            state.vectors,
            plan,
            folder,
            measured=choose,
            indexes=state.indexes,
            queries=queries,
            listener=listener,
        )
        return Prepared(plan, parts, tuple(state.indexes), queries)
    vectors, alive, through = _opened(store, collection, generation, state.vectors, living)
    tuned = None
    if queries is not None and not choose:
        tuned = tune_again(vectors, alive, through, plan, queries, listener=listener)
    if tuned is None and (choose or queries is not None):
        tuned = _chosen(store, vectors, alive, through, plan, queries, listener)
    if tuned is None:
        shape = part_shape(plan.kind, plan.shape, total, vectors.dimension) if doubled else plan.shape
        index = build(plan.kind, vectors, vectors.ids[alive[vectors.ids]], through, shape)
        tuned = Tuned(replace(plan, check=None), index)
    written: tuple[IndexPart, ...] = ()
    if tuned.index is not None:
        path = written_index(folder, generation.encoder, tuned.index)
        written = (IndexPart(path, len(tuned.index), (int(vectors.ids[0]), through)),)
    return Prepared(tuned.plan, written, tuple(state.indexes), queries)


def _grown(
    store: Store, generation: GenerationRow, plan: Plan, total: int
) -> tuple[bool, bool, NDArray[np.float32] | None]:
    """Whether the kind is chosen anew, whether what was measured has doubled, and queries to measure with."""
    if plan.kind is PlanKind.EXACT:
        return total > _exact_up_to(plan), False, _given(store, generation, plan.contract)
    doubled = not plan.measured_at / RETUNE_AT <= total < RETUNE_AT * plan.measured_at
    if not doubled or plan.estimated:
        return doubled, doubled, None
    queries = _given(store, generation, plan.contract)
    return queries is not None and store.cluster is not None, doubled, queries  # workers measure all kinds


def _exact_up_to(plan: Plan) -> float:
    """How many passages a plan without an index is right for."""
    return max(EXACT_UP_TO, REBUILD_AT * plan.measured_at)


def _refuse_empty(collection: CollectionRow, living: int) -> None:
    if not living:
        raise BadInputError(
            f"collection '{collection.name}' has no passages to measure with. "
            f"Add to it: nearsay documents add {collection.name} FILE"
        )


def _given(store: Store, generation: GenerationRow, contract: RecallContract) -> NDArray[np.float32] | None:
    """The queries that the user gave before, if they are enough to show what the contract promises."""
    with store.database.reading() as connection:
        queries = generations.queries_of(connection, generation)
    return None if queries is None or not enough_to_show(len(queries), contract.recall) else queries


def keep_prepared(
    store: Store, collection: CollectionRow, generation: GenerationRow, prepared: Prepared
) -> Plan:
    """Let a prepared index take the place of what was there; its plan. The caller holds the writer lock.

    BusyError if another index was made meanwhile; DamagedSegmentError if a file is not what was written: on
    a cluster, workers on other machines wrote it. Nothing is committed then.
    """
    state = index_state(store, collection, generation)
    if [row.id for row in state.indexes] != [row.id for row in (*prepared.beside, *prepared.replaces)]:
        with store.database.writing():  # where the lock was lost, that is what is said
            raise BusyError(
                f"collection '{collection.name}' was indexed by another process meanwhile. "
                "Run the command again"
            )
    for part in prepared.parts:
        if known_sha256(part.path) != part.path.stem:
            raise DamagedSegmentError(
                f"the new index of collection '{collection.name}' ({part.path.name}) is not what was "
                "written. The old one stays. Look after the disk or the share, then run the command again"
            )
    parts = tuple(replace(part, path=moved(store, collection, part.path)) for part in prepared.parts)
    plan = state.plan if prepared.plan is None else prepared.plan
    with store.database.writing() as connection:
        superseding(store, prepared.replaces, collection)
        for row in prepared.replaces:
            generations.remove_segment(connection, row)
        for part in parts:
            generations.add_segment(
                connection, generation, SegmentKind.INDEX, part.path, part.count, part.span
            )
        if prepared.plan is not None:
            generations.set_plan(connection, generation, plan.to_json())
            if prepared.queries is not None or plan.estimated:
                generations.keep_queries(connection, generation, prepared.queries)
        collections.changed(connection, collection.id)
    trim()
    return plan


def _prepared_further(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    state: IndexState,
    folder: Path,
) -> Prepared | None:
    """What is newer than the indexes, in the newest of them or in one of its own; None where it is little.

    It joins the newest index as it was trained, which takes the time of coding it. Where too few of the newer
    passages find their neighbours that way, because they lie elsewhere than what the index was trained on,
    they get one that is trained on them. On a cluster, shards share groups out: there it is always one of its
    own, trained as an earlier one is.
    """
    plan, after = state.plan, state.through
    living = _living(store, collection, after)
    if living.size <= state.enough:
        return None
    vectors, alive, last = _opened(store, collection, generation, state.after(after), living)
    ids = vectors.ids[alive[vectors.ids]]
    made_by, segment = generation.encoder, partial(store.segment, collection.id)
    *earlier, newest = state.indexes
    replaced: tuple[SegmentRow, ...] = ()
    if store.cluster is None:
        index, replaced = reopened(segment(newest.sha256), newest, made_by, plan), (newest,)
    else:
        every = (emptied(segment(row.sha256), row, made_by, plan) for row in (newest, *reversed(earlier)))
        index = next((one for one in every if one is not None), None)
    if index is not None:
        fill(index.faiss_index, vectors, ids)
    if index is not None and replaced:
        rows = state.oldest(newest, ids.size)
        oldest, stored, _ = _opened(store, collection, generation, rows)
        as_many = np.zeros_like(stored)
        as_many[oldest.ids[: ids.size]] = True
        found = _recalls(index, plan, vectors, alive), _recalls(index, plan, oldest, as_many)
        index = index if _as_sure(*found, plan.contract) else None
    if index is None:
        shape = part_shape(plan.kind, plan.shape, ids.size, vectors.dimension)
        index, replaced = build(plan.kind, vectors, ids, last, shape), ()
    first = replaced[0].first_passage if replaced else after + 1
    part = IndexPart(written_index(folder, made_by, index), len(index), (first, last))
    beside = tuple(row for row in state.indexes if row not in replaced)
    return Prepared(None, (part,), replaced, beside=beside)


def _recalls(
    index: CandidateIndex, plan: Plan, vectors: VectorStore, alive: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """What a sample of living passages finds of its nearest ones among them, (n,)."""
    trial = drawn(vectors, alive, _ASKED, plan.contract.at, np.random.default_rng(SEED))
    searcher = Searcher(vectors, alive, trial.asked, index.looking(plan.parameters))
    return trial.recalls(searcher.found(trial.vectors))


def _as_sure(newer: NDArray[np.float64], oldest: NDArray[np.float64], contract: RecallContract) -> bool:
    """Whether newer passages find as much of what is near as they should, or as as many of the oldest do.

    newer, oldest: (n,), what each of a sample finds. The index was trained on the oldest.
    """
    doubt = _DOUBT * float(np.hypot(newer.std(), oldest.std())) / float(np.sqrt(max(1, newer.size)))
    return bool(newer.mean() >= min(contract.recall, float(oldest.mean()) - doubt))


def unmeasured(collection: str, plan: Plan, contract: RecallContract) -> str | None:
    """What has to be said of a contract that `refresh_index` could not measure; None if the plan has it."""
    if plan.contract == contract:
        return None
    reason, remedy = "FAISS is not installed", "Install it: pip install 'nearsay[cpu]'"
    if faiss_is_installed():
        reason, remedy = "a segment is in quarantine", f"Mend it: nearsay index rebuild {collection}"
    return (
        f"{contract} was not measured, {plan.contract} goes on: {reason}. {remedy}, and say it again: "
        + _measuring(collection, plan, contract)
    )


def _chosen(
    store: Store,
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    through: int,
    plan: Plan,
    queries: NDArray[np.float32] | None,
    listener: ProgressListener,
) -> Tuned:
    """The plan and index that measuring takes, and what GPUs do, where the library is opened on some."""
    tuned = tune(vectors, alive, through, plan, queries, listener=listener)
    if not wants_gpu(store.device):
        return tuned
    there = FaissGpus(*requested_gpus(store.device, find_gpus()))
    report = tune_on_gpu(vectors, alive, plan.contract, there, queries)
    return replace(tuned, plan=replace(tuned.plan, gpu=report))


def _living(store: Store, collection: CollectionRow, after: int = 0) -> NDArray[np.int64]:
    """The numbers of the passages after a number: a long read where there are many."""
    with store.database.reading() as connection:
        return passages.passage_numbers(connection, collection.id, after=after)


def _opened(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    rows: list[SegmentRow],
    living: NDArray[np.int64] | None = None,
) -> tuple[VectorStore, NDArray[np.bool_], int]:
    """The vectors of files, which of their passages live, and the last of them; living: None for all."""
    opened = open_all(store, collection, generation, rows, seen=True)
    large = 4 * len(opened) * opened.dimension > _LARGE
    vectors = VectorStore(opened.segments, opened.dimension, gives_back=large)
    through = int(vectors.ids[-1]) if len(vectors) else 0
    alive = np.full(through + 1, living is None, dtype=np.bool_)
    if living is not None:
        alive[living[living <= through]] = True
    alive.flags.writeable = False
    return vectors, alive, through
