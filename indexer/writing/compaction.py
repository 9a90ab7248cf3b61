"""Compaction: merges small segments, drops removed passages, deletes unused files.

A replaced file may still be open, or about to be opened, elsewhere. On one machine an open file outlives its
name, and a late reader retries; network file systems do not guarantee that. So with a PostgreSQL catalogue,
which several machines may share, a replaced file is kept for a grace period. The time of its replacement is
stored as its modification time, set by the file system's clock.
"""

import contextlib
import math
import os
import shutil
import time
import uuid
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import ClassVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.durable import TEMPORARY_PREFIX, make_folder, synchronise, write_refusal
from nearsay.data.errors import BadInputError
from nearsay.data.known_hashes import remember_sha256
from nearsay.data.quantity import counted, size_words
from nearsay.data.report import Report
from nearsay.indexer.catalogue import clusterings, collections, explored, generations, passages, ranges
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.columns import forget_columns
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import changed_documents, removed_passages
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError, open_all, remedy
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind, write_vectors
from nearsay.indexer.vectors.vector_store import VectorStore

GRACE = {
    "sqlite": 0.0,
    "postgresql": 3600.0,
}  # seconds that a replaced file stays, by the catalogue's dialect

SEGMENT_ROWS = 131_072  # passages in a merged segment
_DAY = 86_400  # seconds
_SMALL = 16_384  # passages: what one addition writes at once
_TOGETHER = 8  # small segments that are merged at once, at least
_MERGED_AT_ONCE = 4096  # passages that any addition may merge, 6 MB at 384 dimensions
_MERGED_A_PASSAGE = 8  # and for each passage of its last segment: about what it takes to enter one
_MOST_INDEXED = 8  # segments, beside twice as many as merged ones would be, that an index is built over


@dataclass(frozen=True, slots=True)
class CompactReport(Report):
    """The result of a compaction."""

    REPORT: ClassVar = "compacted"

    segments_before: int
    segments_after: int
    vectors_dropped: int
    generations_dropped: int
    files_removed: int
    bytes_freed: int
    files_waiting: int = 0  # replaced files still in their grace period
    bytes_waiting: int = 0
    files_refused: int = 0  # could not be deleted; the next compaction tries again
    catalogue_bytes_freed: int = 0
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Removal:
    """What was deleted of the unused files."""

    files: int = 0
    bytes: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    refused: int = 0
    reason: str = ""  # why the first refused file could not be deleted

    def refuse(self, error: OSError) -> None:
        self.refused += 1
        self.reason = self.reason or str(error)


def compact(
    store: Store, collection: CollectionRow, *, drop_retired: bool = False, grace: float | None = None
) -> CompactReport:
    """Rewrite each generation without its removed passages. The caller holds the writer lock.

    New files are written and committed in one transaction before unused files are deleted.

    drop_retired: also delete retired generations; a rollback to them is impossible afterwards
    grace:        seconds to keep a replaced file for readers that may have it open; None = an hour with a
                  PostgreSQL catalogue, 0 with SQLite

    Files that cannot be deleted, or space that cannot be reclaimed, do not fail the compaction; the report's
    notes say how many and why.
    """
    if grace is not None and not (math.isfinite(grace) and grace >= 0):
        raise BadInputError(f"a grace of {grace} seconds is not possible. Give 0 or more")
    dropped = 0
    clear_building(store)
    with store.database.writing() as connection:
        before = generations.segments_of(connection, collection.id)
        for generation in generations.all_of(connection, collection.id):
            if drop_retired and generation.state is GenerationState.RETIRED:
                drop_generation(connection, store, collection, generation)
                dropped += 1
        if dropped:
            collections.changed(connection, collection.id)
    with store.database.reading() as connection:
        every = generations.all_of(connection, collection.id)
        living = passages.passage_numbers(connection, collection.id)
    vectors_dropped = sum(_merge(store, collection, generation, living) for generation in every)
    with store.database.writing() as connection:
        clusterings.leave_removed(connection, collection.id)
        for table in (removed_passages, changed_documents):
            connection.execute(table.delete().where(table.c.collection_id == collection.id))
        forget_columns(connection, collection.id)  # they are brought up by what was just forgotten
        collections.changed(connection, collection.id, compacted=True)
    with store.database.reading() as connection:
        after = len(generations.segments_of(connection, collection.id))
    removal = remove_orphans(store, collection, grace)
    _remove_leftover_folders(store, grace)
    vacuumed = store.database.vacuum()
    said = () if vacuumed.note is None else (vacuumed.note,)
    return CompactReport(
        len(before),
        after,
        vectors_dropped,
        dropped,
        removal.files,
        removal.bytes,
        removal.waiting,
        removal.waiting_bytes,
        removal.refused,
        vacuumed.bytes_freed,
        (*_notes(removal, collection.name), *said),
    )


def _notes(removal: _Removal, collection: str) -> tuple[str, ...]:
    notes = []
    if removal.waiting:
        notes.append(
            f"{counted(removal.waiting, 'replaced file')} ({size_words(removal.waiting_bytes)}) may still be "
            f"open elsewhere and stay a while. Remove them now: nearsay index compact {collection} --grace 0"
        )
    if removal.refused:
        notes.append(
            f"{counted(removal.refused, 'file')} could not be removed ({removal.reason}). Nothing needs "
            f"them. Once that is repaired: nearsay index compact {collection}"
        )
    return tuple(notes)


def drop_generation(
    connection: sa.Connection, store: Store, collection: CollectionRow, generation: GenerationRow
) -> None:
    """Delete a generation; the next compaction deletes its files."""
    superseding(store, generations.segments_of(connection, collection.id, generation.number), collection)
    generations.drop(connection, generation)


def delete_collection(store: Store, collection: CollectionRow) -> None:
    """Delete a collection with everything in it. The caller holds the writer lock.

    Files in their grace period are deleted by the next compaction of any collection.
    """
    with store.database.writing() as connection:
        with contextlib.suppress(OSError):
            os.utime(store.segments(collection.id))
        collections.delete(connection, collection.id)
        store.searches(collection.name).unlink(missing_ok=True)  # another of its name may not have them
    _remove_leftover_folders(store)


def leftover_folders(store: Store) -> list[Path]:
    """Folders that the next compaction deletes: of deleted collections and of earlier versions' pictures."""
    # Folders first: a collection is in the catalogue before it has one.
    folders: list[Path] = []
    with contextlib.suppress(OSError):
        folders += (*store.folder.glob("segments/[0-9]*"), *store.folder.glob("reports"))
    with store.database.reading() as connection:
        known = {str(id_) for id_ in collections.ids(connection)}
    return sorted(folder for folder in folders if folder.name not in known)


def _remove_leftover_folders(store: Store, grace: float | None = None) -> None:
    """Delete them, as far as the system allows."""
    for folder in leftover_folders(store):
        with contextlib.suppress(OSError):
            if _old_enough(folder, folder.parent, _grace(store, grace)):
                shutil.rmtree(folder, ignore_errors=True)


def superseding(store: Store, rows: Iterable[SegmentRow], collection: CollectionRow) -> None:
    """Begin the grace period of files that the current transaction replaces."""
    for row in rows:
        with contextlib.suppress(OSError):  # not ours to change, or gone: then it counts from its writing
            os.utime(store.segment(collection.id, row.sha256))


def remove_orphans(store: Store, collection: CollectionRow, grace: float | None = None) -> _Removal:
    """Delete files that a crash or a merge left behind, in a transaction that excludes other writers."""
    removal = _Removal()
    with store.database.writing() as connection:
        named = {row.sha256 for row in generations.segments_of(connection, collection.id)}
        named |= explored.sample_files(connection, collection.id)
        folder = store.segments(collection.id)
        try:
            paths = sorted(folder.iterdir())
        except FileNotFoundError:
            return removal
        except OSError as error:
            removal.refuse(error)
            return removal
        for path in paths:
            half_written = path.name.startswith(TEMPORARY_PREFIX)
            if path.stem in named and not half_written:
                continue
            try:
                size = path.stat().st_size
                if half_written or _old_enough(path, folder, _grace(store, grace)):
                    path.unlink()
                    removal.files += 1
                    removal.bytes += size
                else:
                    removal.waiting += 1
                    removal.waiting_bytes += size
            except OSError as error:
                removal.refuse(error)
    return removal


def _grace(store: Store, asked: float | None) -> float:
    return GRACE[store.database.dialect] if asked is None else asked


def _old_enough(path: Path, folder: Path, grace: float) -> bool:
    """Whether a replaced file's grace period is over, by the clock of the file system."""
    return grace <= 0 or _now(folder) - path.stat().st_mtime >= grace


def _now(folder: Path) -> float:
    """The current time of the folder's file system; a file server's clock may differ from ours."""
    probe = folder / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        probe.touch()
        moment = probe.stat().st_mtime
        probe.unlink()
    except OSError:
        return time.time()
    return moment


def merge_small(store: Store, collection: CollectionRow, generation: GenerationRow) -> None:
    """Merge small segments, so that a thousand additions of one document do not make a thousand files.

    No part is larger than half of the merged file, so a passage is rewritten only a few times, and no merge
    makes its addition much slower than others. No merged file crosses the end of an index, because shards are
    split there.
    """
    rows = _vector_rows(store, collection, generation)[-1]
    if len(rows) < _TOGETHER:
        return
    ends = _ends_of_indexes(store, collection, generation)
    most = max(_MERGED_AT_ONCE, _MERGED_A_PASSAGE * rows[-1].count)
    small: list[SegmentRow] = []
    total = largest = 0
    for begin in range(len(rows) - 1, -1, -1):
        row = rows[begin]
        total, largest = total + row.count, max(largest, row.count)
        if total > most or row.count >= _SMALL or row.state is SegmentState.QUARANTINED:
            break
        if begin + 1 < len(rows) and row.last_passage in ends:
            break
        if len(rows) - begin >= _TOGETHER and 2 * largest <= total:
            small = rows[begin:]
    if not small:
        return
    try:
        vectors = open_all(store, collection, generation, small)
    except DamagedSegmentError:
        return  # what was added is added; a search says so
    folder = store.segments(collection.id)
    keep_merged(store, collection, generation, _merged(folder, generation, small, _in_segments(vectors)))


_Part = tuple[NDArray[np.int64], NDArray[np.float32]]  # passage numbers and their vectors


@dataclass(frozen=True, slots=True)
class Merged:
    """Segments merged into new files that are not in the catalogue yet."""

    replaces: list[SegmentRow]
    files: list[tuple[Path, int, tuple[int, int]]]  # with the number of passages, the first and the last


def merged_for_index(
    store: Store, collection: CollectionRow, generation: GenerationRow, *, indexes_stay: bool = False
) -> Iterator[Merged]:
    """Merge small segments before an index is built over them, without the writer lock.

    A million passages arrive in sixty files or more, and each search would read candidates from all of them.
    Large segments stay; adjacent small ones are merged. `keep_merged` commits the result, otherwise it is
    deleted. Nothing is merged if there are few files, if one is in quarantine, or if another process replaced
    some.

    indexes_stay: merge no file across the end of an index, and newer files only once they make up half a
                  large one, because they are indexed a little at a time
    """
    rows = _vector_rows(store, collection, generation)[0]  # no index spans a gap
    if any(row.state is SegmentState.QUARANTINED for row in rows):
        return
    total = sum(row.count for row in rows)
    if len(rows) <= max(_MOST_INDEXED, 2 * -(-total // SEGMENT_ROWS)):
        return
    ends = _ends_of_indexes(store, collection, generation) if indexes_stay else ()
    runs: list[list[SegmentRow]] = [[]]
    for row in rows:
        if 2 * row.count > SEGMENT_ROWS:
            runs.append([])
            continue
        runs[-1].append(row)
        if row.last_passage in ends:
            runs.append([])
    for run in runs:
        if len(run) > 1 and not (indexes_stay and 2 * sum(row.count for row in run) <= SEGMENT_ROWS):
            with contextlib.suppress(StaleSnapshotError), aside(store) as folder:
                opened = open_all(store, collection, generation, run)
                vectors = VectorStore(opened.segments, opened.dimension, gives_back=True)
                yield _merged(folder, generation, run, _in_segments(vectors))


def _ends_of_indexes(store: Store, collection: CollectionRow, generation: GenerationRow) -> set[int]:
    """The last passages that indexes cover. No file crosses them, because shards are split there."""
    with store.database.reading() as connection:
        segments = generations.segments_of(connection, collection.id, generation.number)
    return {row.last_passage for row in segments if row.kind is SegmentKind.INDEX}


@contextlib.contextmanager
def aside(store: Store) -> Iterator[Path]:
    """A temporary folder for new files, written without the lock and deleted with what is left in it."""
    folder = store.building / uuid.uuid4().hex
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_building(store: Store) -> None:
    """Delete what killed processes left behind: building takes less than a day."""
    paths: list[Path] = []
    with contextlib.suppress(OSError):
        paths += store.building.glob("*")
    for path in paths:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _DAY:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _merge(
    store: Store, collection: CollectionRow, generation: GenerationRow, living: NDArray[np.int64]
) -> int:
    runs = _vector_rows(store, collection, generation)
    if any(row.state is SegmentState.QUARANTINED for rows in runs for row in rows):
        raise DamagedSegmentError(
            f"generation {generation.number} of '{collection.name}' has a segment in quarantine. "
            f"{remedy(collection.name, generation)}"
        )
    dropped = 0
    for rows in runs:
        vectors = open_all(store, collection, generation, rows)
        positions = np.flatnonzero(np.isin(vectors.ids, living, assume_unique=True))
        gone = len(vectors) - positions.size
        if gone or len(rows) > max(1, -(-positions.size // SEGMENT_ROWS)):
            replace_segments(store, collection, generation, rows, _in_segments(vectors, positions))
        dropped += gone
    return dropped


def _vector_rows(
    store: Store, collection: CollectionRow, generation: GenerationRow
) -> list[list[SegmentRow]]:
    """The vector segments by passage, in runs without pending passages between them."""
    with store.database.reading() as connection:
        generations.as_it_is(connection, generation, collection.name)
        rows = generations.segments_of(connection, collection.id, generation.number)
        has_vector = [each.first for each in ranges.embedded(connection, generation)]
    vectors = [row for row in rows if row.kind is SegmentKind.VECTORS]
    runs = groupby(vectors, key=lambda row: bisect(has_vector, row.first_passage))
    return [list(run) for _, run in runs] or [[]]


def _in_segments(vectors: VectorStore, positions: NDArray[np.int64] | None = None) -> Iterator[_Part]:
    """The vectors at the positions (None = all), as many at a time as fit in a segment."""
    positions = np.arange(len(vectors)) if positions is None else positions
    for begin in range(0, positions.size, SEGMENT_ROWS):
        some = positions[begin : begin + SEGMENT_ROWS]
        yield vectors.ids[some], vectors.rows(some)


def _merged(
    folder: Path,
    generation: GenerationRow,
    rows: Iterable[SegmentRow],
    parts: Iterable[_Part],
) -> Merged:
    """Write each part to a new file that replaces the rows' files; an empty part makes no file."""
    made_by = generation.encoder.fingerprint
    files = [
        (
            write_vectors(folder, ids, vectors, made_by, generation.dtype),
            ids.size,
            (int(ids[0]), int(ids[-1])),
        )
        for ids, vectors in parts
        if ids.size
    ]
    return Merged(list(rows), files)


def keep_merged(store: Store, collection: CollectionRow, generation: GenerationRow, merged: Merged) -> None:
    """Replace segments by the merged files and delete them. The caller holds the writer lock.

    Does nothing if another process has replaced some of them.
    """
    _keep(store, collection, generation, merged)
    remove_orphans(store, collection)


def replace_segments(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    rows: Iterable[SegmentRow],
    parts: Iterable[_Part],
) -> None:
    """Write vectors to new segments that replace the given ones. The caller holds the writer lock.

    parts: for each new segment the passage numbers (n,), ascending, and vectors (n, d); none for an empty one
    """
    folder = store.segments(collection.id)
    _keep(store, collection, generation, _merged(folder, generation, rows, parts))


def _keep(store: Store, collection: CollectionRow, generation: GenerationRow, merged: Merged) -> None:
    """Commit in one transaction; replaced files stay on disk."""
    with store.database.reading() as connection:
        there = {row.id for row in generations.segments_of(connection, collection.id, generation.number)}
    if not there.issuperset(row.id for row in merged.replaces):
        return
    files = [(moved(store, collection, path), count, span) for path, count, span in merged.files]
    with store.database.writing() as connection:
        superseding(store, merged.replaces, collection)
        for row in merged.replaces:
            generations.remove_segment(connection, row)
        for path, count, span in files:
            generations.add_segment(connection, generation, SegmentKind.VECTORS, path, count, span)
        collections.changed(connection, collection.id)


def moved(store: Store, collection: CollectionRow, path: Path) -> Path:
    """Move a segment that was written elsewhere, without the lock, into the collection's folder."""
    kept = store.segment(collection.id, path.stem)
    if path == kept:
        return kept
    make_folder(kept.parent)
    try:
        path.replace(kept)
        synchronise(kept.parent)
    except OSError as error:
        raise write_refusal(kept, error) from error
    remember_sha256(kept, kept.stem)
    return kept
