"""How a plan is shown."""

from naming import Naming

from nearsay.app.jobs.results import read_results
from nearsay.indexer.plans.plan import (
    Check,
    GpuKind,
    GpuMeasured,
    GpuPlan,
    GpuReport,
    Measured,
    Plan,
    PlanKind,
    TunedPlan,
)


def plan_with(gpu: GpuReport | None) -> Plan:
    return Plan(report=(Measured(PlanKind.EXACT, verdict="taken"),), measured_at=1200, gpu=gpu)


def test_what_was_measured_on_gpus_has_a_table_of_its_own() -> None:
    few, more = (GpuPlan(GpuKind.IVF_FP16, lists=64, probes=probes) for probes in (4, 8))
    rows = (
        GpuMeasured(GpuPlan(GpuKind.FLAT_FP16, factor=2), verdict="not built: no room"),
        GpuMeasured(few, "cuda:0", recall=0.91, verdict="finds less than 0.95"),
        GpuMeasured(more, "cuda:0", 0.971, 0.962, 0.25, 40_000.0, 2_000_000, 3.0, "taken"),
    )
    report = TunedPlan("papers", plan_with(GpuReport(more, rows)))
    found = read_results([report.to_json()])
    assert found.facts == {
        "contract": "recall 0.95@10",
        "measured": "at 1,200 passages with stored vectors (recall is estimated on passages)",
    }
    first, second = found.tables[1]
    shown = ["gpu-flat-fp16 on GPU", "not built: no room", "factor 2"]
    assert [value for value in first.values() if value] == shown
    assert second == {
        "candidate": "gpu-ivf-fp16 on cuda:0",
        "recall@10": "0.971",
        "ms a query": "0.25",
        "verdict": "taken",
        "searched": "lists 64, probes 8, factor 4",
        "at least": "0.962",
        "queries/s": "40,000",
        "memory": "2 MB",
        "build s": "3.0",
    }
    assert TunedPlan.from_json(report.to_json()) == report


def test_why_no_gpu_was_measured_is_said_and_nothing_where_none_was_asked_for() -> None:
    without = TunedPlan("papers", plan_with(GpuReport(None, (), "FAISS was built without CUDA")))
    found = read_results([without.to_json()])
    assert found.facts["on GPUs"] == "FAISS was built without CUDA"
    assert len([table for table in found.tables if table]) == 1
    found = read_results([TunedPlan("papers", plan_with(None)).to_json()])
    assert ("on GPUs" in found.facts, len(found.tables)) == (False, 1)


def test_each_candidate_is_a_line_at_its_last_setting() -> None:
    report = (
        Measured(PlanKind.EXACT, recall=1.0, milliseconds_a_query=20.0, bytes=0, verdict="slower"),
        Measured(PlanKind.IVF, {"lists": 64}, {"probes": 4}, recall=0.90, bytes=10**6),
        Measured(PlanKind.IVF, {"lists": 64}, {"probes": 8}, recall=0.96, bytes=10**6, verdict="taken"),
        Measured(PlanKind.IVF_SQ8, recall=0.95, verdict="slower"),
        Measured(PlanKind.IVF_PQ, verdict="too large"),
    )
    (rows,) = read_results([TunedPlan("papers", Plan(report=report)).to_json()]).tables
    assert [row["candidate"] for row in rows] == ["exact", "ivf (lists 64)", "ivf-sq8", "ivf-pq"]
    assert (rows[1]["searched"], rows[1]["recall@10"], rows[1]["verdict"]) == ("probes 8", "0.960", "taken")
    assert (rows[1]["memory"], rows[3]["memory"]) == ("1 MB", "")


def test_the_last_look_at_the_contract_is_told() -> None:
    for kept, recall in ((True, "0.970"), (False, "0.910")):
        plan = Plan(check=Check(float(recall), 1000, 80_000, 0.3, kept=kept))
        found = read_results([TunedPlan("papers", plan).to_json()])
        assert found.facts["checked again"] == Naming("80,000", recall, "1,000", "estimated")
        assert (plan.warning("papers") is None) is kept


def test_a_plan_that_another_version_chose_is_a_row() -> None:
    kept = TunedPlan("papers", plan_with(None)).to_json() | {"kind": "hash"}
    assert read_results([kept]).rows[0]["kind"] == "hash"
