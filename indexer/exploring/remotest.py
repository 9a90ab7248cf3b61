"""The passages that are farthest from all others, found exactly without comparing all with all.

Each passage's score is the mean cosine to its k nearest passages of other documents, low where there is
nothing like it: the weight of Angiulli & Pizzuti 2002, "Fast outlier detection in high dimensional spaces", a
smoother kin of the distance to the k-th (Ramaswamy, Rastogi & Shim 2000). The k nearest among some passages
give a bound that the score cannot lie below, so most passages are out after a few looks: Bay & Schwabacher
2003, "Mining distance-based outliers in near linear time with randomization and a simple pruning rule".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.report import Report
from nearsay.indexer.catalogue.passages import PassageRow, documents_of
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Explored, Points
from nearsay.indexer.neighbours.shown import (
    Near,
    Shown,
    ShownPassage,
    checked_count,
    nothing_there,
    removed_meanwhile,
    rows_of,
)
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["RemotePassage", "highest_cosines", "outliers", "remote_passages", "remotest"]


REFERENCES = 4096  # passages compared with at a time
_ROWS = 1024  # passages compared at a time: with the references above 16 MB of products
_NONE = -2.0  # below every cosine: there is none yet


def highest_cosines(
    points: Points,
    places: NDArray[np.int64],
    references: NDArray[np.int64],
    documents: NDArray[np.int64],
    best: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Each passage's highest cosines with references of other documents, those known before among them.

    places:     (m,) of the passages
    references: (r,) places, none of which was compared with before
    documents:  (n,) by place: a passage's own document is left out
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
_TAKEN = 256  # passages, the most promising ones, that are compared with everything at a time
_MARGIN = 2e-5  # by which float32 products may mislead; what lies nearer to the limit is looked at once more
_DIGITS = 6  # of a score that are told: beyond them the order of a sum shows
_NAMED = 8  # nearest passages of each that are told, k where that is more


@dataclass(frozen=True, slots=True)
class Remote:
    """A passage that is far from others."""

    place: int
    score: float  # the mean cosine to its k nearest, to six digits
    nearest: tuple[tuple[int, float], ...]  # places and cosines of the nearest, nearest first


@dataclass(frozen=True, slots=True)
class Remotest:
    """The farthest, and what they were measured by."""

    found: tuple[Remote, ...]  # by rising score; more than asked for where the last tie
    neighbours: int  # the k that was used: fewer where fewer passages are of other documents


def remotest(
    points: Points,
    documents: NDArray[np.int64],
    count: int,
    neighbours: int,
    *,
    places: NDArray[np.int64] | None = None,
    references: NDArray[np.int64] | None = None,
    listener: ProgressListener = unheard,
) -> Remotest:
    """The `count` passages with the lowest mean cosine to their nearest of other documents; exact.

    documents:  (n,) the number of each passage's document, by place
    places:     those that are asked about, None = all
    references: those that they are compared with, None = all

    BadInputError if some passage has none to be compared with. Memory: 4 bytes for each passage and
    neighbour, beside some 50 MB.
    """
    every = np.arange(len(points), dtype=np.int64)
    asked = every if places is None else places
    among = every if references is None else references
    k = min(neighbours, _fewest_others(documents, asked, among))
    if k < 1:
        raise BadInputError(
            "there is nothing to compare with: all passages are of one document. "
            "Add others, or widen the filter"
        )
    # Which come first only decides how soon the work is done.
    drawn = np.random.default_rng(0).permutation(among)
    seen = min(_FIRST, drawn.size)
    best = np.full((asked.size, k), -2.0, dtype=np.float32)
    for begin in range(0, asked.size, REFERENCES):
        part = slice(begin, begin + REFERENCES)
        best[part] = highest_cosines(points, asked[part], drawn[:seen], documents, best[part])
        listener(Progress(min(asked.size, part.stop), asked.size, "comparing with a few", "passages"))
    open_ = np.arange(asked.size)  # rows of `best` that may be among the farthest still
    done: list[NDArray[np.int64]] = []
    scores = np.zeros(0, dtype=np.float32)
    while open_.size:
        open_ = open_[np.argsort(best[open_].mean(axis=1), kind="stable")]
        taken, open_ = (open_, open_[:0]) if seen == drawn.size else (open_[:_TAKEN], open_[_TAKEN:])
        best[taken] = highest_cosines(points, asked[taken], drawn[seen:], documents, best[taken])
        done.append(taken)
        scores = np.concatenate([scores, best[taken].mean(axis=1)])
        limit = np.partition(scores, count - 1)[count - 1] if scores.size >= count else np.inf
        open_ = open_[best[open_].mean(axis=1) <= limit + _MARGIN]
        if open_.size and seen < drawn.size:  # as much work on narrowing as on deciding
            more = min(drawn.size - seen, max(_FIRST, _TAKEN * drawn.size // open_.size))
            best[open_] = highest_cosines(
                points, asked[open_], drawn[seen : seen + more], documents, best[open_]
            )
            # Those that are decided saw everything; the rest goes on from here.
            seen += more
            open_ = open_[best[open_].mean(axis=1) <= limit + _MARGIN]
        listener(Progress(asked.size - open_.size, asked.size, "comparing with all", "passages"))
    order = np.concatenate(done) if done else np.zeros(0, dtype=np.int64)
    limit = np.partition(scores, count - 1)[count - 1] if scores.size >= count else np.inf
    last = asked[np.sort(order[scores <= limit + _MARGIN])]
    return Remotest(_decided(points, documents, last, among, k), k)


def _fewest_others(documents: NDArray[np.int64], asked: NDArray[np.int64], among: NDArray[np.int64]) -> int:
    """How many passages each of those asked about can be compared with at least."""
    if not asked.size:
        return int(among.size)
    names, counts = np.unique(documents[among], return_counts=True)
    if not names.size:
        return 0
    own = documents[asked]
    at = np.minimum(np.searchsorted(names, own), names.size - 1)
    return int(among.size - np.where(names[at] == own, counts[at], 0).max())


def _decided(
    points: Points,
    documents: NDArray[np.int64],
    places: NDArray[np.int64],
    among: NDArray[np.int64],
    k: int,
) -> tuple[Remote, ...]:
    """Scores in float64, which says the same wherever a row stands in a product."""
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
    """A passage unlike those that it was compared with; `score` is the mean cosine to its nearest of them."""

    REPORT: ClassVar = "unlike passage"

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
        RemotePassage.of(row, rank, far.score, nearest=_nearest(points, far, rows))
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


NEIGHBOURS = 10  # so many alike are a small topic of their own and no longer outliers


def outliers(
    explored: Explored,
    count: int = 20,
    where: Where | None = None,
    *,
    progress: ProgressListener = unheard,
) -> Shown[RemotePassage]:
    """The passages that are least like any of another document, the loneliest first; exact.

    They have the lowest mean cosine to their ten nearest of other documents. Passages of the same document
    are no company, nor are those that the filter keeps out. BadInputError if all passages are of one
    document.
    """
    checked_count(count)
    snapshot = explored.snapshot()
    points = explored.points(snapshot, where)
    if not len(points):
        return Shown((), 0, (nothing_there(explored, where),))
    with explored.store.database.reading() as connection:
        documents = documents_of(connection, snapshot.collection.id, points.ids)
    measured = remotest(points, documents, count, NEIGHBOURS, listener=progress)
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
