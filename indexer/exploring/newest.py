"""What came into a collection since a moment: what of it is unlike all before, and where it falls."""

import datetime as dt
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.indexer.catalogue.field_values import added_since
from nearsay.indexer.catalogue.passages import documents_of
from nearsay.indexer.clusters.current import saved_clustering
from nearsay.indexer.clusters.scores import centres, own_cosines
from nearsay.indexer.exploring.dates import document_times, read_date
from nearsay.indexer.exploring.remotest import RemotePassage, remote_passages, remotest
from nearsay.indexer.exploring.through_time import LATER, OUTSIDE, clusters_of_passages
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Explored, Points
from nearsay.indexer.neighbours.shown import checked_count, removed_meanwhile
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["News", "When", "new_since"]


_BLOCK = 4096
_SLACK = 1e-6  # by which two products of the same vectors may differ


def nearest_clusters(
    points: Points, labels: NDArray[np.int32], others: Points, places: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The cluster whose centre is nearest to each passage; -1 if no member is as far from it as the passage.

    points, labels: the passages that were clustered and the clusters' numbers (n,), negative for none
    others, places: those that are asked about, (m,) places among other points
    """
    numbers, codes = np.unique(labels, return_inverse=True)
    inside = numbers >= 0
    numbers = numbers[inside]
    if not numbers.size:
        return np.full(places.size, -1, dtype=np.int32)
    own = (codes - np.count_nonzero(~inside)).astype(np.int32)
    own[own < 0] = -1
    middles = centres(points, own)
    members = own >= 0
    farthest = np.full(numbers.size, np.inf, dtype=np.float32)
    np.minimum.at(farthest, own[members], own_cosines(points, own, middles)[members])
    found = np.full(places.size, -1, dtype=np.int32)
    for begin in range(0, places.size, _BLOCK):
        cosines = others.rows(places[begin : begin + _BLOCK]) @ middles.T
        best = cosines.argmax(axis=1)
        near = cosines[np.arange(best.size), best] >= farthest[best] - _SLACK
        found[begin : begin + best.size] = np.where(near, numbers[best], -1)
    return found


When = str | dt.date | dt.datetime


@dataclass(frozen=True, slots=True)
class NewInCluster:
    """How much of a cluster is new."""

    number: int | None  # None: in no cluster
    name: str
    new: int  # passages
    before: int  # older passages
    share_of_new: float  # of all new passages
    share_before: float  # of all older passages


@dataclass(frozen=True, slots=True)
class News(Report):
    """What is new since a moment."""

    REPORT: ClassVar = "news"

    since: str  # ISO 8601
    field: str  # whose date decides; "added": when the documents were added
    documents: int  # new ones
    passages: int  # of them
    older_documents: int
    older_passages: int
    unlike: tuple[RemotePassage, ...]  # the new passages least like any older one, the most unlike first
    clusters: tuple[NewInCluster, ...]  # with something new, by falling share; none without a clustering
    notes: tuple[str, ...]


def new_since(
    explored: Explored,
    when: When,
    field: str | None = None,
    *,
    count: int = 20,
    where: Where | None = None,
    progress: ProgressListener = unheard,
) -> News:
    """What came since a moment: the passages unlike everything before, and the clusters they fall into.

    when:  a day, a moment, or as text 2026, 2026-11, 2026-11-01, 2026-11-01T08:00; without a zone in UTC
    field: of the metadata, whose dates decide, by the day; None = when they were added (not: changed)

    A new passage is as unlike what was before as its nearest older passage is far, found exactly. Passages
    that came after the clustering are counted to the cluster whose centre is nearest, if they are as near to
    it as its farthest passage. BadInputError for a moment that cannot be read, or a field without any date.
    """
    checked_count(count)
    moment = read_moment(when)
    if field is not None:  # what metadata holds is read by the day
        moment = _midnight(moment.date())
    snapshot = explored.snapshot()
    points = explored.points(snapshot, where)
    documents, age, notes = _ages(explored, snapshot, points, moment, field)
    new, old = np.flatnonzero(age > 0), np.flatnonzero(age < 0)
    unlike = _unlike(explored, snapshot, points, documents, (new, old), count, progress)
    if new.size and not old.size:
        notes = (*notes, "everything is new: there is nothing older to compare with")
    if not new.size:
        notes = (*notes, f"nothing is new since {_told(moment)}")
    if old.size:
        notes = (*notes, *removed_meanwhile(min(count, new.size), len(unlike)))
    clusters, said = _clusters(explored, snapshot, points, new, old)
    return News(
        since=_told(moment),
        field=field or "added",
        documents=np.unique(documents[new]).size,
        passages=new.size,
        older_documents=np.unique(documents[old]).size,
        older_passages=old.size,
        unlike=unlike,
        clusters=clusters,
        notes=(*notes, *said),
    )


def read_moment(when: When) -> dt.datetime:
    """The beginning of what is meant, in UTC; BadInputError if it is no date."""
    if isinstance(when, str) and read_date(when) is None:
        raise BadInputError(f"'{when}' is not a date. Write it as 2026-11-01, or 2026-11-01T08:00")
    if isinstance(when, str):
        text = when.strip()
        has_time = "T" in text or " " in text or ":" in text
        if has_time and "W" not in text:
            return _in_utc(dt.datetime.fromisoformat(text))
        dated = read_date(text)
        return _midnight(dated.first if dated is not None else dt.date.min)
    if isinstance(when, dt.datetime):
        return _in_utc(when)
    if not isinstance(when, dt.date):
        raise BadInputError(f"{when!r} is neither text nor a date. Write it as '2026-11-01'")
    return _midnight(when)


def _ages(
    explored: Explored, snapshot: Snapshot, points: Points, moment: dt.datetime, field: str | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Each passage's document, and whether it is new (1), older (-1) or neither (0); what has to be said."""
    with explored.store.database.reading() as connection:
        documents = documents_of(connection, snapshot.collection.id, points.ids)
        numbers = np.unique(documents)
        ages: NDArray[np.int64]
        notes: tuple[str, ...] = ()
        if field is None:
            since = moment.astimezone(dt.UTC).isoformat(timespec="seconds")
            ages = np.where(np.isin(numbers, added_since(connection, snapshot.collection.id, since)), 1, -1)
        else:
            times = document_times(connection, snapshot.collection.id, field, numbers)
            if numbers.size:
                times.require_some()
            day = moment.date()
            of_date = [1 if each.first >= day else -1 if each.last < day else 0 for each in times.dates]
            ages = np.array([*of_date, 0, 0], dtype=np.int64)[times.codes]
            unsure = int(np.count_nonzero((ages == 0) & (times.codes >= 0)))
            notes = times.notes()
            if unsure:
                found = counted(unsure, "document")
                notes = (*notes, f"{field} may be before {day} or after it, and not counted: {found}")
    return documents, ages[np.searchsorted(numbers, documents)], notes


def _unlike(
    explored: Explored,
    snapshot: Snapshot,
    points: Points,
    documents: NDArray[np.int64],
    sides: tuple[NDArray[np.int64], NDArray[np.int64]],
    count: int,
    listener: ProgressListener,
) -> tuple[RemotePassage, ...]:
    new, old = sides
    if not new.size or not old.size:
        return ()
    measured = remotest(points, documents, count, 1, places=new, references=old, listener=listener)
    return remote_passages(explored, snapshot, points, measured.found, count)


def _clusters(
    explored: Explored,
    snapshot: Snapshot,
    points: Points,
    new: NDArray[np.int64],
    old: NDArray[np.int64],
) -> tuple[tuple[NewInCluster, ...], tuple[str, ...]]:
    saved = saved_clustering(explored)
    if saved is None:
        return (), (f"not put into clusters yet. Do: nearsay explore clusters {explored.name}",)
    if not new.size:
        return (), ()
    labels = clusters_of_passages(saved, points.ids)
    counted = np.sort(np.concatenate([new, old]))
    later = counted[labels[counted] == LATER]
    notes: tuple[str, ...] = ()
    if later.size:
        every = Points.of(snapshot)  # a filter must not move the centres
        labels[later] = nearest_clusters(every, clusters_of_passages(saved, every.ids), points, later)
        notes = (
            f"counted to the cluster with the nearest centre, being newer than it: {later.size:,} passages",
        )
    found = []
    for number in np.unique(labels[new]).tolist():
        here, before = int((labels[new] == number).sum()), int((labels[old] == number).sum())
        found.append(
            NewInCluster(
                number=None if number == OUTSIDE else number,
                name="in no cluster" if number == OUTSIDE else saved.names.get(number, str(number)),
                new=here,
                before=before,
                share_of_new=round(here / new.size, 6),
                share_before=round(before / old.size, 6) if old.size else 0.0,
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.new, each.number is None, each.number or 0))), notes


def _told(moment: dt.datetime) -> str:
    midnight = moment.timetz() == dt.time(tzinfo=dt.UTC)
    return moment.date().isoformat() if midnight else moment.isoformat(timespec="seconds")


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
