"""GPU indexes made from the vectors or copied from the CPU's."""

import faiss as cpu_faiss
import numpy as np
import pytest

from nearsay.indexer.plans import gpu_building
from nearsay.indexer.plans.devices import Gpu
from nearsay.indexer.plans.gpu_building import build_from_vectors, can_be_copied, copy_from_cpu
from nearsay.indexer.plans.gpu_placement import Placed
from nearsay.indexer.plans.gpu_plan import GpuKind, GpuPlan

ONE = Placed((Gpu(0),))
COPIES = Placed((Gpu(0), Gpu(1)))
PARTS = Placed((Gpu(0), Gpu(1)), sharded=True)
PLANS = {
    "flat": GpuPlan(GpuKind.FLAT_FP16),
    "lists": GpuPlan(GpuKind.IVF_FLAT, 16, 16),
    "half": GpuPlan(GpuKind.IVF_FP16, 16, 16),
    "codes": GpuPlan(GpuKind.IVF_PQ, 16, 16, code_bytes=16),
}


def answered(built, queries, count=10):
    _, found = built.index.search(queries, count)
    return found if built.numbers is None else np.where(found < 0, -1, built.numbers[found])


def exact(vectors, queries, ids, count=10):
    rows = vectors.rows(vectors.positions(ids))
    return ids[np.argsort(-(queries @ rows.T), axis=1)[:, :count]]


def shared(found, expected):
    return np.mean([np.isin(got, true).mean() for got, true in zip(found, expected, strict=True)])


@pytest.mark.parametrize("placed", [ONE, COPIES, PARTS], ids=["one", "copies", "parts"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_kind_answers_with_passage_numbers_wherever_it_is_placed(gpu_faiss, clustered, plan, placed):
    faiss, vectors = gpu_faiss(2), clustered(1200, 16)
    ids = vectors.ids[5::2]
    queries = vectors.rows(np.arange(0, 1200, 100))
    built = build_from_vectors(faiss, plan, placed, vectors, ids)
    found = answered(built, queries)
    assert np.isin(found, ids).all()
    assert shared(found, exact(vectors, queries, ids)) > (0.6 if plan.kind is GpuKind.IVF_PQ else 0.97)
    assert built.index.ntotal == ids.size
    assert {device for device, _, _ in faiss.searches} == {gpu.number for gpu in placed.gpus}


def test_parts_hold_each_passage_once_and_copies_all(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(2), clustered(1001, 16)
    for plan in PLANS.values():
        parts = build_from_vectors(faiss, plan, PARTS, vectors, vectors.ids)
        assert [leaf.ntotal for leaf in parts.leaves] == [500, 501]
        copies = build_from_vectors(faiss, plan, COPIES, vectors, vectors.ids)
        assert [leaf.ntotal for leaf in copies.leaves] == [1001, 1001]


def test_parts_share_one_set_of_lists(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(2), clustered(1200)
    built = build_from_vectors(faiss, PLANS["half"], PARTS, vectors, vectors.ids)
    first, second = (leaf.inner.quantizer.reconstruct_n(0, 16) for leaf in built.leaves)
    assert np.array_equal(first, second)


def test_a_large_flat_index_is_cut_into_pieces_that_need_no_growing(gpu_faiss, clustered, monkeypatch):
    monkeypatch.setattr(gpu_building, "_FLAT_ROWS", 100)
    faiss, vectors = gpu_faiss(2), clustered(450)
    queries = vectors.rows(np.arange(0, 450, 50))
    for placed, pieces in ((ONE, [100, 100, 100, 100, 50]), (PARTS, [100, 100, 25])):
        built = build_from_vectors(faiss, PLANS["flat"], placed, vectors, vectors.ids)
        assert [piece.ntotal for piece in built.leaves[0].parts] == pieces
        assert not built.leaves[0].threaded  # they share their GPU's resources
        found = answered(built, queries)
        assert shared(found, exact(vectors, queries, vectors.ids)) > 0.97
        assert np.array_equal(found[:, 0], vectors.ids[::50])


def test_the_flat_kind_keeps_half_precision(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(1), clustered(50)
    built = build_from_vectors(faiss, PLANS["flat"], ONE, vectors, vectors.ids)
    stored = built.index.inner.inner.reconstruct_n(0, 50)
    assert np.array_equal(stored, stored.astype(np.float16).astype(np.float32))
    assert not np.array_equal(stored, vectors.rows(np.arange(50)))


def test_probes_reach_every_gpu(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(2), clustered(1200)
    built = build_from_vectors(faiss, GpuPlan(GpuKind.IVF_FLAT, 16, 3), PARTS, vectors, vectors.ids)
    assert [leaf.nprobe for leaf in built.leaves] == [3, 3]
    built.set_probes(7)
    assert [leaf.nprobe for leaf in built.leaves] == [7, 7]


def test_the_longest_codes_fit_because_their_tables_are_in_half_precision(gpu_faiss):
    faiss = gpu_faiss(1)
    plan = GpuPlan(GpuKind.IVF_PQ, 16, 16, code_bytes=96)
    index = gpu_building._untrained(faiss, plan, faiss.StandardGpuResources(), 0, 384)
    assert index.inner.pq.M == 96
    with pytest.raises(RuntimeError, match="Consider useFloat16LookupTables"):
        faiss.GpuIndexIVFPQ(faiss.StandardGpuResources(), 384, 16, 96, 8, 0, faiss.GpuIndexIVFPQConfig())


def test_the_graph_is_given_all_vectors_and_answers_with_passage_numbers(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(1, cagra=True), clustered(300)
    built = build_from_vectors(faiss, GpuPlan(GpuKind.CAGRA, width=64), ONE, vectors, vectors.ids)
    queries = vectors.rows(np.arange(0, 300, 30))
    assert np.array_equal(answered(built, queries), exact(vectors, queries, vectors.ids))


def halves(vectors, kind=cpu_faiss.ScalarQuantizer.QT_fp16):
    index = cpu_faiss.IndexIVFScalarQuantizer(
        cpu_faiss.IndexFlatIP(vectors.dimension),
        vectors.dimension,
        16,
        kind,
        cpu_faiss.METRIC_INNER_PRODUCT,
        False,
    )
    rows = vectors.rows(np.arange(len(vectors)))
    index.train(rows)
    index.add_with_ids(rows, vectors.ids)
    return index


def test_inverted_lists_can_be_copied_and_other_kinds_cannot(gpu_faiss):
    faiss = gpu_faiss(1)
    flat = cpu_faiss.IndexFlatIP(32)
    product = cpu_faiss.METRIC_INNER_PRODUCT
    copied = {
        "fp16": cpu_faiss.IndexIVFScalarQuantizer(
            flat, 32, 4, cpu_faiss.ScalarQuantizer.QT_fp16, product, False
        ),
        "sq8": cpu_faiss.IndexIVFScalarQuantizer(
            flat, 32, 4, cpu_faiss.ScalarQuantizer.QT_8bit, product, False
        ),
        "flat lists": cpu_faiss.IndexIVFFlat(flat, 32, 4, product),
        "codes of 8 bits": cpu_faiss.IndexIVFPQ(flat, 32, 4, 8, 8, product),
        "codes of 4 bits": cpu_faiss.IndexIVFPQ(flat, 32, 4, 8, 4, product),
        "fast scan": cpu_faiss.IndexIVFPQFastScan(flat, 32, 4, 8, 4, product),
        "graph": cpu_faiss.IndexHNSWFlat(32, 8, product),
        "flat": flat,
    }
    assert [name for name, index in copied.items() if can_be_copied(faiss, index)] == [
        "fp16",
        "sq8",
        "flat lists",
        "codes of 8 bits",
    ]


@pytest.mark.parametrize("placed", [ONE, COPIES, PARTS], ids=["one", "copies", "parts"])
def test_a_copy_proposes_what_the_cpu_index_proposes(gpu_faiss, clustered, placed):
    faiss, vectors = gpu_faiss(2), clustered(1200)
    index = halves(vectors)
    queries = vectors.rows(np.arange(0, 1200, 100))
    copy = copy_from_cpu(faiss, index, placed)
    copy.set_probes(4)
    _, expected = index.search(queries, 10, params=cpu_faiss.SearchParametersIVF(nprobe=4))
    assert np.array_equal(answered(copy, queries), expected)
    assert index.nprobe == 1  # the CPU's own is left as it was


def test_copies_and_parts_are_asked_of_faiss_as_such(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(2), clustered(600)
    index = halves(vectors)
    for placed in (COPIES, PARTS):
        copy_from_cpu(faiss, index, placed)
        options, devices = faiss.copied[-1]
        assert devices == [0, 1]
        assert options.shard is placed.sharded
        assert options.useFloat16
        assert not options.usePrecomputed
