"""Choosing a GPU plan by measurement, after the CPU's: the fastest kind that keeps the recall contract.

The CPU's index stays what is stored and what stands by; the GPU plan says only what to make of the same
vectors where a GPU is at hand. Recall is measured as on the CPU, with the same two sets of queries, and the
one that answers a single query soonest is taken. The contract's memory limit is the CPU's: on a GPU the room
that is free there decides. The search for a plan has never met a GPU.
"""

import time
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.contract import RecallContract
from nearsay.indexer.plans.devices import FaissGpus
from nearsay.indexer.plans.gpu import GpuIndex
from nearsay.indexer.plans.gpu_opening import build_on_gpu
from nearsay.indexer.plans.gpu_placement import Placement
from nearsay.indexer.plans.gpu_plan import GpuPlan, expected_bytes, gpu_plans
from nearsay.indexer.plans.gpu_report import GpuMeasured, GpuReport
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.plans.speed import Stopwatch, stopwatch
from nearsay.indexer.plans.trial_queries import TrialQueries, drawn, given, recall_at_least
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore

__all__ = ["tune_on_gpu"]

_SEED: Final = 20190827
_PROPOSING: Final = 400  # stored vectors that propose a setting
_DECIDING: Final = 1000  # and others that decide
_TIMED: Final = 200  # queries that a speed is taken with


@dataclass(frozen=True, slots=True)
class _Searching:
    vectors: VectorStore
    alive: NDArray[np.bool_]
    asked: int
    index: GpuIndex

    @property
    def kind(self) -> PlanKind:
        return self.index.kind

    def search(self, queries: NDArray[np.float32]) -> list[Candidates]:
        return self.index.nearest_many(self.vectors, queries, self.asked, self.alive)


def tune_on_gpu(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    contract: RecallContract,
    there: FaissGpus,
    queries: NDArray[np.float32] | None = None,
    *,
    placement: Placement = Placement.AUTO,
    timed: Stopwatch = stopwatch,
    seed: int = _SEED,
) -> GpuReport:
    """The fastest GPU search over the living passages that keeps the contract, with the whole report.

    alive: bool by passage number; queries: (n, d) unit length, the user's own, or None for stored vectors.
    One index at a time is on the GPUs. Without GPUs the report says why.
    """
    if not there.gpus:
        return GpuReport(None, (), there.reason)
    generator = np.random.default_rng(seed)
    if queries is None:
        trial = drawn(vectors, alive, _PROPOSING + _DECIDING, contract.at, generator)
    else:
        trial = given(vectors, alive, queries, contract.at, generator)
    cut = len(trial) * _PROPOSING // (_PROPOSING + _DECIDING)
    parts = trial.part(0, cut), trial.part(cut, len(trial))
    ids = vectors.ids[alive[vectors.ids]]

    def measured(plan: GpuPlan) -> list[GpuMeasured]:
        # In a function of its own: what it built is freed before the next is.
        row = GpuMeasured(plan, bytes=expected_bytes(plan, int(ids.size), vectors.dimension))
        begin = time.perf_counter()
        index, reason = build_on_gpu(plan, there.gpus, vectors, ids, placement=placement)
        if index is None:
            return [replace(row, verdict=f"not built: {reason}")]
        row = replace(row, device=index.device, build_seconds=round(time.perf_counter() - begin, 2))
        searcher = _Searching(vectors, alive, trial.asked, index)
        return _climbed(searcher, row, contract.recall, parts, timed)

    plans = gpu_plans(int(ids.size), vectors.dimension, cagra=there.cagra)
    return _chosen([row for plan in plans for row in measured(plan)])


def _climbed(
    whole: _Searching,
    row: GpuMeasured,
    target: float,
    parts: tuple[TrialQueries, TrialQueries],
    timed: Stopwatch,
) -> list[GpuMeasured]:
    """The steps up to the first that keeps the recall; one answered by the CPU ends the climb."""
    proposing, deciding = parts
    rows: list[GpuMeasured] = []
    for step in row.plan.ladder():
        searcher = replace(whole, index=whole.index.looking(step.parameters))
        recalls = proposing.recalls(searcher.search(proposing.vectors))
        verdict = f"finds less than {target:g}"
        if recalls.mean() >= target:
            recalls = deciding.recalls(searcher.search(deciding.vectors))
            keeps = recall_at_least(recalls) >= target
            verdict = "keeps the contract" if keeps else f"cannot be shown to find {target:g}"
        (speed,) = timed([searcher], deciding.vectors[:_TIMED])
        if notes := whole.index.notes:
            return [*rows, replace(row, plan=step, device="cpu", verdict=f"not measured: {notes[0]}")]
        rows.append(
            replace(
                row,
                plan=step,
                recall=round(float(recalls.mean()), 4),
                recall_at_least=round(recall_at_least(recalls), 4),
                milliseconds_a_query=speed.milliseconds,
                queries_a_second=speed.queries_a_second,
                verdict=verdict,
            )
        )
        if verdict == "keeps the contract":
            break
    return rows


def _chosen(rows: list[GpuMeasured]) -> GpuReport:
    keeping = [row for row in rows if row.verdict == "keeps the contract"]
    best = min(keeping, key=lambda row: (row.milliseconds_a_query or 0.0, row.bytes), default=None)
    if best is None:
        return GpuReport(None, tuple(rows))
    worded = {True: "taken", False: f"keeps the contract; slower than {best.plan.kind}"}
    judged = [replace(row, verdict=worded[row is best]) if row in keeping else row for row in rows]
    return GpuReport(best.plan, tuple(judged))
