"""Damaged segments: set aside, never deleted, never answered from."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow, SegmentState
from nearsay.indexer.errors import DamagedSegmentError
from nearsay.indexer.segment import SegmentKind, open_index_bytes, open_vectors
from nearsay.indexer.store import Store
from nearsay.indexer.vector_store import VectorStore

__all__ = ["open_all", "quarantine", "quarantine_damaged", "remedy"]


def quarantine(store: Store, collection: CollectionRow, segment: SegmentRow) -> bool:
    """Note in the catalogue that a segment is damaged and move its file aside, as far as rights allow.

    Returns whether the catalogue still has the segment: one that a compaction replaced is not damaged. A
    reader without the right to write only refuses to answer; the next one with it does the rest.
    """
    with store.database.reading() as connection:
        if segment.id not in {row.id for row in generations.segments_of(connection, collection.id)}:
            return False
    with contextlib.suppress(NearsayError):
        with store.database.writing() as connection:
            generations.set_segment_state(connection, segment, SegmentState.QUARANTINED)
            collections.changed(connection, collection.id)
        path = store.segment(collection.id, segment.sha256)
        with contextlib.suppress(OSError):
            store.quarantine.mkdir(parents=True, exist_ok=True)
            path.replace(_free(store.quarantine / path.name))
    return True


def remedy(collection: str, generation: GenerationRow) -> str:
    """What mends a damaged segment of the generation."""
    if generation.state is GenerationState.LIVE:
        return f"Mend it: nearsay index rebuild {collection}"
    if generation.state is GenerationState.RETIRED:
        return f"Go back to it, or drop it: nearsay index compact {collection} --drop-retired"
    return f"Mend it: nearsay index rebuild {collection} --encoder {generation.encoder.source}"


def open_all(
    store: Store, collection: CollectionRow, generation: GenerationRow, rows: Iterable[SegmentRow]
) -> VectorStore:
    """The vectors in a generation's segments; a damaged one is quarantined, then DamagedSegmentError."""
    opened = []
    for row in rows:
        path = store.segment(collection.id, row.sha256)
        try:
            opened.append(open_vectors(path, row.sha256, row.header(generation.encoder)))
        except DamagedSegmentError as error:
            quarantine(store, collection, row)
            raise DamagedSegmentError(
                f"collection '{collection.name}', generation {generation.number}: {error}. "
                f"{remedy(collection.name, generation)}"
            ) from error
    return VectorStore(opened, generation.encoder.dimension)


def quarantine_damaged(
    store: Store, collection: CollectionRow, generation: GenerationRow, rows: Iterable[SegmentRow]
) -> None:
    """Read every segment that counts as sound and put those that are not into quarantine."""
    for row in rows:
        check = open_vectors if row.kind is SegmentKind.VECTORS else open_index_bytes
        try:
            check(store.segment(collection.id, row.sha256), row.sha256, row.header(generation.encoder))
        except DamagedSegmentError:
            quarantine(store, collection, row)


def _free(path: Path) -> Path:
    """The path, numbered if a file damaged earlier is there: collections may hold segments of one content."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
