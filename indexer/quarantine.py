"""Damaged segments: set aside, never deleted, never answered from."""

import contextlib

from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import SegmentRow, SegmentState
from nearsay.indexer.store import Store

__all__ = ["quarantine"]


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
            path.replace(store.quarantine / path.name)
    return True
