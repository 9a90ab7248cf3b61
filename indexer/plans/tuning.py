"""Choosing an index by measurement: the smallest that keeps the contract and is faster than exact search.

Kinds are tried from the roughest coding to the finest. An index is built over all living vectors and its
search parameters are climbed, in order of cost, to the first that keeps the recall against exact search.
Measuring on a part of the vectors would be quicker and wrong: among fewer passages the same probes find more.
Two sets of queries take part. The first proposes a setting when its mean recall reaches the target; the
second, larger and never looked at while climbing, decides, by the lower end of its 95 % interval: the figure
in the report is then neither the luck of the choice nor of the queries. Stored vectors that serve as queries
are held out of every candidate and join the one that is taken at the end: their own lists would find their
neighbours a little more surely than those of strangers (near recall .95 by up to .004), and people's queries
are strangers.

The rougher a coding, the sooner lists of it are read, so that a finer one is built only where no rougher one
is enough; the report says of each why it was not built. Graphs are no candidates: over some 100,000 vectors
they answer one query within some tenths of a millisecond of lists, sooner or later, fewer a second of many at
once, and take ten times as long to build, which a collection that grows pays again and again. What is built
and how it is searched follows from the seed; a clock only says whether an index is faster than exact search.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.quantity import counted
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED
from nearsay.indexer.plans.engines import ENGINES, build, engine_of, part_shape
from nearsay.indexer.plans.plan import GIVEN_QUERIES, Measured, Plan, PlanKind, memory_text
from nearsay.indexer.plans.trials import (
    DECIDING,
    KEEPS,
    PROPOSING,
    TIMED,
    Searcher,
    Speed,
    Stopwatch,
    below,
    drawn,
    given,
    held_out,
    judged,
    queries_to_show,
    refuse_few,
    stopwatch,
    with_recall,
)
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import VectorStore, trim

_FEWEST: Final = 1000  # vectors: among fewer no index can be faster than looking at all
_HELD_OUT: Final = 10  # of few passages at most one in so many
_ORDER: Final = tuple(PlanKind)
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
) -> Tuned:
    """The smallest index over the living passages that keeps the plan's contract, with the whole report.

    alive: bool by passage number; through: the last passage that the index covers; queries: (n, d) unit
    length, the user's own, or None for stored vectors. The listener hears of candidates; what it raises ends
    the work, and nothing was written by then. While it works memory holds one index, which keeps the
    contract's limit (but for what FAISS asks for ahead, up to a third more). The plan is exact when nothing
    else keeps the contract and is faster, and its note says so: the stored vectors are then read from their
    mapped files.
    """
    return _Tuning(vectors, alive, through, plan, queries, timed).run(listener)


def tune_again(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    through: int,
    plan: Plan,
    queries: NDArray[np.float32],
    *,
    listener: ProgressListener = unheard,
    timed: Stopwatch = stopwatch,
) -> Tuned | None:
    """The plan's kind over what there is by now, looking as far as its contract asks; the rest as for `tune`.

    None where that kind does not keep the contract any more, or has become slower than exact search.
    """
    tuning = _Tuning(vectors, alive, through, plan, queries, timed)
    shape = part_shape(plan.kind, plan.shape, int(alive.sum()), vectors.dimension)
    return tuning.run_one(plan.kind, shape, listener)


class _Tuning:
    def __init__(
        self,
        vectors: VectorStore,
        alive: NDArray[np.bool_],
        through: int,
        plan: Plan,
        queries: NDArray[np.float32] | None,
        timed: Stopwatch,
    ) -> None:
        self._vectors, self._alive, self._through, self._plan = vectors, alive, through, plan
        self._contract = plan.contract
        self._ids = vectors.ids[alive[vectors.ids]]
        self._timed = timed
        generator = np.random.default_rng(SEED)
        at = self._contract.at
        if queries is not None:
            trial = given(queries, at, generator, lambda some, k: vectors.nearest_many(some, k, alive))
            if self._ids.size >= _FEWEST:  # else exact search is taken anyway
                refuse_few(len(trial), self._contract)
            self._described = f"{len(trial):,} {GIVEN_QUERIES}"
        elif self._ids.size < _FEWEST:
            trial = drawn(vectors, alive, TIMED, at, generator)
            self._described = f"{len(trial):,} stored vectors"
        else:
            count = min(PROPOSING + DECIDING, self._ids.size // _HELD_OUT)
            trial, self._alive = held_out(vectors, alive, count, at, generator)
            self._described = f"{len(trial):,} held-out stored vectors"
        self._indexed = vectors.ids[self._alive[vectors.ids]]
        self._proposing, self._deciding = trial.parted()
        self._asked = trial.asked
        self._report: list[Measured] = []

    def run(self, listener: ProgressListener) -> Tuned:
        """The first of all kinds."""
        count, dimension = self._ids.size, self._vectors.dimension
        every = [(kind, shape) for kind in ENGINES for shape in ENGINES[kind].shapes(count, dimension)]
        return self._chosen(self._first(every, listener))

    def run_one(self, kind: PlanKind, shape: Mapping[str, int], listener: ProgressListener) -> Tuned | None:
        """That kind; None where it is not better than exact search, or keeps no contract."""
        first = self._first([(kind, shape)], listener)
        return None if first.row.kind is PlanKind.EXACT else self._chosen(first)

    def _first(
        self, candidates: Sequence[tuple[PlanKind, Mapping[str, int]]], listener: ProgressListener
    ) -> _Trial:
        """The first kind, in its shape, that keeps the contract and beats exact search; else that."""
        if self._ids.size < _FEWEST or not self._can_be_shown:
            candidates = ()
        exact = Searcher(self._vectors, self._alive, self._asked)
        to_beat = self._speed(exact)
        flat = _with_speed(Measured(PlanKind.EXACT, recall=1.0, recall_at_least=1.0, bytes=0), to_beat)
        taken: _Trial | None = None
        total = len(candidates) + 1
        listener(Progress(0, total, _DOING, "candidates"))
        for done, (kind, shape) in enumerate(candidates, 1):
            listener(Progress(done, total, _DOING, "candidates"))
            size = engine_of(kind).expected_bytes(self._ids.size, self._vectors.dimension, shape)
            candidate = Measured(kind, dict(shape), bytes=size)
            refusal = self._refusal(candidate, taken)
            if refusal:
                self._report.append(replace(candidate, verdict=refusal))
                continue
            trial = self._climbed(candidate)
            if trial is None:
                continue
            speed = self._speed(trial.searcher)
            row = _with_speed(trial.row, speed)
            if speed.milliseconds < to_beat.milliseconds:
                taken = replace(trial, row=row)
            else:
                self._report.append(replace(row, verdict=f"{KEEPS}; slower than exact search"))
            trial = None  # before the next is built
        listener(Progress(total, total, _DOING, "candidates"))
        if taken is not None:
            slower = f"{KEEPS}; slower than {self._named(taken.row)}"
            self._report.append(replace(flat, verdict=slower))
            return taken
        return _Trial(flat, exact)

    @property
    def _can_be_shown(self) -> bool:
        least = queries_to_show(self._contract.recall)
        return least is not None and least <= len(self._deciding)

    def _speed(self, searcher: Searcher, queries: int = TIMED) -> Speed:
        asked = self._deciding.vectors[:queries]
        return self._timed(searcher.ready_for(asked), asked)

    def _refusal(self, row: Measured, taken: _Trial | None) -> str:
        """Why a candidate is not even built; empty if it is."""
        if taken is not None:
            return f"not built: {self._named(taken.row)} keeps the contract"
        limit = self._contract.memory_bytes
        if limit is not None and (row.bytes or 0) > limit:
            return f"not built: takes more than {memory_text(limit)} of memory"
        return ""

    def _climbed(self, row: Measured) -> _Trial | None:
        """The first setting that keeps the recall; None if none does. Those below it go into the report."""
        target, begin = self._contract.recall, time.perf_counter()
        trim()  # what the one before left
        index = build(row.kind, self._vectors, self._indexed, self._through, row.shape)
        row = replace(row, build_seconds=round(time.perf_counter() - begin, 2))
        for parameters in self._hopeful(row, index):
            searcher = Searcher(self._vectors, self._alive, self._asked, index.looking(parameters))
            recalls, failing = judged(searcher.found, self._proposing, self._deciding, target)
            step = with_recall(replace(row, parameters=dict(parameters)), recalls)
            if not failing:
                return _Trial(step, searcher)
            self._report.append(replace(_with_speed(step, self._speed(searcher, 50)), verdict=failing))
        return None

    def _hopeful(self, row: Measured, index: CandidateIndex) -> Iterator[Mapping[str, int]]:
        """The settings that reach the recall with the proposing queries, cheapest first.

        One search for each number of probes shows the recall for all numbers of candidates. With fewer probes
        than the true neighbours' lists need, nothing is searched; once they hold nearly all of them, more
        probes only add other candidates, so an index whose codes are too rough is given up.
        """
        ladder = engine_of(row.kind).ladder(self._ids.size, row.shape)
        if not index.lists:
            yield from ladder
            return
        target = self._contract.recall
        factors = sorted({one["factor"] for one in ladder})
        most = {"probes": max(one["probes"] for one in ladder), "factor": factors[-1]}
        searcher = Searcher(self._vectors, self._alive, self._asked, index.looking(most))
        covered = searcher.covered(self._proposing)
        recalls: dict[int, Mapping[int, NDArray[np.float64]]] = {}
        limit = most["probes"]
        for parameters in ladder:
            probes = parameters["probes"]
            if probes > limit:
                continue
            within = float(covered[probes - 1])
            if within < target and probes < most["probes"]:
                continue
            if probes not in recalls:
                looking = {"probes": probes, "factor": factors[-1]}
                searcher = Searcher(self._vectors, self._alive, self._asked, index.looking(looking))
                recalls[probes] = searcher.recalls(self._proposing, factors)
                best = recalls[probes][factors[-1]]
                if best.mean() < target:
                    step = with_recall(replace(row, parameters=looking, verdict=below(target)), best)
                    self._report.append(_with_speed(step, self._speed(searcher, 50)))
                if best.mean() + 1 - max(within, best.mean()) < target:
                    limit = probes
            if recalls[probes][parameters["factor"]].mean() >= target:
                yield parameters

    def _named(self, row: Measured) -> str:
        """A candidate as verdicts name it, with its shape where its kind is built in several."""
        name = str(row.kind)
        if len(engine_of(row.kind).shapes(self._ids.size, self._vectors.dimension)) > 1:
            name += f" ({', '.join(f'{setting} {value}' for setting, value in row.shape.items())})"
        return name

    def _chosen(self, first: _Trial) -> Tuned:
        row = replace(first.row, verdict="taken")
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
        if first.searcher.index is not None:
            first.searcher.index.add(self._vectors, np.setdiff1d(self._ids, self._indexed))
        return Tuned(plan, first.searcher.index)

    def _note(self, row: Measured, report: Sequence[Measured]) -> str:
        if row.kind is not PlanKind.EXACT:
            return ""
        if self._ids.size < _FEWEST:
            need = "needs" if self._ids.size == 1 else "need"
            return f"{counted(self._ids.size, 'passage')} {need} no index: searched exactly"
        if not self._can_be_shown:
            return f"{len(self._deciding):,} queries cannot show {self._contract}: searched exactly"
        if any(other.verdict.startswith(KEEPS) for other in report):
            return "no index is faster here: searched exactly"
        return f"no index keeps {self._contract}: searched exactly, from the mapped vectors"


def _with_speed(row: Measured, speed: Speed) -> Measured:
    return replace(row, milliseconds_a_query=speed.milliseconds, queries_a_second=speed.queries_a_second)
