"""Maximal marginal relevance, exact and greedy, without going through all passages for each choice.

What a passage is worth only falls as others are chosen (Minoux 1978, "Accelerated greedy algorithms for
maximizing submodular set functions"), so the best of a pool is the best of all as long as it is worth more
than any outside of the pool was worth when the pool was made.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["Pick", "marginal_relevance"]

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
    pool: int = _POOL,
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
        inside = np.sort(np.argpartition(-worth, min(pool, worth.size) - 1)[:pool])
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
