"""The passages farthest from all others, found exactly without comparing all with all.

A passage's score is the mean cosine to its k nearest passages of other documents: the weight of Angiulli &
Pizzuti 2002, "Fast outlier detection in high dimensional spaces", smoother than the distance to the k-th
neighbour (Ramaswamy, Rastogi & Shim 2000). The k nearest among a few references give a lower bound of the
score, which rules out most passages early: Bay & Schwabacher 2003, "Mining distance-based outliers in near
linear time with randomization and a simple pruning rule".
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.indexer.catalogue.field_values import added_since
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.clusters.current import saved_clustering
from nearsay.indexer.clusters.scores import ROUNDING, centres, nearest_centre, own_cosines
from nearsay.indexer.exploring.dates import document_times, read_date
from nearsay.indexer.exploring.through_time import LATER, OUTSIDE, clusters_of_passages
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import (
    Distinct,
    Explored,
    Look,
    Near,
    Points,
    Shown,
    ShownPassage,
    checked_count,
    removed_meanwhile,
)
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

REFERENCES = 4096  # in a block
_ROWS = 1024  # passages in a block: with the references above 16 MB of products
_NONE = -2.0  # below every cosine: no neighbour yet


def highest_cosines(
    points: Points,
    places: NDArray[np.int64],
    references: NDArray[np.int64],
    documents: NDArray[np.int64],
    best: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Update each passage's highest cosines with references of other documents.

    places:     (m,) of the passages
    references: (r,) places that none of them was compared with before
    documents:  (n,) document numbers by place; references of a passage's own document are skipped
    best:       (m, k) the highest so far in any order, below -1 where there are none yet
    returns:    (m, k) in any order
    """
    k = best.shape[1]
    found = best.copy()
    for start in range(0, references.size, REFERENCES):
        others = np.sort(references[start : start + REFERENCES])
        vectors = points.rows(others)
        for begin in range(0, places.size, _ROWS):
            part = slice(begin, begin + _ROWS)
            products = points.rows(places[part]) @ vectors.T
            products[documents[places[part], None] == documents[None, others]] = _NONE
            both = np.concatenate([found[part], products], axis=1)
            found[part] = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
    return found


_FIRST = 2048  # references that every passage is compared with
_TAKEN = 256  # most promising passages that are compared with everything at a time
_MARGIN = 2e-5  # possible error of float32 products; closer scores are computed again
_DIGITS = 6  # of a reported score: further digits depend on the order of summation
_NAMED = 8  # nearest passages to report, or k if larger
_MOST_TIED = 1024  # rows that can only tie with the last; of more, the first


@dataclass(frozen=True, slots=True)
class Remote:
    """A passage far from others."""

    place: int
    score: float  # the mean cosine to its k nearest, rounded to six digits
    nearest: tuple[tuple[int, float], ...]  # places and cosines of the nearest, nearest first


def remotest(
    points: Points,
    documents: NDArray[np.int64],
    count: int,
    neighbours: int,
    *,
    places: NDArray[np.int64] | None = None,
    references: NDArray[np.int64] | None = None,
    listener: ProgressListener = unheard,
) -> tuple[tuple[Remote, ...], int]:
    """Find the `count` passages with the lowest mean cosine to their nearest of other documents, exactly.

    documents:  (n,) document numbers by place
    neighbours: k
    places:     the passages to score, None = all
    references: the passages to compare them with, None = all
    returns:    by ascending score; and k, lowered to the number of passages of other documents

    All passages that tie with the last are returned; of more than a thousand, the first. Raises BadInputError
    if a passage has no reference of another document. Memory: 4 bytes for each passage and neighbour, beside
    about 50 MB.
    """
    every = np.arange(len(points), dtype=np.int64)
    targets = every if places is None else places
    among = every if references is None else references
    k = min(neighbours, _fewest_others(documents, targets, among))
    if k < 1:
        raise BadInputError(
            "there is nothing to compare with: all passages are of one document. "
            "Add documents, or widen the filter"
        )
    # The order only affects the time: first one copy of each distinct vector, then the next.
    drawn = np.random.default_rng(0).permutation(among)
    drawn = drawn[np.argsort(Distinct.of(points).rank[drawn], kind="stable")]
    seen = min(_FIRST, drawn.size)
    best = np.full((targets.size, k), -2.0, dtype=np.float32)
    for begin in range(0, targets.size, REFERENCES):
        part = slice(begin, begin + REFERENCES)
        best[part] = highest_cosines(points, targets[part], drawn[:seen], documents, best[part])
        listener(Progress(min(targets.size, part.stop), targets.size, "comparing with a few", "passages"))
    open_ = np.arange(targets.size)  # rows of `best` that may still be among the farthest
    done: list[NDArray[np.int64]] = []
    scores = np.zeros(0, dtype=np.float32)
    while open_.size:
        open_ = open_[np.argsort(best[open_].mean(axis=1), kind="stable")]
        taken, open_ = (open_, open_[:0]) if seen == drawn.size else (open_[:_TAKEN], open_[_TAKEN:])
        best[taken] = highest_cosines(points, targets[taken], drawn[seen:], documents, best[taken])
        done.append(taken)
        scores = np.concatenate([scores, best[taken].mean(axis=1)])
        limit = np.partition(scores, count - 1)[count - 1] if scores.size >= count else np.inf
        open_ = _still_open(open_, best, limit)
        if open_.size and seen < drawn.size:  # as much work for narrowing as for deciding
            more = min(drawn.size - seen, max(_FIRST, _TAKEN * drawn.size // open_.size))
            best[open_] = highest_cosines(
                points, targets[open_], drawn[seen : seen + more], documents, best[open_]
            )
            # Decided rows were compared with everything; the others continue from here.
            seen += more
            open_ = _still_open(open_, best, limit)
        listener(Progress(targets.size - open_.size, targets.size, "comparing with all", "passages"))
    order = np.concatenate(done) if done else np.zeros(0, dtype=np.int64)
    limit = np.partition(scores, count - 1)[count - 1] if scores.size >= count else np.inf
    last = targets[np.sort(order[scores <= limit + _MARGIN])]
    return _decided(points, documents, last, among, k), k


def _still_open(open_: NDArray[np.int64], best: NDArray[np.float32], limit: float) -> NDArray[np.int64]:
    """The rows whose score may still be among the lowest; of those that can only tie, the first few."""
    open_ = np.sort(open_)
    bounds = best[open_].mean(axis=1)  # a score is no lower
    kept = bounds <= limit + _MARGIN
    kept[np.flatnonzero(kept & (bounds >= limit - _MARGIN))[_MOST_TIED:]] = False
    some: NDArray[np.int64] = open_[kept]
    return some


def _fewest_others(documents: NDArray[np.int64], targets: NDArray[np.int64], among: NDArray[np.int64]) -> int:
    """The smallest number of references of other documents that a passage has."""
    if not targets.size:
        return int(among.size)
    names, counts = np.unique(documents[among], return_counts=True)
    if not names.size:
        return 0
    own = documents[targets]
    at = np.minimum(np.searchsorted(names, own), names.size - 1)
    return int(among.size - np.where(names[at] == own, counts[at], 0).max())


def _decided(
    points: Points,
    documents: NDArray[np.int64],
    places: NDArray[np.int64],
    among: NDArray[np.int64],
    k: int,
) -> tuple[Remote, ...]:
    """Score places in float64, so that the result does not depend on a row's position in a matrix product."""
    found: list[Remote] = []
    width = max(k, _NAMED)
    for begin in range(0, places.size, _TAKEN):
        some = places[begin : begin + _TAKEN]
        rows = points.rows(some).astype(np.float64)
        best = np.full((some.size, width), -2.0)
        nearest = np.full((some.size, width), -1, dtype=np.int64)
        for start in range(0, among.size, REFERENCES):
            others = among[start : start + REFERENCES]
            products = rows @ points.rows(others).astype(np.float64).T
            products[documents[some, None] == documents[None, others]] = -2.0
            both = np.concatenate([best, products], axis=1)
            which = np.concatenate([nearest, np.broadcast_to(others, products.shape)], axis=1)
            top = np.argpartition(-both, width - 1, axis=1)[:, :width]
            best, nearest = np.take_along_axis(both, top, 1), np.take_along_axis(which, top, 1)
        order = np.lexsort((nearest, -best), axis=1)
        best, nearest = np.take_along_axis(best, order, 1), np.take_along_axis(nearest, order, 1)
        for place, cosines, near in zip(some.tolist(), best.tolist(), nearest.tolist(), strict=True):
            named = tuple((at, round(c, _DIGITS)) for at, c in zip(near, cosines, strict=True) if c >= -1.5)
            found.append(Remote(place, round(sum(cosines[:k]) / k, _DIGITS), named))
    return tuple(sorted(found, key=lambda remote: (remote.score, remote.place)))


@dataclass(frozen=True, slots=True)
class RemotePassage(ShownPassage, Report):
    """A passage unlike its references; `score` is the mean cosine to the nearest of them."""

    REPORT: ClassVar = "unlike passage"

    nearest: Near | None  # None if it has been removed since


def remote_passages(look: Look, found: Sequence[Remote], count: int) -> tuple[RemotePassage, ...]:
    """The first `count` that still exist, by ascending score; ties by their documents' ids."""
    places = {place for far in found for place in (far.place, *(at for at, _ in far.nearest))}
    ids = look.points.ids
    rows = look.rows(int(ids[place]) for place in places)
    there = [(far, rows[number]) for far in found if (number := int(ids[far.place])) in rows]
    there.sort(key=lambda pair: (pair[0].score, pair[1].document_id, pair[1].ordinal))
    return tuple(
        RemotePassage.of(row, rank, far.score, nearest=_nearest(look.points, far, rows))
        for rank, (far, row) in enumerate(there[:count], 1)
    )


def _nearest(points: Points, far: Remote, rows: Mapping[int, PassageRow]) -> Near | None:
    """The nearest passage that still exists; of several equally near the one with the first id."""
    near = [
        (-cosine, rows[number].document_id, rows[number].ordinal, number)
        for place, cosine in far.nearest
        if (number := int(points.ids[place])) in rows
    ]
    if not near:
        return None
    less, _, _, number = min(near)
    return Near(rows[number].document_id, rows[number].title, rows[number].text, -less)


NEIGHBOURS = 10  # this many similar passages are a small topic and no outliers


def outliers(
    explored: Explored,
    count: int = 20,
    where: Where | None = None,
    *,
    progress: ProgressListener = unheard,
) -> Shown[RemotePassage]:
    """Find the passages with the lowest mean cosine to their ten nearest of other documents, lowest first.

    Exact. Passages of the same document and those that do not match the filter are not compared with. Raises
    BadInputError if all passages are of one document.
    """
    checked_count(count)
    look = explored.look(where)
    points = look.points
    if not len(points):
        return Shown((), 0, look.nothing_there(where))
    found, neighbours = remotest(points, look.documents(), count, NEIGHBOURS, listener=progress)
    shown = remote_passages(look, found, count)
    gone = removed_meanwhile(min(count, len(points)), len(shown))
    notes: tuple[str, ...] = ()
    if len(points) < count:
        notes = (f"{len(points)} of the {count} asked for: only {counted(len(points), 'passage')} available",)
    if neighbours < NEIGHBOURS:
        notes += (f"each compared with only {counted(neighbours, 'passage')} of other documents",)
    return Shown(shown, len(points), (*notes, *look.waiting, *gone))


def nearest_clusters(
    points: Points, labels: NDArray[np.int32], others: Points, places: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The cluster whose centre is nearest to each passage; -1 if all its members are nearer to the centre.

    points, labels: the clustered passages and their cluster numbers (n,), negative for outliers
    others, places: the passages to assign, (m,) places in other points
    """
    numbers, codes = np.unique(labels, return_inverse=True)
    own = (codes - np.count_nonzero(numbers < 0)).astype(np.int32)  # below 0: in none
    numbers = numbers[numbers >= 0]
    if not numbers.size:
        return np.full(places.size, -1, dtype=np.int32)
    middles = centres(points, own)
    members = own >= 0
    farthest = np.full(numbers.size, np.inf, dtype=np.float32)
    np.minimum.at(farthest, own[members], own_cosines(points, own, middles)[members])
    best, cosines = nearest_centre(others.some(places), middles)
    return np.where(cosines >= farthest[best] - ROUNDING, numbers[best], -1).astype(np.int32)


When = str | dt.date | dt.datetime


@dataclass(frozen=True, slots=True)
class NewInCluster:
    """The new passages of a cluster."""

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
    field: str  # the date field; "added": the time of addition
    documents: int  # number of new documents
    passages: int  # number of new passages
    older_documents: int
    older_passages: int
    unlike: tuple[RemotePassage, ...]  # the new passages least similar to any older one, lowest score first
    clusters: tuple[NewInCluster, ...]  # by descending number of new passages; empty without a clustering
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
    """Find the new passages unlike all older ones, and count the new passages of each cluster.

    when:  a date, a datetime, or text: 2026, 2026-11, 2026-11-01, 2026-11-01T08:00; UTC without a zone
    field: a metadata field with dates, compared by day; None = the time of addition (not of changes)

    A new passage's score is the cosine to its nearest older passage, found exactly. Passages added after the
    clustering are counted to the cluster with the nearest centre, if they are as near to it as its farthest
    member. Raises BadInputError for an unreadable moment, or a field without any date.
    """
    checked_count(count)
    moment = read_moment(when)
    if field is not None:  # dates in metadata are compared by day
        moment = _midnight(moment.date())
    look = explored.look(where)
    documents, age, notes = _ages(look, moment, field)
    new, old = np.flatnonzero(age > 0), np.flatnonzero(age < 0)
    unlike: tuple[RemotePassage, ...] = ()
    if new.size and old.size:
        found, _ = remotest(look.points, documents, count, 1, places=new, references=old, listener=progress)
        unlike = remote_passages(look, found, count)
    if new.size and not old.size:
        notes = (*notes, "everything is new: there are no older passages to compare with")
    if not new.size:
        notes = (*notes, f"nothing is new since {_iso(moment)}")
    if old.size:
        notes = (*notes, *removed_meanwhile(min(count, new.size), len(unlike)))
    clusters, cluster_notes = _clusters(look, new, old)
    return News(
        since=_iso(moment),
        field=field or "added",
        documents=np.unique(documents[new]).size,
        passages=new.size,
        older_documents=np.unique(documents[old]).size,
        older_passages=old.size,
        unlike=unlike,
        clusters=clusters,
        notes=(*notes, *cluster_notes, *look.waiting),
    )


def read_moment(when: When) -> dt.datetime:
    """The start of a date or period, in UTC; BadInputError if it is not a date."""
    if isinstance(when, str):
        text, dated = when.strip(), read_date(when)
        if dated is None:
            raise BadInputError(f"'{when}' is not a date. Write it as 2026-11-01 or 2026-11-01T08:00")
        if "T" in text or " " in text or ":" in text:  # it has a time
            return _in_utc(dt.datetime.fromisoformat(text))
        return _midnight(dated.first)
    if isinstance(when, dt.datetime):
        try:
            return _in_utc(when)
        except OverflowError:  # in UTC before the year 1, or after 9999
            raise BadInputError(
                f"{when} is not within the years 1 to 9999 in UTC. Give another moment"
            ) from None
    if not isinstance(when, dt.date):
        raise BadInputError(f"{when!r} is neither text nor a date. Give it as '2026-11-01'")
    return _midnight(when)


def _ages(
    look: Look, moment: dt.datetime, field: str | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Each passage's document, and whether it is new (1), older (-1) or uncertain (0); notes."""
    documents, collection = look.documents(), look.snapshot.collection.id
    numbers = np.unique(documents)
    ages: NDArray[np.int64]
    notes: tuple[str, ...] = ()
    with look.explored.store.database.reading() as connection:
        if field is None:
            since = moment.astimezone(dt.UTC).isoformat(timespec="seconds")
            ages = np.where(np.isin(numbers, added_since(connection, collection, since)), 1, -1)
        else:
            times = document_times(connection, collection, field, numbers)
            if numbers.size:
                times.require_some()
            day = moment.date()
            of_date = [1 if each.first >= day else -1 if each.last < day else 0 for each in times.dates]
            ages = np.array([*of_date, 0, 0], dtype=np.int64)[times.codes]
            unsure = int(np.count_nonzero((ages == 0) & (times.codes >= 0)))
            notes = times.notes()
            if unsure:
                found = counted(unsure, "document")
                notes = (*notes, f"not counted: {found} whose {field} may be before {day} or after it")
    return documents, ages[np.searchsorted(numbers, documents)], notes


def _clusters(
    look: Look, new: NDArray[np.int64], old: NDArray[np.int64]
) -> tuple[tuple[NewInCluster, ...], tuple[str, ...]]:
    saved = saved_clustering(look.explored)
    if saved is None:
        return (), (f"not clustered yet. Find clusters: nearsay explore clusters {look.explored.name}",)
    if not new.size:
        return (), ()
    labels = clusters_of_passages(saved, look.points.ids)
    dated = np.sort(np.concatenate([new, old]))
    later = dated[labels[dated] == LATER]
    notes: tuple[str, ...] = ()
    if later.size:
        every = Points.of(look.snapshot)  # centres do not depend on the filter
        labels[later] = nearest_clusters(every, clusters_of_passages(saved, every.ids), look.points, later)
        newer = counted(later.size, "passage")
        notes = (f"added after the clustering, and counted to the cluster with the nearest centre: {newer}",)
    found, names = [], saved.names
    for number in np.unique(labels[new]).tolist():
        here, before = int((labels[new] == number).sum()), int((labels[old] == number).sum())
        found.append(
            NewInCluster(
                number=None if number == OUTSIDE else number,
                name="in no cluster" if number == OUTSIDE else names.get(number, str(number)),
                new=here,
                before=before,
                share_of_new=round(here / new.size, 6),
                share_before=round(before / old.size, 6) if old.size else 0.0,
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.new, each.number is None, each.number or 0))), notes


def _iso(moment: dt.datetime) -> str:
    midnight = moment.timetz() == dt.time(tzinfo=dt.UTC)
    return moment.date().isoformat() if midnight else moment.isoformat(timespec="seconds")


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
