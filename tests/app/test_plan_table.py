"""How a plan is printed."""

import pytest

from nearsay.app.cli.printing import print_plan
from nearsay.indexer.plans.plan import GpuKind, GpuMeasured, GpuPlan, GpuReport, Measured, Plan, PlanKind


def plan_with(gpu: GpuReport | None) -> Plan:
    return Plan(report=(Measured(PlanKind.EXACT, verdict="taken"),), measured_at=1200, gpu=gpu)


def test_what_was_measured_on_gpus_has_a_table_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    few, more = (GpuPlan(GpuKind.IVF_FP16, lists=64, probes=probes) for probes in (4, 8))
    rows = (
        GpuMeasured(GpuPlan(GpuKind.FLAT_FP16, factor=2), verdict="not built: no room"),
        GpuMeasured(few, "cuda:0", recall=0.91, verdict="finds less than 0.95"),
        GpuMeasured(more, "cuda:0", 0.971, 0.962, 0.25, 40_000.0, 2_000_000, 3.0, "taken"),
    )
    print_plan(plan_with(GpuReport(more, rows)))
    _, _, _, heading, header, first, second = capsys.readouterr().out.splitlines()
    assert heading == "on GPUs:"
    assert header.split()[:4] == ["candidate", "on", "built", "and"]
    assert first.split() == ["gpu-flat-fp16", "factor", "2", "not", "built:", "no", "room"]
    assert second.startswith("gpu-ivf-fp16   cuda:0  lists 64, probes 8, factor 4")
    assert second.split()[-7:] == ["0.971", "0.962", "0.25", "40,000", "2.0", "3.0", "taken"]


def test_why_no_gpu_was_measured_is_said_and_nothing_where_none_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_plan(plan_with(GpuReport(None, (), "FAISS was built without CUDA")))
    assert capsys.readouterr().out.endswith("\non GPUs: FAISS was built without CUDA\n")
    print_plan(plan_with(None))
    assert "GPU" not in capsys.readouterr().out
