"""The passages that are least like anything else in a collection."""

from dataclasses import dataclass

from nearsay.indexer.catalogue.passage_documents import documents_of
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.exploring.explored import Explored
from nearsay.indexer.exploring.remotest import Remote, remotest
from nearsay.indexer.exploring.shown import (
    Near,
    Shown,
    ShownPassage,
    checked_count,
    nothing_there,
    removed_meanwhile,
    rows_of,
)
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.progress import ProgressListener, unheard

__all__ = ["NEIGHBOURS", "Outlier", "nearest_of", "outliers"]

NEIGHBOURS = 10  # so many alike are a small topic of their own and no longer outliers


@dataclass(frozen=True, slots=True)
class Outlier(ShownPassage):
    """A passage that is unlike the others; `score` is the mean cosine to its nearest: low, it is alone."""

    nearest: Near | None  # of another document; None if that was removed meanwhile


def outliers(
    explored: Explored,
    count: int = 20,
    where: Where | None = None,
    *,
    listener: ProgressListener = unheard,
) -> Shown[Outlier]:
    """The `count` passages with the lowest mean cosine to their ten nearest of other documents; exact.

    Passages of the same document are no company, nor are those that the filter keeps out. See
    `nearsay.indexer.exploring.remotest`. BadInputError if all passages are of one document.
    """
    checked_count(count)
    snapshot = explored.snapshot()
    points = explored.points(snapshot, where)
    if not len(points):
        return Shown((), 0, (nothing_there(explored, where),))
    with explored.store.database.reading() as connection:
        documents = documents_of(connection, snapshot.collection.id, points.ids)
    measured = remotest(points, documents, count, NEIGHBOURS, listener=listener)
    places = {place for far in measured.found for place in (far.place, *(at for at, _ in far.nearest))}
    rows = rows_of(explored, snapshot, (int(points.ids[place]) for place in places))
    found = [(far, rows[number]) for far in measured.found if (number := _number(points, far.place)) in rows]
    found.sort(key=lambda pair: (pair[0].score, pair[1].document_id, pair[1].ordinal))
    shown = tuple(
        Outlier(
            rank=rank,
            score=far.score,
            id=row.document_id,
            title=row.title,
            text=row.text,
            metadata=row.metadata,
            passage=row.ordinal,
            nearest=nearest_of(points, far, rows),
        )
        for rank, (far, row) in enumerate(found[:count], 1)
    )
    gone = removed_meanwhile(min(count, len(points)), len(shown))
    return Shown(shown, len(points), (*_notes(measured.neighbours, count, len(points)), *gone))


def nearest_of(points: Points, far: Remote, rows: dict[int, PassageRow]) -> Near | None:
    """The nearest passage that is still there; of several just as near the one with the first id."""
    near = [
        (-cosine, rows[number].document_id, rows[number].ordinal, number)
        for place, cosine in far.nearest
        if (number := _number(points, place)) in rows
    ]
    if not near:
        return None
    less, _, _, number = min(near)
    return Near(rows[number].document_id, rows[number].title, rows[number].text, -less)


def _number(points: Points, place: int) -> int:
    return int(points.ids[place])


def _notes(neighbours: int, count: int, looked_at: int) -> tuple[str, ...]:
    few = neighbours < NEIGHBOURS
    return (
        *(
            (f"{looked_at} of the {count} asked for: there are only {looked_at} passages",)
            * (looked_at < count)
        ),
        *((f"only {neighbours} passages of other documents to compare each with",) if few else ()),
    )
