"""When a generation gets an index, and when it gets a further one or a new one.

An addition builds none unless it is asked to: it says when one would pay off, and what has none is searched
exactly. The first index is chosen by measurement. Passages that come later get an index of their own once
there are enough of them, built by the plan that stands. What the indexes propose is united and scored exactly
(`plans.united`). `prepare_index` makes one of them while others add, and chooses anew where the collection
has doubled.
"""

import contextlib
import logging
from collections.abc import Mapping
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
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.plans.engine import faiss_is_installed, fill
from nearsay.indexer.plans.engines import build, part_shape
from nearsay.indexer.plans.gpu import FaissGpus, find_gpus, requested_gpus, wants_gpu
from nearsay.indexer.plans.gpu_opening import tune_on_gpu
from nearsay.indexer.plans.plan import (
    EXACT_UP_TO,
    REBUILD_AT,
    RETUNE_AT,
    TAIL,
    Plan,
    PlanKind,
    RecallContract,
)
from nearsay.indexer.plans.tuning import Tuned, enough_to_show, tune, tune_again
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError, open_all, remedy
from nearsay.indexer.snapshots.segment_writer import IndexPart, emptied, written_index
from nearsay.indexer.vectors.errors import BusyError, DamagedSegmentError
from nearsay.indexer.vectors.progress import ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.vectors.vector_store import VectorStore, trim
from nearsay.indexer.writing.compaction import clear_building, merge_for_index, moved, superseding
from nearsay.indexer.writing.index_state import IndexState, index_state

logger = logging.getLogger("nearsay")

_TRIES = 5  # merges of others that may go by while files are being opened
_LARGE = 500_000_000  # bytes of vectors: of more, mapped pages are given back after each pass


def refresh_index(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    *,
    exact_up_to: int = EXACT_UP_TO,
    tail: int = TAIL,
    always: bool = False,
    contract: RecallContract | None = None,
    listener: ProgressListener = unheard,
) -> Plan:
    """Choose and build the index of a large generation that has none, or index what is newer; its plan then.

    exact_up_to: so many passages are searched exactly, unless they have an index already
    tail:        so many passages that no index has get one of their own, or a fifth of what is indexed if
                 that is more
    always:      an index that is there is built anew, in the way that was chosen
    contract:    what the plan has to keep from now on; None for what it keeps already. It is kept with
                 what was measured for it, so that work that is stopped claims nothing; at once only where
                 exact search answers and nothing was measured
    listener:    hears of candidates when they are measured

    Without FAISS nothing is built and search stays exact; nor is anything built while a segment of vectors is
    in quarantine: a contract that was not measured then is not in the plan (see `unmeasured`). The caller
    holds the writer lock.
    """
    state = index_state(store, collection, generation)
    plan, total = state.plan, state.stored
    promised = contract is not None and contract != plan.contract
    wanted = plan.kind is not PlanKind.EXACT
    missing = wanted and (always or not state.indexed)
    if wanted and not promised and not missing:
        _index_tail(store, collection, generation, state, tail)
        return plan
    may_be = REBUILD_AT * plan.measured_at if wanted else max(exact_up_to, REBUILD_AT * plan.measured_at)
    if promised or missing or total > may_be:  # else the segments say that nothing is due
        total = min(total, _living(store, collection).size)
    outgrown = promised or total > REBUILD_AT * plan.measured_at
    outgrown |= missing and total < plan.measured_at / 2  # by its index
    small = not wanted and total <= exact_up_to
    if contract is not None and promised and not wanted and (small or not plan.measured_at):
        plan = _promised(store, collection, generation, plan, contract)
    due = (outgrown or missing) and (promised or total > 0)  # an index of nothing never is
    if small or not due or not faiss_is_installed() or not state.whole:
        return plan
    if outgrown:
        _refuse_empty(collection, total)
    merge_for_index(store, collection, generation)
    state = index_state(store, collection, generation)
    plan = replace(state.plan, contract=contract or state.plan.contract)
    queries = _given(store, generation, plan.contract) if outgrown else None
    folder = store.segments(collection.id)
    prepared = _made(
        store,
        collection,
        generation,
        state,
        plan,
        folder,
        choose=outgrown,
        queries=queries,
        listener=listener,
    )
    return _kept(store, collection, generation, prepared)


def left_for_later(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    contract: RecallContract,
    *,
    exact_up_to: int = EXACT_UP_TO,
    tail: int = TAIL,
) -> tuple[str, ...]:
    """What has to be said of an addition that measures and builds nothing; the rest as for `refresh_index`.

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
    enough = state.enough(tail) if wanted else max(exact_up_to, REBUILD_AT * plan.measured_at)
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

    plan: Plan
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
    exact_up_to: int = EXACT_UP_TO,
    listener: ProgressListener = unheard,
) -> Prepared | None:
    """Build one index of everything without holding the writer lock; None where none is due.

    folder:   the caller's own, on the file system of the segments, for what is written
    contract: choose anew, to keep this; queries: (n, d) unit length, to measure with, None = those that were
              given before, if they are enough for it, else stored vectors
    newer:    build one beside those there are, of what is newer than they, once there is enough of it

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
                exact_up_to,
                listener,
                folder=folder,
                newer=newer,
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
    exact_up_to: int,
    listener: ProgressListener,
    *,
    folder: Path,
    newer: bool,
) -> Prepared | None:
    state = index_state(store, collection, generation)
    plan, total = state.plan, _living(store, collection).size
    choose, doubled = contract is not None, False
    if contract is not None:
        _refuse_empty(collection, total)
        queries = _given(store, generation, contract) if queries is None else queries
    else:
        if not state.whole or (newer and state.indexed and not _many_newer(store, collection, state, TAIL)):
            return None
        if newer and state.indexed:
            return _prepared_beside(store, collection, generation, state, folder)
        choose, doubled, queries = _grown(store, generation, plan, total, exact_up_to)
        if not choose and (plan.kind is PlanKind.EXACT or state.one_of_all):
            return None
        if not faiss_is_installed():
            raise MissingExtraError("The index of a large collection", "cpu")
    plan = replace(plan, contract=contract or plan.contract)
    clear_building(store)
    return _made(
        store,
        collection,
        generation,
        state,
        plan,
        folder,
        choose=choose,
        shape=part_shape(plan.kind, plan.shape, total, generation.encoder.dimension) if doubled else None,
        queries=queries,
        listener=listener,
    )


def _grown(
    store: Store, generation: GenerationRow, plan: Plan, total: int, exact_up_to: int
) -> tuple[bool, bool, NDArray[np.float32] | None]:
    """Whether the kind is chosen anew, whether what was measured has doubled, and queries to measure with."""
    if plan.kind is PlanKind.EXACT:
        return total > max(exact_up_to, REBUILD_AT * plan.measured_at), False, None
    doubled = not plan.measured_at / RETUNE_AT <= total < RETUNE_AT * plan.measured_at
    if not doubled or plan.estimated:
        return doubled, doubled, None
    queries = _given(store, generation, plan.contract)
    return queries is not None and store.cluster is not None, doubled, queries  # workers measure all kinds


def _many_newer(store: Store, collection: CollectionRow, state: IndexState, least: int) -> bool:
    """Whether what no index covers has become enough for one of its own."""
    enough = state.enough(least)
    return state.newer > enough and _living(store, collection, state.through).size > enough


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
        raise BusyError(
            f"collection '{collection.name}' was indexed by another process meanwhile. Run the command again"
        )
    for part in prepared.parts:
        if known_sha256(part.path) != part.path.stem:
            raise DamagedSegmentError(
                f"the new index of collection '{collection.name}' ({part.path.name}) is not what was "
                "written. The old one stays. Look after the disk or the share, then run the command again"
            )
    if prepared.beside:  # the plan that stands, with what was noted in it meanwhile
        prepared = replace(prepared, plan=state.plan)
    parts = tuple(replace(part, path=moved(store, collection, part.path)) for part in prepared.parts)
    prepared = replace(prepared, parts=parts)
    return _kept(store, collection, generation, prepared)


def _index_tail(
    store: Store, collection: CollectionRow, generation: GenerationRow, state: IndexState, least: int
) -> None:
    """Index the passages that are newer than the indexes where they have become many."""
    if not faiss_is_installed() or not state.whole or not _many_newer(store, collection, state, least):
        return
    folder = store.segments(collection.id)
    _kept(store, collection, generation, _prepared_beside(store, collection, generation, state, folder))


def _prepared_beside(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    state: IndexState,
    folder: Path,
) -> Prepared:
    """One index, by the plan that stands, of all that is newer than the indexes."""
    plan, after, index = state.plan, state.through, None
    some = replace(state, vectors=state.after(after))
    vectors, alive, last = _opened(store, collection, generation, some, after)
    ids = vectors.ids[alive[vectors.ids]]
    if store.cluster is not None:  # the centroids that its groups have in common, of any sound one
        made_by = generation.encoder
        segment = partial(store.segment, collection.id)
        opened = (emptied(segment(row.sha256), row, made_by, plan) for row in state.indexes)
        index = next((one for one in opened if one is not None), None)
    if index is not None:
        fill(index.faiss_index, vectors, ids)
    else:
        shape = part_shape(plan.kind, plan.shape, ids.size, vectors.dimension)
        index = build(plan.kind, vectors, ids, last, shape)
    part = IndexPart(written_index(folder, generation.encoder, index), len(index), (after + 1, last))
    return Prepared(plan, (part,), (), beside=tuple(state.indexes))


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


def _made(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    state: IndexState,
    plan: Plan,
    folder: Path,
    *,
    choose: bool,
    shape: Mapping[str, int] | None = None,
    queries: NDArray[np.float32] | None,
    listener: ProgressListener,
) -> Prepared:
    """One index of everything, written into a folder, by this process or by the workers of the cluster.

    choose:  choose the kind anew by measuring; else it is the plan's, and so is its shape unless one is given
    queries: (n, d), the user's own, to measure with; None = stored vectors. The plan's kind is measured by
             them where none is chosen
    """
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
        return Prepared(plan, parts, tuple(state.indexes), queries=queries)
    vectors, alive, through = _opened(store, collection, generation, state)
    tuned = None
    if queries is not None and not choose:
        tuned = tune_again(vectors, alive, through, plan, queries, listener=listener)
    if tuned is None and (choose or queries is not None):
        tuned = _chosen(store, vectors, alive, through, plan, queries, listener)
    if tuned is None:
        ids = vectors.ids[alive[vectors.ids]]
        index = build(plan.kind, vectors, ids, through, plan.shape if shape is None else shape)
        tuned = Tuned(replace(plan, check=None), index)
    written: tuple[IndexPart, ...] = ()
    if tuned.index is not None:
        path = written_index(folder, generation.encoder, tuned.index)
        written = (IndexPart(path, len(tuned.index), (int(vectors.ids[0]), through)),)
    return Prepared(tuned.plan, written, tuple(state.indexes), queries)


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
    store: Store, collection: CollectionRow, generation: GenerationRow, state: IndexState, after: int = 0
) -> tuple[VectorStore, NDArray[np.bool_], int]:
    """The vectors, which of their passages (numbered above `after`) live, and the last of them."""
    opened = open_all(store, collection, generation, state.vectors, seen=True)
    large = 4 * len(opened) * opened.dimension > _LARGE
    vectors = VectorStore(opened.segments, opened.dimension, gives_back=large)
    through = int(vectors.ids[-1]) if len(vectors) else 0
    alive = np.zeros(through + 1, dtype=np.bool_)
    living = _living(store, collection, after)
    alive[living[living <= through]] = True
    alive.flags.writeable = False
    return vectors, alive, through


def _kept(store: Store, collection: CollectionRow, generation: GenerationRow, prepared: Prepared) -> Plan:
    """Let a written index and its plan take the place of what it replaces, in one transaction; the plan."""
    with store.database.writing() as connection:
        superseding(store, prepared.replaces, collection)
        for row in prepared.replaces:
            generations.remove_segment(connection, row)
        for part in prepared.parts:
            generations.add_segment(
                connection, generation, SegmentKind.INDEX, part.path, part.count, part.span
            )
        generations.set_plan(connection, generation, prepared.plan.to_json())
        if prepared.queries is not None or prepared.plan.estimated:
            generations.keep_queries(connection, generation, prepared.queries)
        collections.changed(connection, collection.id)
    trim()
    return prepared.plan
