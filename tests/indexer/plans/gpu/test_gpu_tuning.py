"""Choosing a GPU plan by measurement."""

from dataclasses import asdict

import numpy as np
import pytest
from naming import Naming

from nearsay.indexer.plans import gpu_opening, trials
from nearsay.indexer.plans.gpu import FaissGpus, Gpu
from nearsay.indexer.plans.gpu_opening import gpu_plans, ladder, tune_on_gpu
from nearsay.indexer.plans.plan import GpuKind, GpuPlan, GpuReport, RecallContract
from nearsay.indexer.plans.trials import Speed

THERE = FaissGpus((Gpu(0),), "")
COSTS = {GpuKind.FLAT_FP16: 3.0, GpuKind.IVF_FLAT: 2.0, GpuKind.IVF_FP16: 1.0, GpuKind.IVF_PQ: 1.5}


def told(searcher, _queries):
    """A clock that goes by the kind alone."""
    return Speed(COSTS[searcher.index.plan.kind], 1000.0)


@pytest.fixture
def tuned(gpu_faiss, clustered, monkeypatch):
    """Measures so many vectors under a contract, on a stand-in that may be changed first."""

    for module in (gpu_opening, trials):
        monkeypatch.setattr(module, "PROPOSING", 40)
        monkeypatch.setattr(module, "DECIDING", 200)

    def run(contract=RecallContract(), change=lambda _faiss: None, there=THERE, **options):  # noqa: B008 - frozen
        run.faiss = gpu_faiss(len(there.gpus))
        change(run.faiss)
        vectors = clustered(700, 16)
        alive = np.zeros(int(vectors.ids[-1]) + 1, dtype=bool)
        alive[vectors.ids] = True
        return tune_on_gpu(vectors, alive, contract, there, timed=told, **options)

    return run


def test_the_quickest_kind_that_keeps_the_recall_is_taken(tuned):
    report = tuned()
    assert report.taken.kind is GpuKind.IVF_FP16
    taken = next(row for row in report.rows if row.verdict == "taken")
    assert taken.plan == report.taken
    assert taken.recall_at_least >= 0.95
    assert taken.device == "cuda:0"
    assert {row.plan.kind for row in report.rows} == set(COSTS)
    flat = next(row for row in report.rows if row.plan.kind is GpuKind.FLAT_FP16)
    assert flat.verdict == "keeps the contract; slower than gpu-ivf-fp16"
    assert flat.recall == 1.0


def test_steps_that_find_too_little_are_in_the_report_and_climbing_ends_at_the_first_that_does_not(tuned):
    steps = [row for row in tuned().rows if row.plan.kind is GpuKind.IVF_FP16]
    assert [row.plan.probes for row in steps] == [4 * 2**place for place in range(len(steps))]
    assert all(row.recall_at_least < 0.95 for row in steps[:-1])
    assert steps[-1].verdict == "taken"


def test_one_index_at_a_time_is_on_the_gpu(tuned):
    assert len({row.plan.kind for row in tuned().rows}) == 4
    assert tuned.faiss.most_living == 1
    assert len(tuned.faiss.living) == 0


def test_what_has_no_room_is_in_the_report_with_its_reason(tuned):
    report = tuned(change=lambda faiss: setattr(faiss, "rows_that_fit", 5))
    assert report.taken is None
    assert [*{row.verdict for row in report.rows}] == [Naming("not built", "no room")]
    assert {row.device for row in report.rows} == {""}


def test_figures_of_a_gpu_that_stopped_are_not_taken_for_its_own(tuned):
    report = tuned(change=lambda faiss: setattr(faiss, "fails_at_search", "illegal access"))
    assert report.taken is None
    assert {row.device for row in report.rows} == {"cpu"}
    assert all(row.verdict.startswith("not measured: cuda:0 stopped answering") for row in report.rows)
    assert {row.milliseconds_a_query for row in report.rows} == {None}


def test_without_gpus_nothing_is_measured(tuned):
    assert tuned(there=FaissGpus((), "no driver")) == GpuReport(None, (), "no driver")


def test_the_users_own_queries_can_judge(tuned):
    queries = np.random.default_rng(3).standard_normal((40, 16)).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    report = tuned(contract=RecallContract(recall=0.9), queries=queries)
    assert report.taken is not None


def test_a_report_comes_back_from_what_was_kept(tuned):
    report = tuned()
    assert GpuReport.from_json(asdict(report)) == report


def test_room_taken_is_what_the_gpu_has_less_than_before(tuned, monkeypatch):
    monkeypatch.setattr(gpu_opening, "free_bytes", lambda _number: 7 * 10**9)
    report = tuned(there=FaissGpus((Gpu(0, free_bytes=10**10),), ""))
    assert {row.bytes for row in report.rows} == {3 * 10**9}
    assert {row.bytes for row in tuned().rows} == {None}


def test_plans_are_for_the_gpu_and_the_code_of_a_vector_is_the_finest_that_divides_it():
    sizes = {384: 96, 768: 96, 1024: 64, 256: 64, 100: 20, 50: 0, 7: 0}
    for dimension, size in sizes.items():
        plans = gpu_plans(1000, dimension)
        assert [plan.kind for plan in plans] == list(GpuKind)[: len(plans)]
        assert [plan.code_bytes for plan in plans[3:]] == ([size] if size else [])
    assert {plan.lists for plan in gpu_plans(10**12, 384)[1:]} == {65_536}


def test_the_ladder_climbs_by_doubled_probes_to_the_gpus_limit():
    steps = {8192: [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048], 16: [4, 8, 16], 3: [3]}
    for lists, probes in steps.items():
        plan = GpuPlan(GpuKind.IVF_FP16, lists, 3)
        assert [step.probes for step in ladder(plan)] == probes
    assert ladder(GpuPlan(GpuKind.FLAT_FP16)) == (GpuPlan(GpuKind.FLAT_FP16),)


def test_a_plan_comes_back_from_what_was_kept():
    for plan in gpu_plans(1_000_000, 384):
        assert GpuPlan.from_json(asdict(plan)) == plan
    assert GpuPlan(GpuKind.IVF_FLAT, 64, 8).parameters == {"lists": 64, "probes": 8, "factor": 4}
