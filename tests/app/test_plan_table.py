"""How a plan is shown."""

from nearsay.app.jobs.results import read_results
from nearsay.indexer.plans.plan import (
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
    assert [*first][:3] == ["candidate", "on", "built and searched"]
    assert [value for value in first.values() if value] == ["gpu-flat-fp16", "factor 2", "not built: no room"]
    assert [*second.values()] == [
        *("gpu-ivf-fp16", "cuda:0", "lists 64, probes 8, factor 4"),
        *("0.971", "0.962", "0.25", "40,000", "2.0", "3.0", "taken"),
    ]
    assert TunedPlan.from_json(report.to_json()) == report


def test_why_no_gpu_was_measured_is_said_and_nothing_where_none_was_asked_for() -> None:
    without = TunedPlan("papers", plan_with(GpuReport(None, (), "FAISS was built without CUDA")))
    found = read_results([without.to_json()])
    assert found.facts["on GPUs"] == "FAISS was built without CUDA"
    assert len([table for table in found.tables if table]) == 1
    found = read_results([TunedPlan("papers", plan_with(None)).to_json()])
    assert ("on GPUs" in found.facts, len(found.tables)) == (False, 1)


def test_a_plan_that_another_version_chose_is_a_row() -> None:
    kept = TunedPlan("papers", plan_with(None)).to_json() | {"kind": "hash"}
    assert read_results([kept]).rows[0]["kind"] == "hash"
