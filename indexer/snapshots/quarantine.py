"""Quarantine of damaged segments: moved aside, never deleted or searched, restored if they turn out intact.

A segment is damaged if its file is not what the catalogue says, or is missing. A missing file is not
recorded: it is used again as soon as it is back. A file that the system refuses to open or read (too many
open files, no permission, an unmounted share) is not damaged: it raises StorageError, and nothing is recorded
or moved.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from nearsay.data.durable import make_folder, synchronise, write_refusal
from nearsay.data.errors import NearsayError, StorageError
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind, open_index_bytes, open_vectors
from nearsay.indexer.vectors.vector_store import VectorStore

Content = TypeVar("Content")
OVERLAPPING: Final = "segments overlap, so that some passages have two vectors"


class StaleSnapshotError(Exception):
    """A merge replaced files while they were being opened: read the catalogue again."""


def quarantine(store: Store, collection: CollectionRow, segment: SegmentRow) -> bool:
    """Mark a segment as damaged in the catalogue and move its file, as far as permissions allow.

    Returns whether the catalogue still has the segment: if a compaction replaced it, it is not damaged. A
    reader without write permission only refuses to answer; the next process with it does the rest.
    """
    if not is_current(store, collection, segment):
        return False
    if os.path.lexists(store.segment(collection.id, segment.sha256)):  # what is missing may come back
        with contextlib.suppress(NearsayError):
            _set_aside(store, collection, segment)
    return True


def opened_segment(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    row: SegmentRow,
    opener: Callable[..., Content],
    **how: bool,
) -> Content:
    """Open a segment's file; a damaged one is quarantined and raises DamagedSegmentError.

    opener, how: `open_vectors` or `open_index_bytes`, and its options

    Raises StaleSnapshotError if the file was deleted: replaced by a compaction, or with its collection.
    """
    path = store.segment(collection.id, row.sha256)
    try:
        return opener(path, row.sha256, row.header(generation.encoder), **how)
    except DamagedSegmentError as error:
        if not quarantine(store, collection, row):
            raise StaleSnapshotError from error
        raise
    except StorageError as error:
        with contextlib.suppress(NearsayError):  # what refuses the file may refuse the catalogue
            if not is_current(store, collection, row):
                raise StaleSnapshotError from error
        raise


def _set_aside(store: Store, collection: CollectionRow, segment: SegmentRow) -> None:
    with store.database.writing() as connection:
        generations.set_segment_state(connection, segment, SegmentState.QUARANTINED)
        collections.changed(connection, collection.id)
    path = store.segment(collection.id, segment.sha256)
    with contextlib.suppress(OSError):
        make_folder(store.quarantine)
        path.replace(_free(store.quarantine / path.name))


def is_current(store: Store, collection: CollectionRow, segment: SegmentRow) -> bool:
    """Whether the catalogue still has the segment; a compaction may have replaced it."""
    with store.database.reading() as connection:
        return segment.id in {row.id for row in generations.segments_of(connection, collection.id)}


def restore(store: Store, collection: CollectionRow, generation: GenerationRow, segment: SegmentRow) -> bool:
    """Release a segment from quarantine if its file is intact, there or at its place. Returns whether it was.

    It may have been unavailable or misread when it was found damaged. Raises StorageError if a file cannot be
    read at the moment.
    """
    path = store.segment(collection.id, segment.sha256)
    for found in (path, *sorted(store.quarantine.glob(f"{segment.sha256}*"))):
        try:
            _check(found, segment, generation)
        except DamagedSegmentError:
            continue
        if found != path:
            try:
                make_folder(path.parent)
                found.replace(path)
                synchronise(path.parent)
            except OSError as error:
                raise write_refusal(path, error) from error
        with store.database.writing() as connection:
            generations.set_segment_state(connection, segment, SegmentState.CURRENT)
            collections.changed(connection, collection.id)
        return True
    return False


def remedy(collection: str, generation: GenerationRow) -> str:
    """The command that repairs a damaged segment of the generation."""
    if generation.state is GenerationState.LIVE:
        return f"Repair it: nearsay index rebuild {collection}"
    if generation.state is GenerationState.RETIRED:
        return f"Go back to it, or drop it: nearsay index compact {collection} --drop-retired"
    return f"Repair it: nearsay index rebuild {collection} --encoder {generation.encoder.source}"


def open_all(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    rows: Iterable[SegmentRow],
    *,
    seen: bool = False,
) -> VectorStore:
    """Open all vector segments of a generation; a damaged one is quarantined and raises DamagedSegmentError.

    seen: do not read files again that this machine has hashed before and that are unchanged

    Raises StaleSnapshotError if a segment was replaced meanwhile, which the writer lock prevents.
    """
    opened = []
    for row in rows:
        try:
            opened.append(opened_segment(store, collection, generation, row, open_vectors, seen=seen))
        except DamagedSegmentError as error:
            raise DamagedSegmentError(
                f"collection '{collection.name}', generation {generation.number}: {error}. "
                f"{remedy(collection.name, generation)}"
            ) from error
    vectors = VectorStore([segment for segment in opened if segment.ids.size], generation.encoder.dimension)
    if vectors.overlaps:
        raise DamagedSegmentError(
            f"collection '{collection.name}', generation {generation.number}: {OVERLAPPING}. "
            f"{remedy(collection.name, generation)}"
        )
    return vectors


def quarantine_damaged(
    store: Store, collection: CollectionRow, generation: GenerationRow, rows: Iterable[SegmentRow]
) -> None:
    """Read all segments that are believed sound, and quarantine damaged and missing ones.

    For callers that recreate them and hold the writer lock.
    """
    for row in rows:
        try:
            _check(store.segment(collection.id, row.sha256), row, generation)
        except DamagedSegmentError:
            _set_aside(store, collection, row)


def _check(path: Path, row: SegmentRow, generation: GenerationRow) -> None:
    check = open_vectors if row.kind is SegmentKind.VECTORS else open_index_bytes
    check(path, row.sha256, row.header(generation.encoder))


def _free(path: Path) -> Path:
    """The path, with a number if a damaged file has it: collections may have segments of equal content."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
