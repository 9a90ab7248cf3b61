"""What GPU kinds can do and how much room they take."""

import pytest

from nearsay.data.errors import BadInputError
from nearsay.indexer.plans.gpu_plan import GpuKind, GpuPlan, code_bytes, expected_bytes, gpu_plans


def test_the_code_of_a_vector_is_the_finest_that_the_gpu_takes_and_that_divides_it():
    sizes = {384: 96, 768: 96, 1024: 64, 256: 64, 100: 20, 50: 0, 7: 0}
    assert {dimension: code_bytes(dimension) for dimension in sizes} == sizes


def test_room_is_worked_out_from_the_formats():
    million = 1_000_000
    assert expected_bytes(GpuPlan(GpuKind.FLAT_FP16), million, 384) == million * 768
    lists = 1024 * 384 * 4
    flat = expected_bytes(GpuPlan(GpuKind.IVF_FLAT, 1024, 16), million, 384)
    assert flat == lists + 1.25 * million * (1536 + 8)
    half = expected_bytes(GpuPlan(GpuKind.IVF_FP16, 1024, 16), million, 384)
    assert half == lists + 1.25 * million * (768 + 8)
    coded = expected_bytes(GpuPlan(GpuKind.IVF_PQ, 1024, 16, code_bytes=96), million, 384)
    assert coded == lists + 384 * 256 * 4 + 1.25 * million * (96 + 8)
    graph = expected_bytes(GpuPlan(GpuKind.CAGRA, width=64), million, 384)
    assert graph == million * (1536 + 3 * 64 * 4)


def test_ten_million_vectors_take_less_room_the_coarser_they_are_kept():
    rooms = [expected_bytes(plan, 10_000_000, 384) for plan in gpu_plans(10_000_000, 384)]
    flat, ivf, half, coded = rooms
    assert coded < flat < half < ivf
    assert flat == 7_680_000_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": GpuKind.IVF_FLAT, "lists": 4096, "probes": 2049}, "from 1 to 2048"),
        ({"kind": GpuKind.IVF_FLAT, "lists": 64, "probes": 65}, "from 1 to 64"),
        ({"kind": GpuKind.IVF_FLAT, "lists": 64, "probes": 0}, "from 1 to 64"),
        ({"kind": GpuKind.IVF_PQ, "lists": 64, "probes": 4, "code_bytes": 50}, "one of: 4, 8, 12"),
        ({"kind": GpuKind.CAGRA, "width": 513}, "from 1 to 512"),
        ({"kind": GpuKind.FLAT_FP16, "factor": 0}, "at least 1"),
    ],
)
def test_what_faiss_refuses_on_a_gpu_is_refused_with_the_limits(given, said):
    with pytest.raises(BadInputError, match=said):
        GpuPlan(**given)


def test_the_ladder_climbs_by_doubled_probes_to_the_gpus_limit():
    plan = GpuPlan(GpuKind.IVF_FP16, 8192, 16)
    assert [step.probes for step in plan.ladder()] == [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
    small = GpuPlan(GpuKind.IVF_FP16, 16, 4)
    assert [step.probes for step in small.ladder()] == [4, 8, 16]
    tiny = GpuPlan(GpuKind.IVF_FP16, 3, 3)
    assert [step.probes for step in tiny.ladder()] == [3]
    graph = GpuPlan(GpuKind.CAGRA, width=128)
    assert [step.width for step in graph.ladder()] == [64, 128, 256, 512]
    assert GpuPlan(GpuKind.FLAT_FP16).ladder() == (GpuPlan(GpuKind.FLAT_FP16),)


def test_a_graph_is_a_candidate_only_where_faiss_has_it_and_a_code_only_where_one_divides():
    assert [plan.kind for plan in gpu_plans(1000, 50)] == [
        GpuKind.FLAT_FP16,
        GpuKind.IVF_FLAT,
        GpuKind.IVF_FP16,
    ]
    assert [plan.kind for plan in gpu_plans(1000, 384, cagra=True)] == list(GpuKind)


def test_a_plan_comes_back_from_what_was_kept():
    for plan in gpu_plans(1_000_000, 384, cagra=True):
        assert GpuPlan.from_json(plan.to_json()) == plan
    assert GpuPlan(GpuKind.IVF_FLAT, 64, 8).parameters == {"lists": 64, "probes": 8, "factor": 4}
