"""What candidates are measured with: queries and exact search's answers to them, searchers, and a clock."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import faiss_is_installed, one_thread
from nearsay.indexer.plans.plan import GpuMeasured, Measured, RecallContract
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore

PROPOSING: Final = 400  # stored vectors that propose a setting
DECIDING: Final = 1000  # and others that decide
LEAST_QUERIES: Final = 10  # of the user's own; `queries_to_show` says how many a recall needs
TIMED: Final = 200  # queries that a speed is taken with
KEEPS: Final = "keeps the contract"  # how the verdict of what does begins
_ONE_SIDED_95: Final = 1.645  # standard deviations
_MISSES: Final = _ONE_SIDED_95**2  # queries that find nothing, as which the unasked count
_AT_ONCE: Final = 400  # queries whose candidates are held together: of 100 each 61 MB at 384 dimensions
_CANDIDATES: Final = 40_000  # whose vectors are copied together: 61 MB at 384 dimensions
_WARMING: Final = 3  # queries before the clock runs
_SECONDS: Final = 2.0  # that a searcher may take for single queries, and as much for batches
_BATCHES: Final = 3


@dataclass(frozen=True, slots=True)
class TrialQueries:
    """Queries and their truth: the `at` nearest of each by exact search, never the query itself."""

    vectors: NDArray[np.float32]  # (n, d), unit length
    own: NDArray[np.int64]  # (n,), the passage that each query is the vector of; -1: of none
    truth: tuple[Candidates, ...]  # n
    at: int

    def __len__(self) -> int:
        return len(self.own)

    @property
    def asked(self) -> int:
        """How many to ask an index for, so that `at` are left without the query itself."""
        return self.at + int(bool(np.any(self.own >= 0)))

    def recalls(self, found: Sequence[Candidates]) -> NDArray[np.float64]:
        """For each query the share of its truth that was found, (n,); what ties with the truth's last counts.

        found: the `asked` nearest of each query, scored as the truth was.
        """
        shares = np.ones(len(self), dtype=np.float64)
        for row, (truth, got) in enumerate(zip(self.truth, found, strict=True)):
            if truth.ids.size:
                scores = got.scores[got.ids != self.own[row]][: self.at]
                shares[row] = np.count_nonzero(scores >= truth.scores[-1]) / truth.ids.size
        return shares

    def parted(self) -> "tuple[TrialQueries, TrialQueries]":
        """Those that propose a setting, and those that decide."""
        cut = len(self) * PROPOSING // (PROPOSING + DECIDING)
        return self.some(slice(cut)), self.some(slice(cut, None))

    def some(self, part: slice) -> "TrialQueries":
        """Some of the queries."""
        return TrialQueries(self.vectors[part], self.own[part], self.truth[part], self.at)


# So many of the nearest of each query (n, d), by exact search.
Nearest: TypeAlias = Callable[[NDArray[np.float32], int], Sequence[Candidates]]


def drawn(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    count: int,
    at: int,
    generator: np.random.Generator,
    after: int = 0,
) -> TrialQueries:
    """So many of the living stored vectors (or all there are), each to find its neighbours but not itself.

    after: only of passages with a higher number
    """
    own, queries = _drawn(vectors, alive, count, generator, after)
    return answered(queries, own, at, _among(vectors, alive))


def held_out(
    vectors: VectorStore, alive: NDArray[np.bool_], count: int, at: int, generator: np.random.Generator
) -> tuple[TrialQueries, NDArray[np.bool_]]:
    """So many of the living stored vectors, none of which is to be found; and who is left to be found.

    returns: the queries, and `alive` without them, read-only
    """
    own, queries = _drawn(vectors, alive, count, generator, 0)
    others = alive.copy()
    others[own] = False
    others.flags.writeable = False
    strangers = np.full(own.size, -1, dtype=np.int64)
    return answered(queries, strangers, at, _among(vectors, others)), others


def given(
    queries: NDArray[np.float32], at: int, generator: np.random.Generator, nearest: Nearest
) -> TrialQueries:
    """The user's own queries (n, d), in an order by chance; BadInputError for fewer than ten."""
    if len(queries) < LEAST_QUERIES:
        raise BadInputError(
            f"{len(queries)} queries are too few to measure recall with. Give {LEAST_QUERIES} or more, "
            "best some hundreds, or none: then stored vectors are taken"
        )
    shuffled = queries[generator.permutation(len(queries))]
    return answered(shuffled, np.full(len(queries), -1, dtype=np.int64), at, nearest)


def _drawn(
    vectors: VectorStore, alive: NDArray[np.bool_], count: int, generator: np.random.Generator, after: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Passage numbers by chance (n,), and their vectors (n, d)."""
    ids = vectors.ids[alive[vectors.ids] & (vectors.ids > after)]
    own = generator.choice(ids, size=min(count, ids.size), replace=False).astype(np.int64)
    order = np.argsort(own)
    queries = np.empty((own.size, vectors.dimension), dtype=np.float32)
    queries[order] = vectors.rows(vectors.positions(own[order]))
    return own, queries


def _among(vectors: VectorStore, alive: NDArray[np.bool_]) -> Nearest:
    return lambda queries, count: vectors.nearest_many(queries, count, alive)


def answered(queries: NDArray[np.float32], own: NDArray[np.int64], at: int, nearest: Nearest) -> TrialQueries:
    """Queries (n, d) with their truth; own: (n,) the passage that each is the vector of, -1 of none."""
    asked = at + int(bool(np.any(own >= 0)))
    truth = []
    for number, near in zip(own, nearest(queries, asked), strict=True):
        others = near.ids != number
        truth.append(Candidates(near.ids[others][:at], near.scores[others][:at]))
    return TrialQueries(queries, own, tuple(truth), at)


def recall_at_least(recalls: NDArray[np.float64]) -> float:
    """The recall that the queries vouch for: the lower end of the mean's one-sided 95 % interval.

    recalls: (n,), each query's share; one query vouches for nothing. The smaller of the normal approximation,
    mean - 1.645 s / sqrt(n), and mean / (1 + 1.645^2 / n): where few queries find the same their spread is
    nothing, which says little of the others. Of queries that all find everything the second is Wilson's lower
    bound of a share (1927, https://doi.org/10.1080/01621459.1927.10502953); Wilson's bound of other means
    takes shares for zeros and ones, which spread more than shares of ten neighbours do.
    """
    if recalls.size < 2:
        return 0.0
    mean = float(recalls.mean())
    spread = float(recalls.std(ddof=1)) / float(np.sqrt(recalls.size))
    return max(0.0, min(mean - _ONE_SIDED_95 * spread, mean / (1 + _MISSES / recalls.size)))


def queries_to_show(recall: float) -> int | None:
    """How many queries vouch for a recall if each finds everything; None if no number does."""
    return None if recall >= 1 else max(2, ceil(_MISSES * recall / (1 - recall)))


def enough_to_show(queries: int, recall: float) -> bool:
    """Whether so many queries could show a recall if all found everything."""
    deciding = queries_to_show(recall)
    return deciding is not None and queries >= _least(deciding)


def refuse_few(queries: int, contract: RecallContract) -> None:
    """BadInputError if so few of the user's queries cannot show the recall, but more could."""
    deciding = queries_to_show(contract.recall)
    if deciding is not None and queries < _least(deciding):
        raise BadInputError(
            f"{queries} queries cannot show {contract}, even if all found everything. "
            f"Give {_least(deciding):,} or more, or none: then stored vectors are taken"
        )


def _least(deciding: int) -> int:
    """How many queries there are in all where so many decide."""
    return ceil(deciding * (PROPOSING + DECIDING) / DECIDING)


@dataclass(frozen=True, slots=True)
class Searcher:
    """Search through an index, or that looks at every living vector."""

    vectors: VectorStore
    alive: NDArray[np.bool_]  # by passage number
    asked: int  # passages for a query
    index: CandidateIndex | None = None  # None: exact search

    def search(self, queries: NDArray[np.float32]) -> list[Candidates]:
        """The nearest of each query, (n, d) gives n."""
        if self.index is None:
            return self.vectors.nearest_many(queries, self.asked, self.alive)
        return self.index.nearest_many(self.vectors, queries, self.asked, self.alive)

    def ready_for(self, queries: NDArray[np.float32]) -> Self:
        """The same, over a copy of just those vectors that it scores for these queries (n, d).

        Where the store gives pages back: some hundred queries have their candidates in most pages of a
        million vectors, the system takes in up to 2 MB for each that is touched, and all of the file would
        lie in memory beside the indexes that are measured. Of other stores the searcher itself, and without
        an index, where everything is read whatever is asked.
        """
        if self.index is None or not self.vectors.gives_back:
            return self
        ids = self.index.proposed(queries, self.asked, self.alive)
        return replace(self, vectors=self.vectors.part(np.unique(ids[ids >= 0])))

    def found(self, queries: NDArray[np.float32]) -> list[Candidates]:
        """What `search` gives, some queries at a time where the store gives pages back."""
        if not self.vectors.gives_back:
            return self.search(queries)
        parts = [queries[begin : begin + _AT_ONCE] for begin in range(0, len(queries), _AT_ONCE)]
        return [one for part in parts for one in self.ready_for(part).search(part)]

    def recalls(self, trial: TrialQueries, factors: Sequence[int]) -> Mapping[int, NDArray[np.float64]]:
        """Recall of each query for each number of candidates, a multiple of k up to the index's own.

        All come from one search: the candidates of a smaller factor are the first of a larger one's.
        """
        assert self.index is not None  # noqa: S101 - for the type checker
        found: dict[int, list[NDArray[np.float64]]] = {factor: [] for factor in factors}
        at_once = max(1, _CANDIDATES // (self.asked * max(factors)))
        for begin in range(0, len(trial), at_once):
            some = trial.some(slice(begin, begin + at_once))
            ids = self.index.proposed(some.vectors, self.asked, self.alive)
            vectors = self.vectors.part(np.unique(ids[ids >= 0])) if self.vectors.gives_back else self.vectors
            for factor in factors:
                first = np.ascontiguousarray(ids[:, : self.asked * factor])
                nearest = self.index.scored(vectors, some.vectors, self.asked, first)
                found[factor].append(some.recalls(nearest))
        return {factor: np.concatenate(recalls) for factor, recalls in found.items()}

    def covered(self, trial: TrialQueries) -> NDArray[np.float64]:
        """Upper bounds of the recall with 1, 2, … probes up to the index's, (probes,).

        They are the shares of the true neighbours whose list is among those that are probed. Where other
        passages tie with the last of these, they may be found instead, and recall may be higher.
        """
        assert self.index is not None  # noqa: S101 - for the type checker
        near = self.index.chosen_lists(trial.vectors)
        assert near is not None  # noqa: S101 - for the type checker
        true, places = np.unique(np.concatenate([one.ids for one in trial.truth]), return_inverse=True)
        nearest = self.index.looking({**self.index.parameters, "probes": 1})
        own = np.empty(true.size, dtype=np.int64)
        for begin in range(0, true.size, _CANDIDATES):
            some = slice(begin, begin + _CANDIDATES)
            found = nearest.chosen_lists(self.vectors.rows(self.vectors.positions(true[some])))
            assert found is not None  # noqa: S101 - for the type checker
            own[some] = found.numbers[:, 0]
        lists = own[places]
        begin, probes = 0, near.numbers.shape[1]
        shares = np.zeros(probes + 1, dtype=np.float64)
        for numbers, one in zip(near.numbers, trial.truth, strict=True):
            shares[0] += int(not one.ids.size)  # nothing to find counts as found
            rank = np.full(self.index.lists, probes)
            rank[numbers] = np.arange(probes)
            np.add.at(shares, rank[lists[begin : begin + one.ids.size]], 1 / max(one.ids.size, 1))
            begin += one.ids.size
        return np.cumsum(shares[:-1]) / max(len(trial), 1)


def judged(
    found: Callable[[NDArray[np.float32]], Sequence[Candidates]],
    proposing: TrialQueries,
    deciding: TrialQueries,
    recall: float,
) -> tuple[NDArray[np.float64], str]:
    """Each query's recall (n,), and why the setting does not keep a recall; empty where it does.

    found: gives what the setting finds of each query (n, d), as many as the trial asks for. Only one that
    reaches the recall with the first queries is asked the others, which decide.
    """
    recalls = proposing.recalls(found(proposing.vectors))
    if recalls.mean() < recall:
        return recalls, below(recall)
    recalls = deciding.recalls(found(deciding.vectors))
    return recalls, "" if recall_at_least(recalls) >= recall else f"cannot be shown to find {recall:g}"


def below(recall: float) -> str:
    """The verdict on a setting that misses a recall."""
    return f"finds less than {recall:g}"


_Row = TypeVar("_Row", Measured, GpuMeasured)


def with_recall(row: _Row, recalls: NDArray[np.float64]) -> _Row:
    """The row with what each query found of its truth, (n,)."""
    return replace(
        row, recall=round(float(recalls.mean()), 4), recall_at_least=round(recall_at_least(recalls), 4)
    )


@dataclass(frozen=True, slots=True)
class Speed:
    """What the clock said."""

    milliseconds: float  # a query, one at a time on one of FAISS's threads, median
    queries_a_second: float  # many at once on all threads, the best of three batches


# Measures a searcher on queries (n, d).
Stopwatch: TypeAlias = Callable[[Searcher, NDArray[np.float32]], Speed]


def stopwatch(searcher: Searcher, queries: NDArray[np.float32]) -> Speed:
    """The speed of a searcher, by itself: another in turns with it would empty the processor's caches.

    queries: (n, d). It is given no more than about two seconds for either figure. A single query has one
    thread: more of them help it little, and on a busy machine they only wait for each other.
    """
    singles: list[float] = []
    with one_thread() if faiss_is_installed() else nullcontext():
        for query in queries[:_WARMING]:
            searcher.search(query[None, :])
        for query in queries:
            if sum(singles) < _SECONDS:
                singles.append(_seconds(searcher, query[None, :]))
    batches: list[float] = []
    for _ in range(_BATCHES):
        if sum(batches) < _SECONDS:
            batches.append(_seconds(searcher, queries))
    return Speed(round(1000 * float(np.median(singles)), 4), round(len(queries) / min(batches), 1))


def _seconds(searcher: Searcher, queries: NDArray[np.float32]) -> float:
    begin = time.perf_counter()
    searcher.search(queries)
    return max(time.perf_counter() - begin, 1e-9)
