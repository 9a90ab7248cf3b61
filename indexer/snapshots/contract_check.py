"""Checks whether a generation's index still meets its recall contract after additions and removals.

An index is measured when it is chosen. Passages that are added later are searched exactly until they join it,
which costs time but no recall; removed ones leave gaps among its candidates. So once passages amounting to a
tenth of the index were added or removed since the last check, or the index has doubled, stored vectors are
searched for with the plan and exactly: two hundred, or a thousand if that leaves it open. Vectors newer than
the index are used if there are enough, because like queries it was not trained on them.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.bulk import count_of
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import passages, removed_passages
from nearsay.indexer.plans.engine import SEED
from nearsay.indexer.plans.gpu import GpuIndex
from nearsay.indexer.plans.plan import RETUNE_AT, Check, Plan, PlanKind
from nearsay.indexer.plans.trials import drawn
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.segment import SegmentKind

CHECK_AT: Final = 0.1  # share of the index that came or went since the last look
_QUERIES: Final = 200
_MORE: Final = 800
_DOUBT: Final = 2.0  # standard errors of the mean around the target within which more queries are asked


Lock = Callable[[], AbstractContextManager[Store]]


def check_contract(
    store: Store, collection: CollectionRow, take: Callable[[], Snapshot], lock: Lock
) -> str | None:
    """Measure the live generation's recall again if it is due. Returns a warning if it is too low.

    take: returns a snapshot; called only if there is something to measure. The result is saved in the
          generation's plan, unless another writer is at work. lock: takes the writer lock, only to save it
    """
    with store.database.reading() as connection:
        generation = generations.live(connection, collection.id)
        plan = Plan() if generation is None else Plan.from_json(generation.plan)
        if generation is None or plan.kind is PlanKind.EXACT:
            return None
        rows = generations.segments_of(connection, collection.id, generation.number)
        churn = _due(connection, collection.id, rows, plan)
    if churn is None:
        return plan.warning(collection.name)
    try:
        snapshot = take()
        mine = snapshot.through is not None and snapshot.generation.identity == generation.identity
        check = checked(snapshot, churn) if mine and snapshot.searchable > 1 else None
    except NearsayError:  # what was written is there; every search says what is wrong, with the remedy
        return plan.warning(collection.name)
    except StaleSnapshotError:  # others wrote what shards search: the next look is theirs
        return plan.warning(collection.name)
    if check is not None:
        with suppress(BusyError), lock() as held, held.database.writing() as connection:
            now = generations.live(connection, collection.id)
            plan = Plan() if now is None else Plan.from_json(now.plan)
            there = generations.segments_of(connection, collection.id, generation.number)
            same = replace(plan, check=None) == replace(snapshot.plan, check=None)
            if same and _indexes(there) == _indexes(rows):
                plan = replace(plan, check=check)
                generations.set_plan(connection, generation, plan.to_json())
                collections.changed(connection, collection.id)
    return plan.warning(collection.name)


def _indexes(rows: Iterable[SegmentRow]) -> set[int]:
    return {row.id for row in rows if row.kind is SegmentKind.INDEX}


def _due(
    connection: sa.Connection, collection_id: int, rows: Sequence[SegmentRow], plan: Plan
) -> float | None:
    """The present churn, if it requires a check or the index has doubled; else None."""
    looked, before = (
        (plan.measured_at, 0.0) if plan.check is None else (plan.check.passages, plan.check.churn)
    )
    churn = _churn(connection, collection_id, rows, before)
    if churn is None:
        return None
    indexed = sum(row.count for row in rows if row.kind is SegmentKind.INDEX)
    doubled = bool(looked) and indexed * (1.0 - churn) >= RETUNE_AT * looked
    return churn if doubled or abs(churn - before) >= CHECK_AT else None


def checked(snapshot: Snapshot, churn: float) -> Check:
    """Search for stored vectors with the index and exactly. Returns the recall, and whether it is enough.

    If a GPU answers, the CPU index of its plan is measured instead. Raises ClusterError if shards do not
    answer.
    """
    snapshot = snapshot.for_measuring()
    if isinstance(snapshot.index, GpuIndex):  # what is promised is what is kept, whatever answers here
        snapshot = replace(snapshot, index=snapshot.index.stored)
    contract, generator = snapshot.plan.contract, np.random.default_rng(SEED)
    recalls = _recalls(snapshot, _QUERIES, generator)
    error = float(recalls.std()) / float(np.sqrt(max(1, recalls.size)))
    if abs(float(recalls.mean()) - contract.recall) <= _DOUBT * error:
        recalls = np.concatenate([recalls, _recalls(snapshot, _MORE, generator)])
    recall = float(recalls.mean())
    return Check(
        recall=round(recall, 4),
        queries=int(recalls.size),
        passages=snapshot.searchable,
        churn=round(churn, 4),
        kept=recall >= contract.recall,
    )


def _recalls(snapshot: Snapshot, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    at, through = snapshot.plan.contract.at, snapshot.through or 0
    if np.count_nonzero(snapshot.alive[through + 1 :]) < _QUERIES:
        through = 0
    trial = drawn(snapshot.vectors, snapshot.alive, count, at, generator, after=through)
    return trial.recalls(snapshot.nearest_many(trial.vectors, trial.asked, sure_of=at))


def _churn(
    connection: sa.Connection, collection_id: int, rows: Sequence[SegmentRow], before: float
) -> float | None:
    """Passages added since the index and removed from it, relative to its size; None without a sound index.

    If the counts in segments and removals show that it is within CHECK_AT of the earlier value, that value is
    returned, because counting the passages of a large index takes longer than a small addition.
    """
    indexes = [row for row in rows if row.kind is SegmentKind.INDEX]
    indexed = sum(row.count for row in indexes)
    if not indexed or any(row.state is not SegmentState.CURRENT for row in indexes):
        return None
    through = max(row.last_passage for row in indexes)
    of_it = passages.c.collection_id == collection_id
    newer = count_of(connection, passages, of_it & (passages.c.number > through))
    vectors = [row for row in rows if row.kind is SegmentKind.VECTORS]
    stored = sum(row.count for row in vectors if row.count and row.last_passage <= through)
    removed = (removed_passages.c.collection_id == collection_id) & (removed_passages.c.passage <= through)
    covered_at_least = stored - count_of(connection, removed_passages, removed)
    most, least = (newer + max(0, indexed - covered_at_least)) / indexed, newer / indexed
    if most - before < CHECK_AT and before - least < CHECK_AT:
        return before
    covered = count_of(connection, passages, of_it & (passages.c.number <= through))
    return (newer + max(0, indexed - covered)) / indexed
