"""Which GPUs FAISS can use, and the sentence when it can use none."""

import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from naming import Naming

from nearsay.indexer.plans import gpu
from nearsay.indexer.plans.gpu import (
    FaissGpus,
    Gpu,
    find_gpus,
    plain_reason,
    requested_gpus,
    wants_gpu,
)

TWO = FaissGpus((Gpu(0), Gpu(1)), "")
NONE = FaissGpus((), "FAISS finds no GPU: there is no NVIDIA driver")


def no_probe(_number: int) -> str:
    raise AssertionError("no GPU was to be tried")


def no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def import_fails_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(gpu.importlib, "import_module", lambda _name: (_ for _ in ()).throw(error))


def test_faiss_cpu_is_named_with_the_way_out(monkeypatch):
    # Like faiss-cpu 1.15: it has get_num_gpus, which gives 0, and no resources.
    cpu = types.ModuleType("faiss")
    cpu.get_num_gpus = lambda: 0
    monkeypatch.setitem(sys.modules, "faiss", cpu)
    found = find_gpus()
    assert found.gpus == ()
    assert found.reason == Naming("faiss-cpu", "pip uninstall faiss-cpu", "pip install 'nearsay[gpu]'")


def test_a_missing_faiss_is_named(monkeypatch):
    import_fails_with(monkeypatch, ModuleNotFoundError("No module named 'faiss'", name="faiss"))
    assert find_gpus().reason.startswith("FAISS is not installed. Install it")


def test_missing_cuda_libraries_are_named_in_faiss_own_words(monkeypatch):
    # What faiss-gpu 1.15.1 raises on import when its CUDA wheels are not there.
    said = (
        "faiss-gpu installed but nvidia-cuda-runtime-cu12 is missing — "
        "pip install 'nvidia-cuda-runtime-cu12>=12.6,<13'"
    )
    import_fails_with(monkeypatch, RuntimeError(said))
    assert find_gpus().reason == f"FAISS cannot be imported ({said})"


@pytest.mark.parametrize(
    ("driver", "visible", "said"),
    [
        (False, None, "there is no NVIDIA driver"),
        (True, "", "CUDA_VISIBLE_DEVICES hides every one"),
        (True, "-1", "CUDA_VISIBLE_DEVICES hides every one"),
        (True, "0", "nvidia-smi"),
    ],
)
def test_no_gpu_is_said_with_its_likeliest_cause(gpu_faiss, monkeypatch, driver, visible, said):
    gpu_faiss(0)
    monkeypatch.setattr(gpu, "_tried", no_probe)
    if not driver:
        monkeypatch.setattr(gpu.ctypes, "CDLL", no_library)
    else:
        monkeypatch.setattr(gpu.ctypes, "CDLL", lambda _name: None)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert said in find_gpus().reason


def test_gpus_that_work_are_found_and_those_that_do_not_are_left_out(gpu_faiss, monkeypatch):
    gpu_faiss(3)
    monkeypatch.setattr(gpu, "_tried", lambda number: "" if number != 1 else "it answers wrongly: [1, 0]")
    found = find_gpus()
    assert [gpu.device for gpu in found.gpus] == ["cuda:0", "cuda:2"]
    assert found.reason == ""


def test_when_every_gpu_fails_each_reason_is_said(gpu_faiss, monkeypatch):
    gpu_faiss(2)
    monkeypatch.setattr(gpu, "_tried", lambda number: f"reason {number}")
    assert find_gpus().reason == Naming(
        "cuda:0", "does not work", "reason 0", "cuda:1", "does not work", "reason 1"
    )


def test_a_gpu_whose_memory_is_taken_is_said_to_be_so_and_tried_again(gpu_faiss, monkeypatch):
    answers = ["x (cudaMalloc error out of memory [2])", ""]
    tried = gpu._tried
    gpu_faiss(1)
    monkeypatch.setattr(gpu, "_tried", tried)

    def answer(*_args, **_options):
        return subprocess.CompletedProcess([], 0, answers.pop(0), "")

    monkeypatch.setattr(gpu.subprocess, "run", answer)
    gpu._tried.cache_clear()
    found = find_gpus()
    assert found.gpus == ()
    assert found.reason == Naming("cuda:0", "another program", "nvidia-smi")
    assert [found.device for found in find_gpus().gpus] == ["cuda:0"]
    gpu._tried.cache_clear()


def test_a_gpu_too_full_to_say_how_much_memory_it_has_left_says_nothing(monkeypatch):
    def full(_number):
        raise torch.AcceleratorError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", full)
    assert gpu.free_bytes(0) is None


@pytest.mark.parametrize(
    ("device", "expected"),
    [(None, False), ("auto", False), ("cpu", False), ("mps", False), ("cuda", True), ("cuda:1", True)],
)
def test_gpus_are_used_only_when_named(device, expected):
    assert wants_gpu(device) is expected
    if not expected:
        assert requested_gpus(device, TWO) == ((), "")


def test_a_device_names_all_gpus_or_one():
    assert requested_gpus("cuda", TWO) == (TWO.gpus, "")
    assert requested_gpus("cuda:1", TWO) == ((Gpu(1),), "")


def test_without_a_usable_gpu_the_sentence_says_why_and_who_answers():
    assert requested_gpus("cuda", NONE) == (
        (),
        Naming("no GPU", "no NVIDIA driver", "CPU"),
    )
    assert requested_gpus("cuda:7", TWO)[1] == Naming("cuda:7", "cuda:0, cuda:1", "CPU")


@pytest.mark.parametrize(
    ("error", "clause"),
    [
        (MemoryError(), "the GPU has no room for it"),
        (RuntimeError("x (cudaMalloc error out of memory [2])"), "the GPU has no room for it"),
        (RuntimeError("StandardGpuResources: alloc fail type"), "the GPU has no room for it"),
        (
            RuntimeError("CUDA error 209 no kernel image is available for execution on the device"),
            "this FAISS was built without code for this GPU",
        ),
        # As faiss-gpu 1.15.1 says it on a machine without a GPU.
        (
            RuntimeError(
                "Error in faiss::gpu::GpuIndex::GpuIndex(int) at /project/faiss/gpu/GpuIndex.cu:65: "
                "Error: 'config_.device < getNumDevices()' failed: Invalid GPU device 0"
            ),
            "that GPU does not exist",
        ),
        (RuntimeError("Error in f at F.cu:1: Error: 'a < b' failed: too few\nmore"), "too few"),
        (RuntimeError("something else\nat line 7"), "something else"),
    ],
)
def test_faiss_errors_become_a_clause(error, clause):
    assert plain_reason(error) == clause


@pytest.mark.parametrize(
    ("status", "out", "err", "said"),
    [
        (0, "", "", ""),
        (0, "Error in f at F:1: Error: 'x' failed: bad", "", "bad"),
        (-6, "", "Faiss assertion 'err == cudaSuccess' failed: no kernel image", "without code for this GPU"),
        (-11, "", "", "exit status -11"),
    ],
)
def test_a_probe_that_ends_its_process_is_an_answer_too(monkeypatch, status, out, err, said):
    gpu._tried.cache_clear()
    ran = subprocess.CompletedProcess([], status, out, err)
    monkeypatch.setattr(gpu.subprocess, "run", lambda *_args, **_options: ran)
    answer = gpu._tried(0)
    gpu._tried.cache_clear()
    assert said in answer
    assert bool(answer) is bool(said)


def test_a_probe_that_hangs_is_given_up(monkeypatch):
    def hang(*_args, **_options):
        raise subprocess.TimeoutExpired("probe", 120)

    gpu._tried.cache_clear()
    monkeypatch.setattr(gpu.subprocess, "run", hang)
    assert gpu._tried(0) == "no answer in 120 seconds"
    gpu._tried.cache_clear()


def test_the_probe_really_runs_in_a_process_of_its_own_and_brings_back_a_reason():
    # With faiss-cpu, or faiss-gpu without a GPU, the probe must come back with words, not with a traceback.
    import faiss

    if faiss.get_num_gpus():
        pytest.skip("there is a GPU")
    gpu._tried.cache_clear()
    said = gpu._tried(0)
    gpu._tried.cache_clear()
    assert said
    assert "Traceback" not in said


def test_the_probe_searches_and_checks_the_answer(gpu_faiss, monkeypatch):
    faiss = gpu_faiss(1)
    assert gpu._probe(0) == ""
    assert faiss.searches == [(0, 2, 1)]
    assert "Invalid GPU device 3" in gpu._probe(3)
    zeros = np.zeros((2, 1), dtype=np.int64)
    wrong = types.SimpleNamespace(add=lambda _vectors: None, search=lambda _queries, _k: (None, zeros))
    monkeypatch.setattr(faiss, "GpuIndexFlatIP", lambda *_args: wrong, raising=False)
    assert gpu._probe(0) == "it answers wrongly: [0, 0]"
