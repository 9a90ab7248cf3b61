"""The index that a library opened on a GPU searches with, and the sentence when there is none."""

import numpy as np
import pytest
from naming import Naming

from nearsay.indexer.plans import gpu_opening
from nearsay.indexer.plans.engines import build
from nearsay.indexer.plans.gpu import FaissGpus, Gpu
from nearsay.indexer.plans.gpu_opening import answering, build_on_gpu, open_on_gpu
from nearsay.indexer.plans.plan import GpuKind, GpuPlan, PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

LISTS = GpuPlan(GpuKind.IVF_FP16, 16, 16)


def everything(vectors):
    alive = np.zeros(int(vectors.ids[-1]) + 1, dtype=bool)
    alive[vectors.ids] = True
    return alive


def cpu_index(vectors, kind=PlanKind.IVF):
    return build(kind, vectors, vectors.ids, int(vectors.ids[-1])).looking({"probes": 4, "factor": 3})


@pytest.mark.parametrize("device", [None, "cpu", "auto", "mps"])
def test_a_library_that_names_no_gpu_searches_on_the_cpu_in_silence(gpu_faiss, clustered, device):
    gpu_faiss(1)
    vectors = clustered(300)
    assert open_on_gpu(device, vectors, everything(vectors), plan=LISTS) == (None, ())


def test_a_small_collection_without_an_index_stays_on_the_cpu(gpu_faiss, clustered):
    gpu_faiss(1)
    vectors = clustered(300)
    assert open_on_gpu("cuda", vectors, everything(vectors)) == (None, ())


def test_a_large_one_without_an_index_goes_to_the_gpu_whole(gpu_faiss, clustered, monkeypatch):
    monkeypatch.setattr(gpu_opening, "EXACT_UP_TO", 200)
    gpu_faiss(1)
    vectors = clustered(300)
    index, notes = open_on_gpu("cuda", vectors, everything(vectors))
    assert (index.plan.kind, index.device, notes) == (GpuKind.FLAT_FP16, "cuda:0", ())


def test_a_measured_plan_is_what_is_made(gpu_faiss, clustered):
    gpu_faiss(2)
    vectors = clustered(900)
    index, notes = open_on_gpu("cuda:1", vectors, everything(vectors), plan=LISTS)
    assert (index.plan, index.device, notes) == (LISTS, "cuda:1", ())
    both, _ = open_on_gpu("cuda", vectors, everything(vectors), plan=LISTS)
    assert both.device == "cuda:0,cuda:1 replicated"


def test_removed_passages_are_not_taken_to_the_gpu(gpu_faiss, clustered):
    gpu_faiss(1)
    vectors = clustered(900)
    alive = everything(vectors)
    alive[vectors.ids[100:]] = False
    index, _ = open_on_gpu("cuda", vectors, alive, plan=GpuPlan(GpuKind.FLAT_FP16))
    assert len(index) == 100
    assert index.through == vectors.ids[99]


def test_without_a_usable_gpu_the_reason_is_said_and_the_cpu_answers(clustered):
    vectors = clustered(300)
    none = FaissGpus((), "FAISS finds no GPU: there is no NVIDIA driver")
    index, notes = open_on_gpu("cuda", vectors, everything(vectors), plan=LISTS, there=none)
    assert index is None
    assert notes == (Naming("no GPU", "no NVIDIA driver", "CPU"),)


def test_this_machine_answers_in_words_whatever_it_has(clustered):
    # The real FAISS that is installed: without a GPU there is one sentence, with one an index.
    vectors = clustered(900)
    index, notes = open_on_gpu("cuda", vectors, everything(vectors), plan=LISTS)
    if index is None:
        assert len(notes) == 1
        assert notes[0].endswith("; the CPU searches")
    else:
        assert index.device.startswith("cuda:0")


def test_running_out_of_memory_is_said_in_plain_words(gpu_faiss, clustered):
    faiss = gpu_faiss(1)
    faiss.rows_that_fit = 500
    vectors = clustered(900)
    index, notes = open_on_gpu("cuda", vectors, everything(vectors), plan=LISTS)
    assert index is None
    assert notes == (Naming("gpu-ivf-fp16", "cuda:0", "no room", "CPU"),)


def test_unmeasured_the_cpus_lists_are_copied_when_the_vectors_do_not_fit(gpu_faiss, clustered):
    vectors = clustered(900)
    cpu = cpu_index(vectors, PlanKind.IVF_SQ8)
    gpu_faiss(1)
    there = FaissGpus((Gpu(0, free_bytes=900 * 32 + 10_000),), "")  # a byte a number, not two
    index, notes = open_on_gpu("cuda", vectors, everything(vectors), cpu=cpu, there=there)
    assert notes == ()
    assert index.plan == GpuPlan(GpuKind.IVF_FP16, cpu.lists, 4, factor=3)  # as it was measured on the CPU
    queries = vectors.rows(np.arange(0, 900, 90))
    assert np.array_equal(index.candidates(queries, 10), cpu.candidates(queries, 10))


def test_an_index_that_faiss_cannot_copy_is_named(gpu_faiss, clustered):
    vectors = clustered(900)
    flat = cpu_index(vectors, PlanKind.FLAT_FP16)
    gpu_faiss(1).rows_that_fit = 10
    index, (note,) = open_on_gpu("cuda", vectors, everything(vectors), cpu=flat)
    assert index is None
    assert note == Naming("gpu-flat-fp16", "cuda:0", "no room", "copy flat-fp16", "CPU")


def test_nothing_to_search_needs_no_gpu(gpu_faiss, clustered):
    gpu_faiss(1)
    vectors = clustered(300)
    assert build_on_gpu(LISTS, (Gpu(0),), vectors, vectors.ids[:0]) == (None, "there are no passages")


def test_a_gpu_index_is_kept_while_little_is_newer(gpu_faiss, clustered, monkeypatch):
    monkeypatch.setattr(gpu_opening, "EXACT_UP_TO", 10)
    gpu_faiss(1)
    whole = clustered(900)
    first = VectorStore(whole.segments[:1], 32)  # a third of it
    index, _ = answering("cuda", first, everything(first), cpu=None, plan=LISTS)
    again, _ = answering("cuda", first, everything(first), cpu=None, plan=LISTS, before=index)
    assert again is index
    larger, _ = answering("cuda", whole, everything(whole), cpu=None, plan=LISTS, before=index)
    assert larger is not index
    assert len(larger) == 900


def test_a_gpu_index_is_made_anew_once_an_earlier_passage_got_its_vector(gpu_faiss, clustered):
    gpu_faiss(1)
    whole = clustered(900)
    late = int(whole.ids[450])  # by a worker that took longer than those of what comes after
    held = np.flatnonzero(whole.ids != late)
    first = whole.part(whole.ids[held])
    index, _ = answering("cuda", first, everything(first), cpu=None, plan=LISTS)
    after, _ = answering("cuda", whole, everything(whole), cpu=None, plan=LISTS, before=index)
    assert after.candidates(whole.rows(np.array([450])), 1).tolist() == [[late]]


def test_a_gpu_that_stopped_is_not_started_over_and_over(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(1), clustered(900)
    index, _ = answering("cuda", vectors, everything(vectors), cpu=None, plan=LISTS)
    faiss.fails_at_search = "illegal access"
    index.candidates(vectors.rows(np.array([7])), 10)
    again, notes = answering("cuda", vectors, everything(vectors), cpu=None, plan=LISTS, before=index)
    assert again is index
    assert notes == (Naming("cuda:0", "(illegal access)", "CPU"),)


def test_without_a_gpu_the_cpus_index_answers(clustered):
    vectors = clustered(300)
    cpu = cpu_index(vectors)
    assert answering(None, vectors, everything(vectors), cpu=cpu, plan=LISTS) == (cpu, ())


@pytest.mark.parametrize("same", [True, False])
def test_a_gpu_index_makes_room_for_the_next_one(same, gpu_faiss, clustered, monkeypatch):
    monkeypatch.setattr(gpu_opening, "EXACT_UP_TO", 10)
    faiss, whole = gpu_faiss(1), clustered(900)
    first = VectorStore(whole.segments[:1], 32)
    index, _ = answering("cuda", first, everything(first), cpu=None, plan=LISTS)
    vectors = whole if same else first  # too much is newer, or another generation
    options = {"cpu": None, "plan": LISTS, "before": index, "same": same}
    after, notes = answering("cuda", vectors, everything(vectors), **options)
    assert (after.device, notes) == ("cuda:0", ())
    assert faiss.most_living == 1
    # Who still has the old one is answered, and rightly.
    queries = first.rows(np.array([7, 8]))
    assert (index.device, index.notes) == ("cpu", ())
    assert index.candidates(queries, 1).ravel().tolist() == first.ids[[7, 8]].tolist()
    again, _ = answering("cuda", first, everything(first), cpu=None, plan=LISTS, before=index)
    assert again is not index
    assert again.device == "cuda:0"


def test_a_gpu_index_that_could_not_be_made_is_not_tried_again_in_its_generation(gpu_faiss, clustered):
    faiss, vectors = gpu_faiss(1), clustered(900)
    faiss.rows_that_fit = 500
    index, said = answering("cuda", vectors, everything(vectors), cpu=None, plan=LISTS)
    assert index is None
    faiss.rows_that_fit, faiss.most_living = 10**9, 0
    options = {"cpu": None, "plan": LISTS, "refused": said}
    assert answering("cuda", vectors, everything(vectors), **options) == (None, said)
    assert faiss.most_living == 0
    anew, notes = answering("cuda", vectors, everything(vectors), same=False, **options)
    assert (anew.device, notes) == ("cuda:0", ())
