"""A diverse sample of a collection, or of the passages that answer a query.

Maximal marginal relevance, Carbonell & Goldstein 1998, "The use of MMR, diversity-based reranking for
reordering documents and producing summaries": each step picks the passage with the best weighted difference
of its relevance and its similarity to the passages picked before; `balance` is the weight of relevance.

With a query, relevance is the cosine with it, and passages are picked among its nearest, as in the paper
(distant ones would win by being unlike everything). Without a query, it is the passage's typicality: the mean
cosine to its ten nearest among 1,024 reference passages of other documents, drawn by the hashes of the texts,
so that it depends neither on chance nor on the order of addition.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.indexer.catalogue.passages import by_text
from nearsay.indexer.exploring.unlike import highest_cosines
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import (
    Explored,
    Look,
    Points,
    Shown,
    ShownPassage,
    checked_count,
    removed_meanwhile,
)
from nearsay.indexer.query.search import text_vectors
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

# Marginal relevance only falls as passages are picked (Minoux 1978, "Accelerated greedy algorithms for
# maximizing submodular set functions"). So the best of a pool is the best of all while its value exceeds the
# highest value outside the pool when the pool was formed.
_POOL = 8192  # passages with their vectors in memory: 13 MB at 384 dimensions
_BLOCK = 4096
_TIE = 1e-6  # dot products of the same vectors differ by less
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Pick:
    """A picked passage."""

    place: int
    score: float  # balance x relevance - (1 - balance) x likeness
    relevance: float
    likeness: float | None  # the highest cosine with earlier picks; None for the first


def marginal_relevance(
    points: Points,
    relevance: NDArray[np.float32],
    count: int,
    balance: float,
    *,
    first: Callable[[NDArray[np.int64]], int] = lambda places: int(places[0]),
    listener: ProgressListener = unheard,
) -> list[Pick]:
    """Pick passages greedily and exactly, each the one with the highest

        balance x relevance - (1 - balance) x (highest cosine with earlier picks; 0 for the first)

    relevance: (n,) by place
    first: chooses among places that tie; by default the lowest
    returns: the picks in order

    Memory: about 10 bytes a passage beside the pool. Time: one matrix product over all passages for each
            pool.
    """
    chosen: list[Pick] = []
    closest = np.full(len(points), -np.inf, dtype=np.float32)  # the highest cosine with those chosen
    left = np.ones(len(points), dtype=np.bool_)
    while len(chosen) < min(count, len(points)):
        worth = _worth(relevance, closest if chosen else None, left, balance)
        inside = np.sort(np.argpartition(-worth, min(_POOL, worth.size) - 1)[:_POOL])
        outside = worth.copy()
        outside[inside] = -np.inf
        bound = float(outside.max(initial=-np.inf))
        vectors = points.rows(inside)
        near, since = closest[inside], len(chosen)
        while len(chosen) < min(count, len(points)):
            values = _worth(relevance[inside], near if chosen else None, left[inside], balance)
            best = float(values.max())
            if best == -np.inf or (best < bound + _TIE and len(chosen) > since):
                break  # a passage outside the pool may be better now
            ties = inside[values >= best - _TIE]
            place = int(ties[0]) if ties.size == 1 else first(ties)
            row = int(np.searchsorted(inside, place))
            left[place] = False
            likeness = round(float(near[row]), _DIGITS) if chosen else None
            score = round(float(values[row]) * (1.0 if chosen else balance), _DIGITS)
            chosen.append(Pick(place, score, round(float(relevance[place]), _DIGITS), likeness))
            near = np.maximum(near, vectors @ vectors[row])
            listener(Progress(len(chosen), count, "choosing", "passages"))
        new = points.rows(np.array([pick.place for pick in chosen[since:]], dtype=np.int64))
        if len(chosen) < min(count, len(points)):
            for begin, rows in points.blocks(_BLOCK):
                part = slice(begin, begin + len(rows))
                closest[part] = np.maximum(closest[part], (rows @ new.T).max(axis=1))
    return chosen


def _worth(
    relevance: NDArray[np.float32],
    closest: NDArray[np.float32] | None,
    left: NDArray[np.bool_],
    balance: float,
) -> NDArray[np.float32]:
    # The first pick is the most relevant, even if the weight of relevance is 0.
    value = relevance
    if closest is not None:
        value = np.float32(balance) * relevance - np.float32(1.0 - balance) * closest
    return np.where(left, value, np.float32(-np.inf)).astype(np.float32)


BALANCE: Final = 0.5
_DRAWN = 1024  # reference passages
_NEIGHBOURS = 10
_AMONG = 5  # candidates near to a query for each pick
_LEAST_AMONG = 20


@dataclass(frozen=True, slots=True)
class DiversePassage(ShownPassage, Report):
    """A passage of a diverse sample; `score` is its marginal relevance when it was picked."""

    REPORT: ClassVar = "diverse passage"

    relevance: float  # cosine with the query, or without one the mean cosine to its nearest references
    likeness: float | None  # highest cosine with an earlier pick; None for the first
    stands_for: int  # number of passages, including itself, that are nearer to it than to any other pick


def diverse(
    explored: Explored,
    count: int = 20,
    *,
    query: str | None = None,
    where: Where | None = None,
    balance: float = BALANCE,
    progress: ProgressListener = unheard,
) -> Shown[DiversePassage]:
    """Pick a few passages that represent the collection, or the answers to a query, without repetition.

    balance: 1 = only relevance counts, 0 = only dissimilarity counts

    Raises BadInputError for a balance outside 0 to 1, and for an empty query.
    """
    checked_count(count)
    if not (math.isfinite(balance) and 0.0 <= balance <= 1.0):
        raise BadInputError(f"balance is {balance}. Give a number from 0 (only unlike) to 1 (only relevant)")
    if query is not None and not query.strip():
        raise BadInputError("the query is empty. Write what the passages should be about, or omit it")
    look = explored.look(where)
    points = look.points
    if not len(points):
        return Shown((), 0, look.nothing_there(where))
    notes = look.waiting
    if query is None:
        relevance = _typicality(look, progress)
    else:
        encoder = explored.encoder(look.snapshot.generation)
        vector = text_vectors([query], encoder, look.snapshot)[0]
        everything = len(points)
        points, relevance = _nearest(points, vector, max(_LEAST_AMONG, _AMONG * count))
        look = replace(look, points=points)
        if len(points) < everything:
            among = f"{len(points):,} of {everything:,} passages"
            notes = (*notes, f"chosen among the {among} nearest to the query")
    picks = marginal_relevance(
        points, relevance, count, balance, first=partial(_first_id, look), listener=progress
    )
    shown = _shown(look, picks)
    if len(picks) < count:
        only = counted(len(picks), "passage")
        notes = (*notes, f"{len(picks)} of the {count} asked for: only {only} available")
    return Shown(shown, len(points), (*notes, *removed_meanwhile(len(picks), len(shown))))


def typicality(
    points: Points,
    documents: NDArray[np.int64],
    drawn: NDArray[np.int64],
    *,
    listener: ProgressListener = unheard,
) -> NDArray[np.float32]:
    """Compute each passage's mean cosine to its ten nearest references of other documents; (n,).

    documents: (n,) each passage's document number
    drawn:     places of the references
    returns:   over fewer than ten where there are fewer, 0 where there are none
    """
    found = np.zeros(len(points), dtype=np.float32)
    for begin in range(0, len(points), _BLOCK):
        places = np.arange(begin, min(begin + _BLOCK, len(points)))
        none = np.full((places.size, max(1, min(_NEIGHBOURS, drawn.size))), -2.0, dtype=np.float32)
        best = highest_cosines(points, places, drawn, documents, none)
        there = best >= -1.5
        counts = there.sum(axis=1)
        found[places] = np.where(there, best, 0.0).sum(axis=1) / np.maximum(1, counts)
        listener(Progress(int(places[-1]) + 1, len(points), "comparing passages", "passages"))
    return found


def _typicality(look: Look, listener: ProgressListener) -> NDArray[np.float32]:
    points = look.points
    with look.explored.store.database.reading() as connection:
        there = np.zeros(int(points.ids[-1]) + 1, dtype=np.bool_)
        there[points.ids] = True
        numbers = by_text(connection, look.snapshot.collection.id)
        drawn = list(islice((number for number in numbers if number < there.size and there[number]), _DRAWN))
    places = np.searchsorted(points.ids, np.array(sorted(drawn), dtype=np.int64))
    return typicality(points, look.documents(), places, listener=listener)


def _nearest(points: Points, query: NDArray[np.float32], most: int) -> tuple[Points, NDArray[np.float32]]:
    """The passages nearest to a query by ascending number, in memory, and their cosines; exact."""
    cosines = np.concatenate([rows @ query for _, rows in points.blocks(_BLOCK)])
    places = np.sort(np.argsort(-cosines, kind="stable")[:most])
    return Points.from_array(points.ids[places], points.rows(places)), cosines[places]


def _first_id(look: Look, places: NDArray[np.int64]) -> int:
    """Of places that tie, the one with the first document id."""
    numbers = look.points.ids[places]
    rows = look.rows(numbers)
    by_id = [
        (rows[number].document_id, rows[number].ordinal, place)
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True)
        if number in rows
    ]
    return int(min(by_id)[2] if by_id else places[0])


def _shown(look: Look, picks: list[Pick]) -> tuple[DiversePassage, ...]:
    points = look.points
    numbers = [int(points.ids[pick.place]) for pick in picks]
    rows = look.rows(numbers)
    vectors = points.rows(np.array([pick.place for pick in picks], dtype=np.int64))
    stand = np.zeros(len(picks), dtype=np.int64)
    for _, some in points.blocks(_BLOCK):
        stand += np.bincount((some @ vectors.T).argmax(axis=1), minlength=len(picks))
    there = [(pick, rows[n], int(s)) for pick, n, s in zip(picks, numbers, stand, strict=True) if n in rows]
    return tuple(
        DiversePassage.of(
            row, rank, pick.score, relevance=pick.relevance, likeness=pick.likeness, stands_for=stands_for
        )
        for rank, (pick, row, stands_for) in enumerate(there, 1)
    )
