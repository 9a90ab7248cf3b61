"""When and how a generation's indexes are built and extended.

By default, an addition builds none: it reports when one would pay off, and passages without one are searched
exactly. The first index is chosen by measurement. Once there are enough newer passages, they are added to it
as it was trained; if it does not find them, or on a cluster, they get an index of their own with the same
plan. Candidates of several indexes are merged and scored exactly (`plans.united`). `prepare_index` builds any
of these, with the writer lock or while others add, and chooses again when the collection has doubled;
`keep_prepared` commits the result.
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
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.centroids import open_centroids
from nearsay.indexer.plans.engine import SEED, faiss_is_installed, fill
from nearsay.indexer.plans.engines import build, engine_of, open_index, part_shape
from nearsay.indexer.plans.gpu import FaissGpus, find_gpus, requested_gpus, wants_gpu
from nearsay.indexer.plans.gpu_opening import tune_on_gpu
from nearsay.indexer.plans.plan import EXACT_UP_TO, REBUILD_AT, RETUNE_AT, Plan, PlanKind, RecallContract
from nearsay.indexer.plans.trials import Searcher, drawn, enough_to_show
from nearsay.indexer.plans.tuning import Tuned, tune, tune_again
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError, opened_segment, remedy
from nearsay.indexer.snapshots.segment_writer import IndexPart, emptied, written_index
from nearsay.indexer.vectors.errors import BusyError, DamagedSegmentError
from nearsay.indexer.vectors.progress import ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentKind, open_index_bytes
from nearsay.indexer.vectors.vector_store import VectorStore, trim
from nearsay.indexer.writing.compaction import (
    aside,
    clear_building,
    keep_merged,
    merged_for_index,
    moved,
    remove_orphans,
    superseding,
)
from nearsay.indexer.writing.index_state import IndexState, index_state, living_passages, opened_vectors

_TRIES = 5  # merges of others that may go by while files are being opened
_REWRITTEN = 2_000_000_000  # bytes of an index that others join; a larger one stays as it is
_ASKED = 100  # passages that have to find their neighbours in an index that takes in others
_DOUBT = 2.0  # standard errors of the difference that chance may make


def refresh_index(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    *,
    always: bool = False,
    contract: RecallContract | None = None,
    listener: ProgressListener = unheard,
) -> Plan:
    """Build the index if it is due, under the writer lock. Returns the plan.

    always:   rebuild an existing index
    contract: recall target from now on; None = unchanged. It is saved together with what was measured for it,
              so that interrupted work promises nothing; at once only if search is exact and nothing was
              measured
    listener: called for each candidate that is measured

    If there is no index, one is chosen as in `prepare_index`; newer passages join existing indexes. Nothing
    is built without FAISS, or while a segment of vectors is in quarantine; a contract that could not be
    measured then is not saved (see `unmeasured`).
    """
    state = index_state(store, collection, generation)
    plan, promise = state.plan, None if contract == state.plan.contract else contract
    if plan.kind is PlanKind.EXACT:
        most = _exact_up_to(plan) if promise is None else EXACT_UP_TO
        small = state.stored <= most or living_passages(store, collection).size <= most
        if promise is not None and (small or not plan.measured_at):
            plan = _promised(store, collection, generation, plan, promise)
        if small:
            return plan
    newer = state.indexed and not always and promise is None
    if not state.whole or not faiss_is_installed() or (newer and state.newer <= state.enough(store)):
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
    """Notes on an addition that does not build an index.

    A contract is saved if search is exact: it holds, and the next index has to meet it.
    """
    state, notes = index_state(store, collection, generation), []
    plan, wanted = state.plan, state.plan.kind is not PlanKind.EXACT
    if contract != plan.contract and not wanted and not plan.measured_at:
        _promised(store, collection, generation, plan, contract)
    elif contract != plan.contract:
        notes.append(
            f"{contract} was not measured, {plan.contract} stays. Measure it: "
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
    enough = state.enough(store) if wanted else _exact_up_to(plan)
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
    """The command that measures a contract instead of the plan's."""
    command = f"nearsay index tune {collection} --recall {contract.recall}@{contract.at}"
    if contract.memory_bytes != plan.contract.memory_bytes:
        command += f" --memory {contract.memory_bytes or 'none'}"
    return command


def _promised(
    store: Store, collection: CollectionRow, generation: GenerationRow, plan: Plan, contract: RecallContract
) -> Plan:
    """Save a plan's new recall contract. Returns the plan."""
    plan = replace(plan, contract=contract)
    with store.database.writing() as connection:
        generations.set_plan(connection, generation, plan.to_json())
        collections.changed(connection, collection.id)
    return plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """A new index that is written but not in the catalogue yet."""

    plan: Plan | None  # None = the current one
    parts: tuple[IndexPart, ...]  # empty = exact search was chosen
    replaces: tuple[SegmentRow, ...]  # the indexes to replace
    queries: NDArray[np.float32] | None = None  # of the user's, that it was measured with
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
    """Build one index of everything, with or without the writer lock. Returns None if none is due.

    folder:   a folder of the caller's, on the file system of the segments, for new files
    contract: choose a new plan that meets it; queries: (n, d) unit length, to measure with, None = those
              given before if there are enough, else stored vectors
    newer:    index only what no index covers, once there is enough of it
    always:   build it even if one index covers everything

    Without a contract, nothing is measured unless the collection has doubled. Then the kind is chosen again
    if it was chosen with stored vectors; if it was chosen with given queries, it stays as long as it meets
    the contract for them, with as many probes as that takes. (Older versions did not save the queries: kind
    and share of probed lists stay.) `keep_prepared` commits it. Raises MissingExtraError if one is due and
    FAISS is not installed; BusyError if merges by others replace the files again and again.
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
    newer = newer and contract is None and state.indexed
    if (contract is None and not state.whole) or (newer and state.newer <= state.enough(store)):
        return None
    plan, living = state.plan, living_passages(store, collection)
    gone = state.mostly_gone(living)
    if newer and not gone and not _too_large(state, generation, state.held + state.newer):
        return _prepared_further(store, collection, generation, state, living, folder)
    total = int(np.count_nonzero(living <= state.newest))
    choose, doubled = contract is not None, False
    if contract is not None:
        _refuse_empty(collection, total)
        queries = _given(store, generation, contract) if queries is None else queries
    else:
        choose, doubled, queries = _grown(store, generation, state, total)
        stays = state.one_of_all and not always and not gone
        if stays and doubled and not choose:
            stays = queries is None and not _outgrown(store, collection, generation, state, total)
        if not choose and (plan.kind is PlanKind.EXACT or stays):
            return None
        if not faiss_is_installed():
            raise MissingExtraError("The index of a large collection", "cpu")
    plan = replace(plan, contract=contract or plan.contract)
    clear_building(store)
    if store.cluster is not None:
        from nearsay.indexer.cluster.indexing import index_on_cluster

        plan, parts = index_on_cluster(
            store,
            collection,
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
    vectors, alive, through = opened_vectors(store, collection, generation, state.vectors, living)
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
    store: Store, generation: GenerationRow, state: IndexState, total: int
) -> tuple[bool, bool, NDArray[np.float32] | None]:
    """Whether to choose the kind again, whether its measurements are outdated, and queries to measure with.

    They are if the collection has doubled, or if an index of all passages would exceed the memory limit.
    """
    plan = state.plan
    if plan.kind is PlanKind.EXACT:
        return total > _exact_up_to(plan), False, _given(store, generation, plan.contract)
    doubled = not plan.measured_at / RETUNE_AT <= total < RETUNE_AT * plan.measured_at
    too_large = _too_large(state, generation, total)
    doubled = doubled or too_large
    if not doubled or plan.estimated:
        return doubled, doubled, None
    queries = _given(store, generation, plan.contract)
    if queries is None:
        return too_large, doubled, None
    return store.cluster is not None, doubled, queries  # workers measure all kinds


def _outgrown(
    store: Store, collection: CollectionRow, generation: GenerationRow, state: IndexState, total: int
) -> bool:
    """Whether the only index is damaged, or has fewer lists than a new one of this many passages would.

    This happens when passages have joined it. On a cluster, groups keep the lists that they were trained
    with.
    """
    plan, (row,), dimension = state.plan, state.indexes, generation.encoder.dimension
    if store.cluster is not None or not engine_of(plan.kind).has_centroids:
        return False
    try:
        serialised = opened_segment(store, collection, generation, row, open_index_bytes, seen=True)
    except DamagedSegmentError:
        return True
    usual = part_shape(plan.kind, plan.shape, total, dimension)
    return open_centroids(serialised, dimension).count < usual["lists"]


def _exact_up_to(plan: Plan) -> float:
    """Number of passages up to which a plan without an index is used."""
    return max(EXACT_UP_TO, REBUILD_AT * plan.measured_at)


def _refuse_empty(collection: CollectionRow, total: int) -> None:
    if not total:
        raise BadInputError(
            f"collection '{collection.name}' has no passages with vectors to measure with. "
            f"Add to it: nearsay documents add {collection.name} FILE"
        )


def _too_large(state: IndexState, generation: GenerationRow, count: int) -> bool:
    """Whether an index of this many passages with the plan's shape would exceed the memory limit."""
    plan, limit = state.plan, state.plan.contract.memory_bytes
    dimension = generation.encoder.dimension
    return limit is not None and engine_of(plan.kind).expected_bytes(count, dimension, plan.shape) > limit


def _given(store: Store, generation: GenerationRow, contract: RecallContract) -> NDArray[np.float32] | None:
    """The queries that the user gave earlier, if there are enough to show the contract's recall."""
    with store.database.reading() as connection:
        queries = generations.queries_of(connection, generation)
    return None if queries is None or not enough_to_show(len(queries), contract.recall) else queries


def keep_prepared(
    store: Store, collection: CollectionRow, generation: GenerationRow, prepared: Prepared
) -> Plan:
    """Commit a prepared index in place of the old ones. Returns its plan. The caller holds the writer lock.

    Raises BusyError if another index was built meanwhile; DamagedSegmentError if a file is not what was
    written (on a cluster, other machines write it). Nothing is committed then.
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
    with contextlib.suppress(BusyError):  # the next one removes it
        remove_orphans(store, collection)
    trim()
    return plan


def _prepared_further(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    state: IndexState,
    living: NDArray[np.int64],
    folder: Path,
) -> Prepared | None:
    """Add newer passages to the newest index, or build one of their own; None if there are too few.

    living: passage numbers. On a cluster, shards divide groups, so it is always an index of its own, trained
            as an earlier one
    """
    plan, after, newest = state.plan, state.through, state.indexes[-1]
    vectors, alive, last = opened_vectors(store, collection, generation, state.after(after), living)
    ids = vectors.ids[alive[vectors.ids] & (vectors.ids > after)]
    if ids.size <= state.enough(store):
        return None
    made_by, replaced = generation.encoder, list[SegmentRow]()
    index = None
    if store.cluster is not None:
        segment = partial(store.segment, collection.id)
        every = (emptied(segment(row.sha256), row, made_by, plan) for row in reversed(state.indexes))
        index = next((one for one in every if one is not None), None)
        if index is not None:
            fill(index.faiss_index, vectors, ids)
    elif newest.bytes <= _REWRITTEN:
        with contextlib.suppress(DamagedSegmentError):  # a search says so, and how it is mended
            index = _joined(store, collection, generation, state, living, vectors, ids)
        replaced = [] if index is None else [newest]
    if index is None:
        shape = part_shape(plan.kind, plan.shape, ids.size, vectors.dimension)
        index = build(plan.kind, vectors, ids, last, shape)
    first = newest.first_passage if replaced else after + 1
    part = IndexPart(written_index(folder, made_by, index), len(index), (first, last))
    beside = tuple(row for row in state.indexes if row not in replaced)
    return Prepared(None, (part,), tuple(replaced), beside=beside)


def _joined(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    state: IndexState,
    living: NDArray[np.int64],
    vectors: VectorStore,
    ids: NDArray[np.int64],
) -> CandidateIndex | None:
    """The newest index as it was trained, extended by passages `ids` (ascending) with these vectors.

    None if too few of them find their neighbours, because they are distributed differently from the training
    data: fewer than the target, and than as many of the oldest. Removed passages stay in it, because FAISS
    cannot replace product-quantised codes.
    """
    plan, newest = state.plan, state.indexes[-1]
    serialised = opened_segment(store, collection, generation, newest, open_index_bytes, seen=True)
    index = open_index(plan.kind, serialised, newest.last_passage)
    held = index.ids()
    held = held[np.isin(held, living[living <= newest.last_passage], assume_unique=True)]
    fill(index.faiss_index, vectors, ids)
    count = min(ids.size, held.size)
    if count <= plan.contract.at:
        return None
    first, last = held[0], held[count - 1]
    rows = [row for row in state.vectors if row.first_passage <= last and row.last_passage >= first]
    oldest, _, _ = opened_vectors(store, collection, generation, rows, living)
    some = np.sort(np.random.default_rng(SEED).choice(ids, count, replace=False))
    found = _recalls(index, plan, vectors, some), _recalls(index, plan, oldest, held[:count])
    return index if _as_sure(*found, plan.contract) else None


def _recalls(
    index: CandidateIndex, plan: Plan, vectors: VectorStore, ids: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The recall of a sample of passages, searched among all of them, (n,)."""
    alive = np.zeros(vectors.last + 1, dtype=np.bool_)
    alive[ids] = True
    trial = drawn(vectors, alive, _ASKED, plan.contract.at, np.random.default_rng(SEED))
    searcher = Searcher(vectors, alive, trial.asked, index.looking(plan.parameters))
    return trial.recalls(searcher.found(trial.vectors))


def _as_sure(newer: NDArray[np.float64], oldest: NDArray[np.float64], contract: RecallContract) -> bool:
    """Whether newer passages reach the recall target, or that of the oldest.

    newer, oldest: (n,), the recalls of samples of the same size. The index was trained on the oldest
    """
    doubt = _DOUBT * float(np.hypot(newer.std(), oldest.std())) / float(np.sqrt(max(1, newer.size)))
    return bool(newer.mean() >= min(contract.recall, float(oldest.mean()) - doubt))


def unmeasured(collection: str, plan: Plan, contract: RecallContract) -> str | None:
    """The note on a contract that `refresh_index` could not measure; None if the plan has it."""
    if plan.contract == contract:
        return None
    reason, remedy = "FAISS is not installed", "Install it: pip install 'nearsay[cpu]'"
    if faiss_is_installed():
        reason, remedy = "a segment is in quarantine", f"Repair it: nearsay index rebuild {collection}"
    return f"{contract} was not measured, {plan.contract} stays: {reason}. {remedy}, then run: " + _measuring(
        collection, plan, contract
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
    """Choose plan and index by measurement, and the GPU plan if the library was opened on GPUs."""
    tuned = tune(vectors, alive, through, plan, queries, listener=listener)
    if not wants_gpu(store.device):
        return tuned
    there = FaissGpus(*requested_gpus(store.device, find_gpus()))
    report = tune_on_gpu(vectors, alive, plan.contract, there, queries)
    return replace(tuned, plan=replace(tuned.plan, gpu=report))
