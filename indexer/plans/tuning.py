"""Choosing an index by measurement: the fastest that keeps the contract.

Each candidate is built over all living vectors and its search parameters are climbed, by rising cost, to the
first that keeps the recall against exact search. Measuring on a part of the vectors would be quicker and
wrong: among fewer passages the same probes, or the same graph, find more. Two sets of queries take part. The
first proposes a setting when its mean recall reaches the target; the second, larger and never looked at
while climbing, decides, by the lower end of its 95 % interval: the figure in the report is then neither the
luck of the choice nor of the queries. Stored vectors that serve as queries are held out of every candidate
and join the one that is taken at the end: a graph finds the neighbours of its own nodes far better than those
of strangers (among 10,000 definitions .991 against .949), and people's queries are strangers.

Among those that keep recall and memory the one that answers a single query soonest is taken, since that is
what a person, a page or a service waits for. A newcomer is timed in turns with the best so far. Within a
tenth of each other, where another run could turn them round, the one that answers more of many queries at
once is taken; within a tenth there as well, the one that takes less memory. When the best is timed once
more, the figures of all before are scaled by as much as its own have changed, so that every verdict can be
checked in the report. What has no chance is not built,
and the report says why: what memory cannot hold, a graph over very many vectors, or one whose like was left
far behind. What is built and how it is searched follows from the seed; clocks only decide among those that
keep the contract.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED, Shared
from nearsay.indexer.plans.engines import ENGINES, build, engine_of, part_shape
from nearsay.indexer.plans.plan import GIVEN_QUERIES, Measured, Plan, PlanKind, memory_text
from nearsay.indexer.plans.trials import (
    DECIDING,
    PROPOSING,
    Searcher,
    Speed,
    Stopwatch,
    TrialQueries,
    drawn,
    given,
    held_out,
    judged,
    queries_to_show,
    stopwatch,
    with_recall,
)
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import VectorStore, trim

GRAPH_UP_TO: Final = 200_000  # vectors: a graph over more takes many minutes to build
_FEWEST: Final = 1000  # vectors: among fewer no index can be faster than looking at all
_HELD_OUT: Final = 10  # of few passages at most one in so many
_TIMED: Final = 200  # queries that a speed is taken with
_TIE: Final = 0.1  # share of the time within which two candidates count as equally fast
_ORDER: Final = tuple(PlanKind)
_KEEPS: Final = "keeps the contract"
_GRAPHS: Final = (PlanKind.HNSW_SQ8, PlanKind.HNSW)
_LIKE: Final = {  # a kind and the smaller one that stands for it; how much slower that may be than the best
    PlanKind.HNSW: (PlanKind.HNSW_SQ8, 1.5),
    PlanKind.IVF: (PlanKind.IVF_SQ8, 1.0 + _TIE),  # as many lists to read, of twice the bytes
}
_ALONE: Final = 10.0  # how much slower exact search must be for one in half precision not to be built
_DOING: Final = "measuring kinds of index"


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was chosen."""

    plan: Plan
    index: CandidateIndex | None  # None: exact search


@dataclass(frozen=True, slots=True)
class _Trial:
    """A setting that keeps the contract, or exact search."""

    row: Measured
    searcher: Searcher


def tune(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    through: int,
    plan: Plan,
    queries: NDArray[np.float32] | None = None,
    *,
    listener: ProgressListener = unheard,
    timed: Stopwatch = stopwatch,
    seed: int = SEED,
) -> Tuned:
    """The fastest search over the living passages that keeps the plan's contract, with the whole report.

    alive: bool by passage number; through: the last passage that the index covers; queries: (n, d) unit
    length, the user's own, or None for stored vectors. The listener hears of candidates; what it raises ends
    the work, and nothing was written by then. While it works memory holds two indexes, which together keep
    the contract's limit (but for what FAISS asks for ahead, up to a third more). The plan is exact when
    nothing else keeps the contract, and its note says so: the stored vectors are then read from their mapped
    files.
    """
    return _Tuning(vectors, alive, through, plan, queries, timed, seed).run(listener)


def tune_again(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    through: int,
    plan: Plan,
    queries: NDArray[np.float32],
    *,
    listener: ProgressListener = unheard,
    timed: Stopwatch = stopwatch,
    seed: int = SEED,
) -> Tuned | None:
    """The plan's kind over what there is by now, looking as far as its contract asks; the rest as for `tune`.

    None where that kind does not keep the contract any more, or has become slower than exact search.
    """
    tuning = _Tuning(vectors, alive, through, plan, queries, timed, seed)
    shape = part_shape(plan.kind, plan.shape, int(alive.sum()), vectors.dimension)
    return tuning.run_one(plan.kind, shape, listener)


def enough_to_show(queries: int, recall: float) -> bool:
    """Whether so many of the user's queries could show a recall if all found everything."""
    deciding = queries_to_show(recall)
    return deciding is not None and queries >= _least(deciding)


def _least(deciding: int) -> int:
    """How many queries there are in all where so many decide."""
    return ceil(deciding * (PROPOSING + DECIDING) / DECIDING)


class _Tuning:
    def __init__(
        self,
        vectors: VectorStore,
        alive: NDArray[np.bool_],
        through: int,
        plan: Plan,
        queries: NDArray[np.float32] | None,
        timed: Stopwatch,
        seed: int,
    ) -> None:
        self._vectors, self._alive, self._through, self._plan = vectors, alive, through, plan
        self._contract = plan.contract
        self._ids = vectors.ids[alive[vectors.ids]]
        self._timed = timed
        self._seed = seed
        generator = np.random.default_rng(seed)
        at = self._contract.at
        if queries is not None:
            trial = given(queries, at, generator, lambda some, k: vectors.nearest_many(some, k, alive))
            self._refuse_few(trial)
            self._described = f"{len(trial):,} {GIVEN_QUERIES}"
        elif self._ids.size < _FEWEST:
            trial = drawn(vectors, alive, _TIMED, at, generator)
            self._described = f"{len(trial):,} stored vectors"
        else:
            count = min(PROPOSING + DECIDING, self._ids.size // _HELD_OUT)
            trial, self._alive = held_out(vectors, alive, count, at, generator)
            self._described = f"{len(trial):,} held-out stored vectors"
        self._indexed = vectors.ids[self._alive[vectors.ids]]
        self._proposing, self._deciding = trial.parted()
        self._asked = trial.asked
        self._report: list[Measured] = []
        self._shared: Shared = {}

    def run(self, listener: ProgressListener) -> Tuned:
        """The best of all kinds."""
        return self._chosen(self._best(list(self._candidates()), listener))

    def run_one(self, kind: PlanKind, shape: Mapping[str, int], listener: ProgressListener) -> Tuned | None:
        """That kind; None where it is not better than exact search, or keeps no contract."""
        size = engine_of(kind).expected_bytes(self._ids.size, self._vectors.dimension, shape)
        row = Measured(kind, dict(shape), bytes=size)
        best = self._best([row], listener)
        return None if best.row.kind is PlanKind.EXACT else self._chosen(best)

    def _best(self, candidates: Sequence[Measured], listener: ProgressListener) -> _Trial:
        """The best of some candidates and exact search; that alone where none is needed or can be shown."""
        if self._ids.size < _FEWEST or not self._can_be_shown:
            candidates = ()
        exact = Searcher(self._vectors, self._alive, self._asked)
        best = _Trial(Measured(PlanKind.EXACT, recall=1.0, recall_at_least=1.0, bytes=0), exact)
        total = len(candidates) + 1
        listener(Progress(0, total, _DOING, "candidates"))
        for done, candidate in enumerate(candidates, 1):
            listener(Progress(done, total, _DOING, "candidates"))
            best = self._tried(candidate, best)
        if best.row.milliseconds_a_query is None:  # nothing was compared with exact search
            (speed,) = self._speeds([exact])
            best = replace(best, row=_with_speed(best.row, speed))
        listener(Progress(total, total, _DOING, "candidates"))
        return best

    def _refuse_few(self, trial: TrialQueries) -> None:
        """BadInputError if so few queries of the user's cannot show the recall, whatever they find."""
        deciding = queries_to_show(self._contract.recall)
        if deciding is None or self._ids.size < _FEWEST:
            return  # exact search is taken anyway
        least = _least(deciding)
        if len(trial) < least:
            raise BadInputError(
                f"{len(trial)} queries cannot show {self._contract}, even if all found everything. "
                f"Give {least:,} or more, or none: then stored vectors are taken"
            )

    @property
    def _can_be_shown(self) -> bool:
        least = queries_to_show(self._contract.recall)
        return least is not None and least <= len(self._deciding)

    def _speeds(self, searchers: Sequence[Searcher], queries: int = _TIMED) -> list[Speed]:
        asked = self._deciding.vectors[:queries]
        return self._timed([searcher.ready_for(asked) for searcher in searchers], asked)

    def _candidates(self) -> Iterator[Measured]:
        count, dimension = self._ids.size, self._vectors.dimension
        for kind, kind_of in ENGINES.items():
            for shape in kind_of.shapes(count, dimension):
                yield Measured(kind, dict(shape), bytes=kind_of.expected_bytes(count, dimension, shape))

    def _tried(self, row: Measured, best: _Trial) -> _Trial:
        """The better of the best so far and a candidate; what became of it goes into the report."""
        refusal = self._refusal(row, best)
        if refusal:
            self._report.append(replace(row, verdict=refusal))
            return best
        begin = time.perf_counter()
        trim()  # what the one before left
        index = build(
            row.kind, self._vectors, self._indexed, self._through, row.shape, self._seed, self._shared
        )
        trial = self._climbed(index, replace(row, build_seconds=round(time.perf_counter() - begin, 2)))
        return best if trial is None else self._faster(best, trial)

    def _refusal(self, row: Measured, best: _Trial) -> str:
        """Why a candidate is not even built; empty if it is."""
        limit = self._contract.memory_bytes
        if limit is not None and (row.bytes or 0) > limit:
            return f"not built: takes more than {memory_text(limit)} of memory"
        if limit is not None and (row.bytes or 0) + (best.row.bytes or 0) > limit:
            named = self._named(best.row)
            return f"not built: {named} keeps the contract, and both take more than {memory_text(limit)}"
        if row.kind in _GRAPHS and self._ids.size > GRAPH_UP_TO:
            return f"not built: a graph over more than {GRAPH_UP_TO:,} vectors takes many minutes"
        soonest = best.row.milliseconds_a_query or 0.0
        like, slower = _LIKE.get(row.kind, (None, 0.0))
        for other in self._report:
            mine = other.milliseconds_a_query or 0.0
            if other.kind is like and other.verdict.startswith(_KEEPS) and mine > slower * soonest:
                named, times = self._named(other), mine / soonest
                return f"not built: {named}, its like, is {times:.1f} times as slow as the best"
            if row.kind is PlanKind.FLAT_FP16 and other.kind is PlanKind.EXACT and mine > _ALONE * soonest:
                return f"not built: exact search, its like, is {mine / soonest:.0f} times as slow as the best"
        return ""

    def _climbed(self, index: CandidateIndex, row: Measured) -> _Trial | None:
        """The first setting that keeps the recall; None if none does. Those below it go into the report."""
        target = self._contract.recall
        for parameters in engine_of(row.kind).ladder(self._ids.size, row.shape):
            searcher = Searcher(self._vectors, self._alive, self._asked, index.looking(parameters))
            recalls, failing = judged(searcher.found, self._proposing, self._deciding, target)
            step = with_recall(replace(row, parameters=dict(parameters)), recalls)
            if not failing:
                return _Trial(step, searcher)
            (speed,) = self._speeds([searcher], 50)
            self._report.append(replace(_with_speed(step, speed), verdict=failing))
        return None

    def _faster(self, best: _Trial, new: _Trial) -> _Trial:
        """Whichever answers one query sooner; the other goes into the report.

        Where these are alike, whichever answers more at once; where these are, too, the smaller.
        """
        old_speed, new_speed = self._speeds([best.searcher, new.searcher])
        self._report = [_at_the_pace_of(row, best.row, old_speed) for row in self._report]
        best = replace(best, row=_with_speed(best.row, old_speed))
        new = replace(new, row=_with_speed(new.row, new_speed))
        sooner = new_speed.milliseconds / old_speed.milliseconds
        at_once = old_speed.queries_a_second / new_speed.queries_a_second
        if not _alike(sooner):
            wins, why = sooner < 1.0, "slower than {}"
        elif not _alike(at_once):
            wins, why = at_once < 1.0, "about as fast as {}, but slower with many at once"
        else:
            wins, why = (new.row.bytes or 0) < (best.row.bytes or 0), "about as fast as {}, but larger"
        winner, loser = (new, best) if wins else (best, new)
        verdict = f"{_KEEPS}; {why.format(self._named(winner.row))}"
        self._report.append(replace(loser.row, verdict=verdict))
        return winner

    def _named(self, row: Measured) -> str:
        """A candidate as verdicts name it, with its shape where its kind is built in several."""
        name = str(row.kind)
        if row.kind is PlanKind.EXACT:
            return "exact search"
        if len(engine_of(row.kind).shapes(self._ids.size, self._vectors.dimension)) > 1:
            name += f" ({', '.join(f'{setting} {value}' for setting, value in row.shape.items())})"
        return name

    def _chosen(self, best: _Trial) -> Tuned:
        row = replace(best.row, verdict="taken")
        report = tuple(sorted([*self._report, row], key=lambda found: _ORDER.index(found.kind)))
        plan = self._plan.chosen(
            row.kind,
            shape=row.shape,
            parameters=row.parameters,
            report=report,
            measured_at=int(self._ids.size),
            queries=self._described,
            check=None,
            note=self._note(row, report),
        )
        if best.searcher.index is not None:
            best.searcher.index.add(self._vectors, np.setdiff1d(self._ids, self._indexed))
        return Tuned(plan, best.searcher.index)

    def _note(self, row: Measured, report: Sequence[Measured]) -> str:
        if row.kind is not PlanKind.EXACT:
            return ""
        if self._ids.size < _FEWEST:
            need = "needs" if self._ids.size == 1 else "need"
            return f"{counted(self._ids.size, 'passage')} {need} no index: searched exactly"
        if not self._can_be_shown:
            return f"{len(self._deciding):,} queries cannot show {self._contract}: searched exactly"
        if any(other.verdict.startswith(_KEEPS) for other in report):
            return "no index is faster here: searched exactly"
        return f"no index keeps {self._contract}: searched exactly, from the mapped vectors"


def _alike(ratio: float) -> bool:
    return 1 - _TIE <= ratio <= 1 + _TIE


def _with_speed(row: Measured, speed: Speed) -> Measured:
    return replace(row, milliseconds_a_query=speed.milliseconds, queries_a_second=speed.queries_a_second)


def _at_the_pace_of(row: Measured, best: Measured, now: Speed) -> Measured:
    """A row timed while the best had its former speed, as it would be timed now; scaled as the best's own."""
    if row.milliseconds_a_query is None or row.queries_a_second is None:
        return row
    longer = now.milliseconds / (best.milliseconds_a_query or now.milliseconds)
    more = now.queries_a_second / (best.queries_a_second or now.queries_a_second)
    return replace(
        row,
        milliseconds_a_query=round(row.milliseconds_a_query * longer, 4),
        queries_a_second=round(row.queries_a_second * more, 1),
    )
