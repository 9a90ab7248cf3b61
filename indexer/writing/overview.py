"""What a collection holds, at one look."""

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

__all__ = ["CollectionOverview", "overview"]


@dataclass(frozen=True, slots=True)
class CollectionOverview:
    """A collection's sizes, generations and segments."""

    name: str
    documents: int
    passages: int
    waiting: int  # passages that have no vector in the live generation
    removed: int  # passages that are gone but still in segments: `compact` drops them
    chunking: str
    fields: tuple[str, ...]  # metadata fields of the first thousand documents
    clusters: int | None  # that the live generation is in; None: it was never clustered
    unclustered: int  # passages that came since
    created_at: str
    generations: tuple[GenerationRow, ...]
    segments: tuple[SegmentRow, ...]
    gate: GateRow | None  # for near-duplicates that come in
    linked: int  # near-duplicates that it linked

    @property
    def live(self) -> GenerationRow | None:
        """The generation that answers."""
        return next((row for row in self.generations if row.state is GenerationState.LIVE), None)

    @property
    def indexes(self) -> tuple[SegmentRow, ...]:
        """The indexes of the live generation."""
        return tuple(row for row in self._of_live if row.kind is SegmentKind.INDEX)

    @property
    def unindexed(self) -> int:
        """Vectors of the live generation that are newer than its indexes: each search compares them all."""
        rows = self._of_live
        through = max((row.last_passage for row in rows if row.kind is SegmentKind.INDEX), default=0)
        return sum(
            row.count for row in rows if row.kind is SegmentKind.VECTORS and row.last_passage > through
        )

    @property
    def _of_live(self) -> tuple[SegmentRow, ...]:
        live = self.live
        return tuple(row for row in self.segments if live is not None and row.generation == live.number)


def overview(store: Store, collection: CollectionRow) -> CollectionOverview:
    """One consistent look at a collection."""
    with store.database.reading() as connection:
        document_count, passage_count = collections.size(connection, collection.id)
        every = generations.all_of(connection, collection.id)
        live = generations.live(connection, collection.id)
        removed = count_of(connection, removed_passages, removed_passages.c.collection_id == collection.id)
        clustering = clusterings.of_live(connection, collection.id)
        of_it = passages.c.collection_id == collection.id
        return CollectionOverview(
            name=collection.name,
            documents=document_count,
            passages=passage_count,
            waiting=passage_count if live is None else ranges.unembedded(connection, live),
            removed=removed,
            chunking=collection.chunking,
            fields=tuple(documents.fields_seen(connection, collection.id)),
            clusters=None if clustering is None else clusterings.count(connection, clustering.id),
            unclustered=0
            if clustering is None
            else count_of(connection, passages, of_it, passages.c.number > clustering.through),
            created_at=collection.created_at,
            generations=tuple(every),
            segments=tuple(generations.segments_of(connection, collection.id)),
            gate=near_duplicates.gate_of(connection, collection.id),
            linked=len(near_duplicates.linked_numbers(connection, collection.id)),
        )
