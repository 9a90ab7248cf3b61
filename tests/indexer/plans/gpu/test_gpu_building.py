"""GPU indexes made from the vectors or copied from the CPU's."""

import faiss as cpu_faiss
import numpy as np
import pytest
from naming import Naming

from nearsay.indexer.plans import gpu_opening
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engines import build, engine_of
from nearsay.indexer.plans.gpu import NO_ROOM, Gpu
from nearsay.indexer.plans.gpu_opening import build_on_gpu, copy_on_gpu
from nearsay.indexer.plans.plan import GpuKind, GpuPlan, PlanKind

ONE, TWO = (Gpu(0),), (Gpu(0), Gpu(1))
PLANS = {
    "flat": GpuPlan(GpuKind.FLAT_FP16),
    "lists": GpuPlan(GpuKind.IVF_FLAT, 16, 16),
    "half": GpuPlan(GpuKind.IVF_FP16, 16, 16),
    "codes": GpuPlan(GpuKind.IVF_PQ, 16, 16, code_bytes=16),
}
PLACES = {"one": (ONE, None), "copies": (TWO, False), "parts": (TWO, True)}
NAMES = {"one": "cuda:0", "copies": "cuda:0,cuda:1 replicated", "parts": "cuda:0,cuda:1 sharded"}


def exact(vectors, queries, ids, count=10):
    rows = vectors.rows(vectors.positions(ids))
    return ids[np.argsort(-(queries @ rows.T), axis=1)[:, :count]]


def shared(found, expected):
    return np.mean([np.isin(got, true).mean() for got, true in zip(found, expected, strict=True)])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_kind_answers_with_passage_numbers_wherever_it_is_placed(
    gpu_faiss, clustered, plan, place, monkeypatch
):
    monkeypatch.setattr(gpu_opening, "_ADDED_ROWS", 100)  # lists are filled in several passes
    faiss, vectors = gpu_faiss(2), clustered(1200, 16)
    ids = vectors.ids[5::2]
    queries = vectors.rows(np.arange(0, 1200, 100))
    gpus, sharded = PLACES[place]
    index, reason = build_on_gpu(plan, gpus, vectors, ids, sharded=sharded)
    assert (index.device, reason) == (NAMES[place], "")
    found = index.candidates(queries, 10)
    assert np.isin(found, ids).all()
    assert shared(found, exact(vectors, queries, ids)) > (0.6 if plan.kind is GpuKind.IVF_PQ else 0.97)
    assert index.on_gpu.index.ntotal == ids.size
    assert {device for device, _, _ in faiss.searches} == {gpu.number for gpu in gpus}
    part = index.on_gpu.parts[0]
    assert part.ntotal == (-(-ids.size // 2) if sharded else ids.size)
    if plan.lists:
        assert part.reserved == part.ntotal  # so that want of room shows before every vector is read


def test_parts_are_made_where_copies_do_not_fit_and_none_where_parts_do_not(gpu_faiss, clustered):
    vectors = clustered(900)
    for plan in (PLANS["flat"], PLANS["half"]):
        gpu_faiss(2).rows_that_fit = 500
        index, _ = build_on_gpu(plan, TWO, vectors, vectors.ids)
        assert index.device == "cuda:0,cuda:1 sharded"
        assert np.array_equal(index.candidates(vectors.rows(np.array([7])), 1), [[vectors.ids[7]]])
        assert build_on_gpu(plan, ONE, vectors, vectors.ids) == (None, NO_ROOM)
        assert build_on_gpu(plan, TWO, vectors, vectors.ids, sharded=False) == (None, NO_ROOM)
        faiss = gpu_faiss(2)
        faiss.rows_that_fit = 400
        assert build_on_gpu(plan, TWO, vectors, vectors.ids) == (None, NO_ROOM)
        assert len(faiss.living) == 0


def test_what_is_wrong_otherwise_is_not_tried_in_parts(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(1), clustered(900)
    assert build_on_gpu(PLANS["half"], TWO, vectors, vectors.ids) == (None, "that GPU does not exist")
    assert [device for _, device in faiss.copied] == [0, 1]


def test_vectors_that_a_gpu_cannot_hold_are_not_read(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(2), clustered(900)
    whole = 2 * 900 * vectors.dimension
    half = tuple(Gpu(number, free_bytes=whole // 2) for number in range(2))
    index, _ = build_on_gpu(PLANS["flat"], half, vectors, vectors.ids)
    assert index.device == "cuda:0,cuda:1 sharded"
    assert [device for _, device in faiss.copied] == [0, 1]
    assert build_on_gpu(PLANS["flat"], half[:1], vectors, vectors.ids) == (None, NO_ROOM)


def test_the_flat_kind_keeps_half_precision(gpu_faiss, clustered):
    gpu_faiss(1)
    vectors = clustered(50)
    index, _ = build_on_gpu(PLANS["flat"], ONE, vectors, vectors.ids)
    stored = index.on_gpu.index.inner.inner.reconstruct_n(0, 50)
    assert np.array_equal(stored, stored.astype(np.float16).astype(np.float32))
    assert not np.array_equal(stored, vectors.rows(np.arange(50)))


def test_probes_reach_every_gpu(gpu_faiss, clustered):
    gpu_faiss(2)
    vectors = clustered(1200)
    index, _ = build_on_gpu(GpuPlan(GpuKind.IVF_FLAT, 16, 3), TWO, vectors, vectors.ids)
    for looking, probes in ((index, 3), (index.looking({"probes": 7}), 7), (index, 3)):
        looking.candidates(vectors.rows(np.array([7])), 10)
        assert [part.nprobe for part in index.on_gpu.parts] == [probes, probes]


def test_the_longest_codes_fit_because_their_tables_are_in_half_precision(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(1), clustered(700, 384)
    plan = GpuPlan(GpuKind.IVF_PQ, 16, 16, code_bytes=96)
    index, _ = build_on_gpu(plan, ONE, vectors, vectors.ids)
    assert index.on_gpu.index.inner.pq.M == 96
    pattern = cpu_faiss.index_factory(384, "IVF16,PQ96np", cpu_faiss.METRIC_INNER_PRODUCT)
    with pytest.raises(RuntimeError, match="Consider useFloat16LookupTables"):
        faiss.index_cpu_to_gpu(
            faiss.StandardGpuResources(), 0, pattern, faiss.GpuClonerOptions(use_cuvs=False)
        )


@pytest.mark.parametrize("kind", [PlanKind.IVF, PlanKind.IVF_SQ8])
@pytest.mark.parametrize("gpus", [ONE, TWO], ids=["one", "copies"])
def test_a_copy_proposes_what_the_cpu_index_proposes(gpu_faiss, clustered, gpus, kind):
    vectors = clustered(1200)
    cpu = build(kind, vectors, vectors.ids, int(vectors.ids[-1])).looking({"probes": 4, "factor": 3})
    faiss = gpu_faiss(2)
    queries = vectors.rows(np.arange(0, 1200, 100))
    copy, reason = copy_on_gpu(cpu, gpus, vectors)
    assert reason == ""
    assert np.array_equal(copy.candidates(queries, 10), cpu.candidates(queries, 10))
    assert cpu.faiss_index.nprobe == 1  # the CPU's own is left as it was
    assert (copy.plan.probes, copy.plan.factor, copy.through, copy.sha256) == (4, 3, cpu.through, cpu.sha256)
    assert [device for _, device in faiss.copied] == [gpu.number for gpu in gpus]
    assert not any(options.usePrecomputed for options, _ in faiss.copied)


def test_other_kinds_and_more_lists_than_a_gpu_looks_into_are_not_copied(gpu_faiss, clustered):
    vectors = clustered(1200)
    gpu_faiss(1)
    flat = CandidateIndex(engine_of(PlanKind.FLAT_FP16), cpu_faiss.IndexFlatIP(32), 1)
    assert copy_on_gpu(flat, ONE, vectors) == (None, Naming("copy flat-fp16"))
    lists = cpu_faiss.IndexIVFFlat(cpu_faiss.IndexFlatIP(32), 32, 4096)
    many = CandidateIndex(engine_of(PlanKind.IVF), lists, 1, parameters={"probes": 2049})
    said = "the CPU's index looks into 2049 lists, a GPU into 2048 at most"
    assert copy_on_gpu(many, ONE, vectors) == (None, said)
