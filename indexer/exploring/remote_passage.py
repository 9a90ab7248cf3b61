"""A passage that is shown for being unlike others, with the one that is nearest to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.exploring.remotest import Remote
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.neighbours.shown import Near, ShownPassage, rows_of
from nearsay.indexer.snapshots.snapshot import Snapshot

__all__ = ["RemotePassage", "remote_passages"]


@dataclass(frozen=True, slots=True)
class RemotePassage(ShownPassage):
    """A passage unlike those that it was compared with; `score` is the mean cosine to its nearest of them."""

    nearest: Near | None  # None if it was removed meanwhile


def remote_passages(
    explored: Explored, snapshot: Snapshot, points: Points, found: Sequence[Remote], count: int
) -> tuple[RemotePassage, ...]:
    """The first `count` that are still there, by rising score; ties by their documents' ids."""
    places = {place for far in found for place in (far.place, *(at for at, _ in far.nearest))}
    rows = rows_of(explored, snapshot, (int(points.ids[place]) for place in places))
    there = [(far, rows[number]) for far in found if (number := int(points.ids[far.place])) in rows]
    there.sort(key=lambda pair: (pair[0].score, pair[1].document_id, pair[1].ordinal))
    return tuple(
        RemotePassage(
            rank=rank,
            score=far.score,
            id=row.document_id,
            title=row.title,
            text=row.text,
            metadata=row.metadata,
            passage=row.ordinal,
            nearest=_nearest(points, far, rows),
        )
        for rank, (far, row) in enumerate(there[:count], 1)
    )


def _nearest(points: Points, far: Remote, rows: Mapping[int, PassageRow]) -> Near | None:
    """The nearest passage that is still there; of several just as near the one with the first id."""
    near = [
        (-cosine, rows[number].document_id, rows[number].ordinal, number)
        for place, cosine in far.nearest
        if (number := int(points.ids[place])) in rows
    ]
    if not near:
        return None
    less, _, _, number = min(near)
    return Near(rows[number].document_id, rows[number].title, rows[number].text, -less)
