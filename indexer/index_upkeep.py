"""When a generation gets an index, and when it gets a new one."""

from dataclasses import replace

import numpy as np

from nearsay.indexer.catalogue import collections, generations, passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentState
from nearsay.indexer.ivf import build, faiss_is_installed
from nearsay.indexer.plan import EXACT_UP_TO, REBUILD_AT, Plan, PlanKind
from nearsay.indexer.quarantine import open_all
from nearsay.indexer.segment import SegmentKind, write_index
from nearsay.indexer.store import Store

__all__ = ["refresh_index"]


def refresh_index(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    *,
    exact_up_to: int = EXACT_UP_TO,
    always: bool = False,
) -> Plan:
    """Build the generation's index if it is large and has none, or one that it has outgrown; its plan then.

    Without FAISS nothing is built and search stays exact; nor is anything built while a segment of vectors is
    in quarantine, since its passages would be missing for good. The caller holds the writer lock.
    """
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id, generation.number)
        every = {row.number: row for row in generations.all_of(connection, collection.id)}
        living = passages.passage_numbers(connection, collection.id)
    plan = Plan.from_json(every[generation.number].plan)
    vector_rows = [row for row in rows if row.kind is SegmentKind.VECTORS and row.count]
    index_rows = [row for row in rows if row.kind is SegmentKind.INDEX]
    indexed = next((row for row in index_rows if row.state is SegmentState.CURRENT), None)
    total = min(sum(row.count for row in vector_rows), living.size)
    # A plan that was measured and stayed exact has no index, but a size that it was measured at.
    measured = plan.measured_at if plan.kind is PlanKind.EXACT else 0
    covered = indexed.count if indexed is not None else measured
    outgrown = always or total > REBUILD_AT * covered
    if total <= exact_up_to or not outgrown or not faiss_is_installed():
        return plan
    if any(row.state is SegmentState.QUARANTINED for row in vector_rows):
        return plan
    vectors = open_all(store, collection, generation, vector_rows)
    alive = np.zeros(int(vectors.ids[-1]) + 1, dtype=np.bool_)
    alive[living[living < alive.size]] = True
    through = int(vectors.ids[-1])
    index, plan = build(vectors, alive, through, replace(plan, measured_at=total))
    path = None
    if plan.kind is not PlanKind.EXACT:
        path = write_index(
            store.segments(collection.id),
            index.serialise(),
            len(index),
            generation.encoder.dimension,
            generation.encoder.fingerprint,
        )
    with store.database.writing() as connection:
        for row in index_rows:
            generations.remove_segment(connection, row)
        if path is not None:
            span = int(vectors.ids[0]), through
            generations.add_segment(connection, generation, SegmentKind.INDEX, path, len(index), span)
        generations.set_plan(connection, generation, plan.to_json())
        collections.changed(connection, collection.id)
    return plan
