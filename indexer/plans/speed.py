"""How fast a search answers: one query at a time, and many at once."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.engine import faiss_is_installed, one_thread
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import Candidates

__all__ = ["Searcher", "Speed", "Stopwatch", "stopwatch"]

_WARMING: Final = 3  # queries before the clock runs
_TURN: Final = 20  # queries that one searcher answers before it is the next one's turn
_SECONDS: Final = 2.0  # that a searcher may take for its single queries, and as much for its batches
_BATCHES: Final = 3


class Searcher(Protocol):
    """Anything that finds the nearest passages: exact search, or an index at some setting."""

    @property
    def kind(self) -> PlanKind:
        """Its kind of plan."""
        ...

    def search(self, queries: NDArray[np.float32]) -> list[Candidates]:
        """The nearest of each query, (n, d) gives n."""
        ...


@dataclass(frozen=True, slots=True)
class Speed:
    """What the clock said."""

    milliseconds: float  # a query, one at a time on one of FAISS's threads, median
    queries_a_second: float  # many at once on all threads, the best of three batches


class Stopwatch(Protocol):
    """Measures several searchers on the same queries, so that they can be compared."""

    def __call__(self, searchers: Sequence[Searcher], queries: NDArray[np.float32]) -> list[Speed]:
        """One speed a searcher."""
        ...


def stopwatch(searchers: Sequence[Searcher], queries: NDArray[np.float32]) -> list[Speed]:
    """The speed of each searcher, taken in turns: what else the machine does falls on all of them alike.

    queries: (n, d). No searcher is given more than about two seconds for either figure. A single query has
    one thread: more of them help it little, and on a busy machine they only wait for each other.
    """
    singles: list[list[float]] = [[] for _ in searchers]
    with one_thread() if faiss_is_installed() else nullcontext():
        for searcher in searchers:
            for query in queries[:_WARMING]:
                searcher.search(query[None, :])
        for begin in range(0, len(queries), _TURN):
            for searcher, seconds in zip(searchers, singles, strict=True):
                for query in queries[begin : begin + _TURN]:
                    if sum(seconds) < _SECONDS:
                        seconds.append(_seconds(searcher, query[None, :]))
    batches: list[list[float]] = [[] for _ in searchers]
    for _ in range(_BATCHES):
        for searcher, seconds in zip(searchers, batches, strict=True):
            if sum(seconds) < _SECONDS:
                seconds.append(_seconds(searcher, queries))
    return [
        Speed(round(1000 * float(np.median(single)), 4), round(len(queries) / min(batch), 1))
        for single, batch in zip(singles, batches, strict=True)
    ]


def _seconds(searcher: Searcher, queries: NDArray[np.float32]) -> float:
    begin = time.perf_counter()
    searcher.search(queries)
    return max(time.perf_counter() - begin, 1e-9)
