"""An overview of a collection."""

from collections.abc import Iterable
from dataclasses import dataclass

from nearsay.indexer.catalogue import (
    clusterings,
    collections,
    documents,
    generations,
    near_duplicates,
    ranges,
)
from nearsay.indexer.catalogue.bulk import count_of
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow
from nearsay.indexer.catalogue.near_duplicates import GateRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import passages, removed_passages
from nearsay.indexer.vectors.segment import SegmentKind


@dataclass(frozen=True, slots=True)
class CollectionOverview:
    """A collection's sizes, generations and segments."""

    name: str
    documents: int
    passages: int
    waiting: int  # passages without a vector in the live generation
    unindexed: int  # passages with a vector that no index covers; each search compares them all
    removed: int  # removed passages whose vectors are still in segments; `compact` deletes them
    chunking: str
    fields: tuple[str, ...]  # metadata fields of the first thousand documents
    clusters: int | None  # number of clusters of the live generation; None = it was never clustered
    unclustered: int  # passages added since the clustering
    created_at: str
    generations: tuple[GenerationRow, ...]
    segments: tuple[SegmentRow, ...]
    gate: GateRow | None  # check of new documents for near-duplicates
    linked: int  # near-duplicates that it linked

    @property
    def live(self) -> GenerationRow | None:
        """The live generation."""
        return next((row for row in self.generations if row.state is GenerationState.LIVE), None)

    @property
    def indexes(self) -> tuple[SegmentRow, ...]:
        """The indexes of the live generation."""
        return _indexes(self.live, self.segments)


def _indexes(live: GenerationRow | None, segments: Iterable[SegmentRow]) -> tuple[SegmentRow, ...]:
    number = None if live is None else live.number
    return tuple(row for row in segments if row.generation == number and row.kind is SegmentKind.INDEX)


def overview(store: Store, collection: CollectionRow) -> CollectionOverview:
    """Read a collection's overview in one transaction."""
    with store.database.reading() as connection:
        document_count, passage_count = collections.size(connection, collection.id)
        every = generations.all_of(connection, collection.id)
        live = generations.live(connection, collection.id)
        removed = count_of(connection, removed_passages, removed_passages.c.collection_id == collection.id)
        clustering = clusterings.of_live(connection, collection.id)
        of_it = passages.c.collection_id == collection.id
        waiting = passage_count if live is None else ranges.unembedded(connection, live)
        segments = tuple(generations.segments_of(connection, collection.id))
        through = max((row.last_passage for row in _indexes(live, segments)), default=0)
        newer = passage_count
        if through:
            newer = count_of(connection, passages, of_it, passages.c.number > through)
        return CollectionOverview(
            name=collection.name,
            documents=document_count,
            passages=passage_count,
            waiting=waiting,
            unindexed=max(0, newer - waiting),
            removed=removed,
            chunking=collection.chunking,
            fields=tuple(documents.fields_seen(connection, collection.id)),
            clusters=None if clustering is None else clusterings.count(connection, clustering.id),
            unclustered=0
            if clustering is None
            else count_of(connection, passages, of_it, passages.c.number > clustering.through),
            created_at=collection.created_at,
            generations=tuple(every),
            segments=segments,
            gate=near_duplicates.gate_of(connection, collection.id),
            linked=len(near_duplicates.linked_numbers(connection, collection.id)),
        )
