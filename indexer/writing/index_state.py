"""The vectors and indexes of a generation at one moment, and its passages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import generations, passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.plans.plan import GROUP_SHARE, RETUNE_AT, TAIL, TAIL_SHARE, Plan
from nearsay.indexer.snapshots.quarantine import open_all
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.vectors.vector_store import VectorStore

_LARGE = 500_000_000  # bytes of vectors: of more, mapped pages are given back after each pass


@dataclass(frozen=True, slots=True)
class IndexState:
    """A generation's plan and files at one moment: its indexes, and what they do not cover."""

    plan: Plan
    vectors: list[SegmentRow]
    indexes: list[SegmentRow]

    @property
    def stored(self) -> int:
        """Number of stored vectors, including those of removed passages."""
        return sum(row.count for row in self.vectors)

    @property
    def indexed(self) -> bool:
        return bool(self.indexes) and all(row.state is SegmentState.CURRENT for row in self.indexes)

    @property
    def one_of_all(self) -> bool:
        """Whether one index covers everything."""
        return self.indexed and len(self.indexes) == 1 and self.through >= self.newest

    @property
    def newest(self) -> int:
        """The last passage that has a vector."""
        return max((row.last_passage for row in self.vectors), default=0)

    @property
    def through(self) -> int:
        """The last passage that an index covers."""
        return max((row.last_passage for row in self.indexes), default=0)

    def after(self, passage: int) -> list[SegmentRow]:
        """The files with vectors of later passages."""
        return [row for row in self.vectors if row.last_passage > passage]

    def enough(self, store: Store) -> float:
        """Passages without an index are indexed if there are more than this."""
        share = TAIL_SHARE if store.cluster is None else GROUP_SHARE
        return max(TAIL, share * self.held)

    @property
    def held(self) -> int:
        """Passages in the indexes, removed ones included."""
        return sum(row.count for row in self.indexes)

    def mostly_gone(self, living: NDArray[np.int64]) -> bool:
        """Whether most passages in the indexes were removed; they stay in them until these are rebuilt."""
        return self.held > RETUNE_AT * int(np.count_nonzero(living <= self.through))

    @property
    def newer(self) -> int:
        """Number of vectors that no index covers, including those of removed passages."""
        newer = ((row.count, row.last_passage - self.through) for row in self.after(self.through))
        return sum(min(counts) for counts in newer)  # a file that reaches across has so many at most

    @property
    def whole(self) -> bool:
        """Whether no vector segment is in quarantine. A new index would lack its passages for good."""
        return all(row.state is SegmentState.CURRENT for row in self.vectors)


def index_state(store: Store, collection: CollectionRow, generation: GenerationRow) -> IndexState:
    with store.database.reading() as connection:
        now = generations.as_it_is(connection, generation, collection.name)
        rows = generations.segments_of(connection, collection.id, generation.number)
    vectors = [row for row in rows if row.kind is SegmentKind.VECTORS and row.count]
    indexes = [row for row in rows if row.kind is SegmentKind.INDEX]
    indexes.sort(key=lambda row: row.last_passage)
    return IndexState(
        plan=Plan.from_json(now.plan),
        # Above the watermark, passages are still to come between those that have a vector.
        vectors=[row for row in vectors if row.first_passage <= now.embedded_through],
        indexes=indexes,
    )


def living_passages(store: Store, collection: CollectionRow, after: int = 0) -> NDArray[np.int64]:
    """The numbers of the passages after a number; slow if there are many."""
    with store.database.reading() as connection:
        return passages.passage_numbers(connection, collection.id, after=after)


def opened_vectors(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    rows: list[SegmentRow],
    living: NDArray[np.int64],
) -> tuple[VectorStore, NDArray[np.bool_], int]:
    """Open the vectors of files. Returns them, their passages that are not removed, and the last passage."""
    opened = open_all(store, collection, generation, rows, seen=True)
    large = 4 * len(opened) * opened.dimension > _LARGE
    vectors = VectorStore(opened.segments, opened.dimension, gives_back=large)
    through = int(vectors.ids[-1]) if len(vectors) else 0
    alive = np.zeros(through + 1, dtype=np.bool_)
    alive[living[living <= through]] = True
    alive.flags.writeable = False
    return vectors, alive, through
