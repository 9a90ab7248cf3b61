"""A few passages from which to get an idea of a whole collection, or of what answers a query.

Maximal marginal relevance, Carbonell & Goldstein 1998, "The use of MMR, diversity-based reranking for
reordering documents and producing summaries": one after the other, that which is most relevant and least like
what was chosen before, `balance` of the one and the rest of the other.

With a query the relevance is its cosine, and passages are chosen among the nearest to it, as in the paper
(the more distant ones would win by being unlike everything). Without one it is how much company a passage
has: the mean cosine to its ten nearest among 1,024 passages of other documents, drawn by the hashes of the
texts, so that neither chance nor the order of adding has a say.
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

# Maximal marginal relevance, exact and greedy, without going through all passages for each choice.
#
# What a passage is worth only falls as others are chosen (Minoux 1978, "Accelerated greedy algorithms for
# maximizing submodular set functions"), so the best of a pool is the best of all as long as it is worth
# more than any outside of the pool was worth when the pool was made.


_POOL = 8192  # passages with their vectors in memory: 13 MB at 384 dimensions
_BLOCK = 4096
_TIE = 1e-6  # products of the same vectors differ by less
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Pick:
    """A passage that was chosen."""

    place: int
    score: float  # balance x relevance - (1 - balance) x likeness
    relevance: float
    likeness: float | None  # the highest cosine with those chosen before; None for the first


def marginal_relevance(
    points: Points,
    relevance: NDArray[np.float32],
    count: int,
    balance: float,
    *,
    first: Callable[[NDArray[np.int64]], int] = lambda places: int(places[0]),
    listener: ProgressListener = unheard,
) -> list[Pick]:
    """The passages chosen, in order: of all that are left the one with the highest

        balance x relevance - (1 - balance) x (highest cosine with those chosen; 0 for the first)

    relevance: (n,) by place; first: which to take of places that tie, the lowest unless it says otherwise.
    Memory: some 10 bytes a passage beside the pool. Time: a matrix product over all passages for each pool,
    and few pools are made.
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
                break  # one outside may be worth more by now
            ties = inside[values >= best - _TIE]
            place = int(ties[0]) if ties.size == 1 else first(ties)
            at = int(np.searchsorted(inside, place))
            left[place] = False
            likeness = round(float(near[at]), _DIGITS) if chosen else None
            score = round(float(values[at]) * (1.0 if chosen else balance), _DIGITS)
            chosen.append(Pick(place, score, round(float(relevance[place]), _DIGITS), likeness))
            near = np.maximum(near, vectors @ vectors[at])
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
    # The first is the most relevant, also where relevance weighs nothing.
    value = relevance
    if closest is not None:
        value = np.float32(balance) * relevance - np.float32(1.0 - balance) * closest
    return np.where(left, value, np.float32(-np.inf)).astype(np.float32)


BALANCE: Final = 0.5
_DRAWN = 1024  # passages whose nearest say how much company another has
_NEIGHBOURS = 10
_AMONG = 5  # passages near to a query for each one that is chosen
_LEAST_AMONG = 20


@dataclass(frozen=True, slots=True)
class DiversePassage(ShownPassage, Report):
    """A passage of a diverse sample; `score` is the marginal relevance that it was chosen by."""

    REPORT: ClassVar = "diverse passage"

    relevance: float  # cosine with the query, or how much company it has
    likeness: float | None  # cosine with the nearest of those chosen before; None for the first
    stands_for: int  # passages, itself among them, that are nearer to it than to the others chosen


def diverse(
    explored: Explored,
    count: int = 20,
    *,
    query: str | None = None,
    where: Where | None = None,
    balance: float = BALANCE,
    progress: ProgressListener = unheard,
) -> Shown[DiversePassage]:
    """A few passages that show what there is, in all or about a query: each unlike those before it.

    balance: 1 = the most relevant, however alike; 0 = the most unlike each other

    BadInputError for a balance beyond these, and for an empty query.
    """
    checked_count(count)
    if not (math.isfinite(balance) and 0.0 <= balance <= 1.0):
        raise BadInputError(f"balance is {balance}. Take a share from 0, only unlike, to 1, only relevant")
    if query is not None and not query.strip():
        raise BadInputError("the query is empty. Write what the passages are to be about, or leave it away")
    look = explored.look(where)
    points = look.points
    if not len(points):
        return Shown((), 0, look.nothing_there(where))
    notes = look.waiting
    if query is None:
        relevance = _company(look, progress)
    else:
        encoder = explored.encoder(look.snapshot.generation)
        vector = text_vectors([query], encoder, look.snapshot)[0]
        everything = len(points)
        points, relevance = _nearest(points, vector, max(_LEAST_AMONG, _AMONG * count))
        look = replace(look, points=points)
        if len(points) < everything:
            notes = (
                *notes,
                f"chosen among the {len(points):,} passages of {everything:,} nearest to the query",
            )
    picks = marginal_relevance(
        points, relevance, count, balance, first=partial(_first_id, look), listener=progress
    )
    shown = _shown(look, picks)
    if len(picks) < count:
        said = f"{len(picks)} of the {count} asked for: only {counted(len(picks), 'passage')} there"
        notes = (*notes, said)
    return Shown(shown, len(points), (*notes, *removed_meanwhile(len(picks), len(shown))))


def company(
    points: Points,
    documents: NDArray[np.int64],
    drawn: NDArray[np.int64],
    *,
    listener: ProgressListener = unheard,
) -> NDArray[np.float32]:
    """Each passage's mean cosine to its nearest among the places drawn, of other documents; (n,).

    documents: (n,) the number of each passage's document. 0 for a passage that has none to be compared with;
    over fewer than ten where there are fewer.
    """
    found = np.zeros(len(points), dtype=np.float32)
    for begin in range(0, len(points), _BLOCK):
        places = np.arange(begin, min(begin + _BLOCK, len(points)))
        none = np.full((places.size, max(1, min(_NEIGHBOURS, drawn.size))), -2.0, dtype=np.float32)
        best = highest_cosines(points, places, drawn, documents, none)
        there = best >= -1.5
        counts = there.sum(axis=1)
        found[places] = np.where(there, best, 0.0).sum(axis=1) / np.maximum(1, counts)
        listener(Progress(int(places[-1]) + 1, len(points), "measuring company", "passages"))
    return found


def _company(look: Look, listener: ProgressListener) -> NDArray[np.float32]:
    points = look.points
    with look.explored.store.database.reading() as connection:
        there = np.zeros(int(points.ids[-1]) + 1, dtype=np.bool_)
        there[points.ids] = True
        numbers = by_text(connection, look.snapshot.collection.id)
        drawn = list(islice((number for number in numbers if number < there.size and there[number]), _DRAWN))
    places = np.searchsorted(points.ids, np.array(sorted(drawn), dtype=np.int64))
    return company(points, look.documents(), places, listener=listener)


def _nearest(points: Points, query: NDArray[np.float32], most: int) -> tuple[Points, NDArray[np.float32]]:
    """The passages nearest to a query, by rising number, in memory, and their cosines; exact."""
    cosines = np.concatenate([rows @ query for _, rows in points.blocks(_BLOCK)])
    places = np.sort(np.argsort(-cosines, kind="stable")[:most])
    return Points.from_array(points.ids[places], points.rows(places)), cosines[places]


def _first_id(look: Look, places: NDArray[np.int64]) -> int:
    """Of passages that tie, the one whose document's id comes first."""
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
