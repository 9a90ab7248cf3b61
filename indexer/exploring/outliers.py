"""The passages that are least like anything else in a collection."""

from nearsay.indexer.catalogue.passage_documents import documents_of
from nearsay.indexer.exploring.remote_passage import RemotePassage, remote_passages
from nearsay.indexer.exploring.remotest import remotest
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.neighbours.shown import Shown, checked_count, nothing_there, removed_meanwhile
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["NEIGHBOURS", "outliers"]

NEIGHBOURS = 10  # so many alike are a small topic of their own and no longer outliers


def outliers(
    explored: Explored,
    count: int = 20,
    where: Where | None = None,
    *,
    listener: ProgressListener = unheard,
) -> Shown[RemotePassage]:
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
    shown = remote_passages(explored, snapshot, points, measured.found, count)
    gone = removed_meanwhile(min(count, len(points)), len(shown))
    return Shown(shown, len(points), (*_notes(measured.neighbours, count, len(points)), *gone))


def _notes(neighbours: int, count: int, looked_at: int) -> tuple[str, ...]:
    few = neighbours < NEIGHBOURS
    return (
        *(
            (f"{looked_at} of the {count} asked for: there are only {looked_at} passages",)
            * (looked_at < count)
        ),
        *((f"only {neighbours} passages of other documents to compare each with",) if few else ()),
    )
