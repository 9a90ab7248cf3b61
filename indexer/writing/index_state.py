"""What indexes a generation has, and what they leave out."""

from dataclasses import dataclass

from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.plans.plan import TAIL, TAIL_SHARE, Plan
from nearsay.indexer.vectors.segment import SegmentKind


@dataclass(frozen=True, slots=True)
class IndexState:
    """A generation's plan and files at one moment."""

    plan: Plan
    vectors: list[SegmentRow]
    indexes: list[SegmentRow]

    @property
    def stored(self) -> int:
        """Vectors there are, those of removed passages included: no fewer than the living."""
        return sum(row.count for row in self.vectors)

    @property
    def indexed(self) -> bool:
        return bool(self.indexes) and all(row.state is SegmentState.CURRENT for row in self.indexes)

    @property
    def one_of_all(self) -> bool:
        """One index covers everything."""
        newest = max((row.last_passage for row in self.vectors), default=0)
        return self.indexed and len(self.indexes) == 1 and self.indexes[0].last_passage >= newest

    @property
    def through(self) -> int:
        """The last passage that an index covers."""
        return max((row.last_passage for row in self.indexes), default=0)

    def after(self, passage: int) -> list[SegmentRow]:
        """The files that have vectors of later passages."""
        return [row for row in self.vectors if row.last_passage > passage]

    @property
    def enough(self) -> float:
        """Of more passages than this that no index covers, they get one of their own."""
        return max(TAIL, TAIL_SHARE * sum(row.count for row in self.indexes))

    @property
    def newer(self) -> int:
        """Vectors that no index covers, those of removed passages included."""
        newer = ((row.count, row.last_passage - self.through) for row in self.after(self.through))
        return sum(min(counts) for counts in newer)  # a file that reaches across has so many at most

    @property
    def whole(self) -> bool:
        """No segment of vectors is in quarantine: its passages would be missing from an index for good."""
        return all(row.state is SegmentState.CURRENT for row in self.vectors)


def index_state(store: Store, collection: CollectionRow, generation: GenerationRow) -> IndexState:
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id, generation.number)
        every = {row.number: row for row in generations.all_of(connection, collection.id)}
    now = every[generation.number]
    vectors = [row for row in rows if row.kind is SegmentKind.VECTORS and row.count]
    indexes = [row for row in rows if row.kind is SegmentKind.INDEX]
    indexes.sort(key=lambda row: row.last_passage)
    return IndexState(
        plan=Plan.from_json(now.plan),
        # Above the watermark, passages are still to come between those that have a vector.
        vectors=[row for row in vectors if row.first_passage <= now.embedded_through],
        indexes=indexes,
    )
