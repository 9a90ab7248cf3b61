"""Merging small segments, leaving out removed passages, clearing what nothing points to."""

import shutil
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.indexer.catalogue import clusterings, collections, generations, passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow, SegmentState
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.errors import DamagedSegmentError
from nearsay.indexer.quarantine import open_all, remedy
from nearsay.indexer.report_plot import report_plot
from nearsay.indexer.segment import SegmentKind, write_vectors
from nearsay.indexer.store import Store
from nearsay.indexer.vector_store import VectorStore

__all__ = ["CompactReport", "compact", "merge_for_index", "merge_small"]

_ROWS = 131_072  # passages in a merged segment
_SMALL = 16_384  # passages: what one addition writes at once
_MOST_SMALL = 32  # small segments at the end of a generation before they are merged
_MOST_INDEXED = 8  # segments, beside twice as many as merged ones would be, that an index is built over


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did."""

    segments_before: int
    segments_after: int
    vectors_dropped: int
    generations_dropped: int
    files_removed: int
    bytes_freed: int


def compact(store: Store, collection: CollectionRow, *, drop_retired: bool = False) -> CompactReport:
    """Rewrite each generation without its removed passages; the caller holds the writer lock.

    New files are written first and entered in one transaction; only then files that nothing points to go.
    `drop_retired` also forgets retired generations, after which there is no going back to them.
    """
    dropped = 0
    with store.database.writing() as connection:
        before = len(generations.segments_of(connection, collection.id))
        for generation in generations.all_of(connection, collection.id):
            if drop_retired and generation.state is GenerationState.RETIRED:
                # Before the number is free: the next generation that gets it has not this report.
                report_plot(store, collection.id, generation.number).unlink(missing_ok=True)
                generations.drop(connection, generation)
                dropped += 1
        if dropped:
            collections.changed(connection, collection.id)
    with store.database.reading() as connection:
        every = generations.all_of(connection, collection.id)
        living = passages.passage_numbers(connection, collection.id)
    vectors_dropped = sum(_merge(store, collection, generation, living) for generation in every)
    with store.database.writing() as connection:
        clusterings.leave_removed(connection, collection.id)
        connection.execute(removed_passages.delete().where(removed_passages.c.collection_id == collection.id))
        collections.changed(connection, collection.id, compacted=True)
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id)
    files, freed = remove_orphans(store, collection.id, rows)
    _remove_folders_of_the_deleted(store)
    return CompactReport(before, len(rows), vectors_dropped, dropped, files, freed)


def _remove_folders_of_the_deleted(store: Store) -> None:
    # Folders first: a collection is in the catalogue before it has one.
    folders = sorted(
        folder for kind in ("segments", "reports") for folder in (store.folder / kind).glob("[0-9]*")
    )
    with store.database.reading() as connection:
        known = {str(id_) for id_ in collections.ids(connection)}
    for folder in folders:
        if folder.name not in known:
            shutil.rmtree(folder, ignore_errors=True)


def remove_orphans(store: Store, collection_id: int, rows: list[SegmentRow]) -> tuple[int, int]:
    """Remove the files that a crash or a merge left behind; how many, and their bytes."""
    named = {row.sha256 for row in rows}
    files = freed = 0
    folder = store.segments(collection_id)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.stem not in named or path.name.startswith(TEMPORARY_PREFIX):
            freed += path.stat().st_size
            path.unlink()
            files += 1
    return files, freed


def merge_small(store: Store, collection: CollectionRow, generation: GenerationRow) -> None:
    """Merge the small segments that many little additions leave behind, once there are dozens of them.

    Without it a thousand additions of one document would make a thousand files to open.
    """
    rows = _vector_rows(store, collection, generation)
    small = rows
    while small and max(row.count for row in small) >= _SMALL:
        small = small[1:]
    if len(small) <= _MOST_SMALL or any(row.state is SegmentState.QUARANTINED for row in small):
        return
    vectors = open_all(store, collection, generation, small)
    _replace(store, collection, generation, small, vectors, np.arange(len(vectors)))
    with store.database.reading() as connection:
        named = generations.segments_of(connection, collection.id)
    remove_orphans(store, collection.id, named)


def merge_for_index(store: Store, collection: CollectionRow, generation: GenerationRow) -> None:
    """Merge the segments that one large addition leaves behind, before an index is built over them.

    A million passages come in over sixty files, and each search gathers what the index proposes from all.
    Large segments stay; each run of others beside each other is merged.
    """
    rows = _vector_rows(store, collection, generation)
    if any(row.state is SegmentState.QUARANTINED for row in rows):
        return
    total = sum(row.count for row in rows)
    if len(rows) <= max(_MOST_INDEXED, 2 * -(-total // _ROWS)):
        return
    runs: list[list[SegmentRow]] = [[]]
    for row in rows:
        if 2 * row.count > _ROWS:
            runs.append([])
        else:
            runs[-1].append(row)
    for run in runs:
        if len(run) > 1:
            opened = open_all(store, collection, generation, run)
            vectors = VectorStore(opened.segments, opened.dimension, gives_back=True)
            _replace(store, collection, generation, run, vectors, np.arange(len(vectors)))
    with store.database.reading() as connection:
        named = generations.segments_of(connection, collection.id)
    remove_orphans(store, collection.id, named)


def _merge(
    store: Store, collection: CollectionRow, generation: GenerationRow, living: NDArray[np.int64]
) -> int:
    rows = _vector_rows(store, collection, generation)
    if any(row.state is SegmentState.QUARANTINED for row in rows):
        raise DamagedSegmentError(
            f"generation {generation.number} of '{collection.name}' has a segment in quarantine. "
            f"{remedy(collection.name, generation)}"
        )
    vectors = open_all(store, collection, generation, rows)
    positions = np.flatnonzero(np.isin(vectors.ids, living, assume_unique=True))
    gone = len(vectors) - positions.size
    if gone or len(rows) > max(1, -(-positions.size // _ROWS)):
        _replace(store, collection, generation, rows, vectors, positions)
    return gone


def _vector_rows(store: Store, collection: CollectionRow, generation: GenerationRow) -> list[SegmentRow]:
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id, generation.number)
    return [row for row in rows if row.kind is SegmentKind.VECTORS]


def _replace(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    rows: list[SegmentRow],
    vectors: VectorStore,
    positions: NDArray[np.int64],
) -> None:
    """Put segments with the vectors at the positions in the place of the rows, in one transaction."""
    written = []
    for begin in range(0, positions.size, _ROWS):
        some = positions[begin : begin + _ROWS]
        ids = vectors.ids[some]
        path = write_vectors(
            store.segments(collection.id), ids, vectors.rows(some), generation.encoder.fingerprint
        )
        written.append((path, ids))
    with store.database.writing() as connection:
        for row in rows:
            generations.remove_segment(connection, row)
        for path, ids in written:
            span = int(ids[0]), int(ids[-1])
            generations.add_segment(connection, generation, SegmentKind.VECTORS, path, ids.size, span)
        collections.changed(connection, collection.id)
