"""Does a GPU answer and train rightly, and how much faster?

Parts, each of which can be left out:
  environment  what is installed, which GPUs FAISS computes on, and the reason where it computes on none
  correctness  every GPU plan against exact search: one GPU, copies, parts; removed passages; threads; a copy
               of the CPU's index; a GPU that is full
  encoding     passages a second at about 68 tokens for the bundled encoder and for one of BERT-base's size
               with random weights, beside SentenceTransformer.encode; FLOP/s as a share of the bf16 peak
  search       queries a second of each GPU plan at recall 0.95@10 on ten million made vectors, beside the
               CPU's
  sentences    rows a second of training the same two encoders by multiple negatives ranking in bf16, beside
               SentenceTransformerTrainer on the same rows, batches and lengths; seconds that making a step's
               data takes beside the step's own, also with 4,096 rows; where the host waits for the GPU
  pretraining  tokens a second of pretraining a BERT-base in bf16 at 128 and 512 tokens, as a share of the
               bf16 peak, beside transformers' Trainer on the same rows; data and waits as above
               Both peers run as they come, and without cuDNN's attention, as nearsay does
  compiled     the same pretraining through torch.compile, with the number of graphs that were compiled
  attention    milliseconds of one layer's attention on texts of many lengths, forward and backward: padded
               and masked, as trainings compute it, or the texts laid end to end
Both trainings also take a few steps in float32 without dropout, in which the losses are to be the peer's.

All of it takes two calls of less than ten minutes each:

    python tests/benchmarks/gpu.py --parts environment correctness encoding search --out one.json
    python tests/benchmarks/gpu.py --parts environment attention sentences pretraining compiled --out two.json

A call ends by itself after nine minutes and the half minute that its imports take: what there is no time left
for is left out, and says so. After each part the file holds what was found until then. A part that needs a
GPU, or a peer that is not installed, is left out with the reason. `--dry` runs every part at a small size, on
a stand-in for FAISS's GPU functions where there is no GPU: its figures say nothing, only that the script
runs.

    python tests/benchmarks/gpu.py [--parts environment search] [--vectors 10000000] [--out FILE.json]
"""

import argparse
import importlib.util
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from machine import commit, machine

from nearsay.indexer.plans import gpu
from nearsay.indexer.plans.engine import faiss_module
from nearsay.indexer.plans.gpu import FaissGpus, find_gpus
from nearsay.indexer.plans.gpu_opening import build_on_gpu
from nearsay.indexer.plans.plan import GpuKind, GpuPlan

SEED = 1
ON_GPU = "torch finds no GPU"
PARTS = (
    "environment",
    "correctness",
    "encoding",
    "search",
    "attention",
    "sentences",
    "pretraining",
    "compiled",
)
MINUTES = 9.0  # without the imports


def stand_in() -> None:
    """Two GPUs that compute on the CPU."""
    path = Path(__file__).parents[1] / "indexer" / "plans" / "gpu" / "stand_in_faiss.py"
    spec = importlib.util.spec_from_file_location("stand_in_faiss", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["faiss"] = module.StandInFaiss(2)
    sys.modules["faiss"].__spec__ = importlib.util.find_spec("numpy")  # peers ask whether there is a FAISS
    gpu._tried = lambda _number: ""


def environment(there: FaissGpus) -> dict[str, object]:
    found: dict[str, object] = {"gpus": [asdict(gpu) for gpu in there.gpus], "reason": there.reason}
    packages = ("faiss-gpu", "faiss-cpu", "faiss-gpu-cuvs", "torch", "nvidia-cublas-cu12", "nvidia-cublas")
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    faiss = faiss_module()
    return {
        **found,
        "faiss_options": faiss.get_compile_options().split(),
        "torch_cuda": torch.version.cuda,
        "platform": platform.platform(),
    }


def full_gpu(there: FaissGpus) -> dict[str, object]:
    """Whether a GPU without room is said in plain words: most of it is taken first, and nobody told."""
    from gpu_vectors import store_of

    first = there.gpus[0]
    if not torch.cuda.is_available():
        return {"skipped": "torch has no CUDA to fill the GPU with"}
    free, _ = torch.cuda.mem_get_info(first.number)
    taken = torch.empty(max(0, free - 3 * 1024**3), dtype=torch.uint8, device=first.device)
    vectors = np.random.default_rng(SEED).standard_normal((1_000_000, 2048), dtype=np.float32)  # 4 GB in half
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    unknown = gpu.Gpu(first.number)
    index, reason = build_on_gpu(
        GpuPlan(GpuKind.FLAT_FP16), (unknown,), store_of(vectors), np.arange(1, 1_000_001)
    )
    del taken
    torch.cuda.empty_cache()
    return {"index": None if index is None else index.device, "reason": reason}


def work_of(
    chosen: argparse.Namespace, there: FaissGpus, device: str, left: Callable[[], float]
) -> dict[str, tuple[bool, str, Callable[[], object]]]:
    """For each part whether it can be done, the reason where it cannot, and what does it."""
    real = device != "cpu"

    def correct() -> object:
        from gpu_search import correctness

        small = 2000 if chosen.dry else 200_000
        return {
            "plans": correctness(there, small, chosen.dimension, device, SEED),
            "full_gpu": full_gpu(there) if real else {"skipped": "no GPU"},
        }

    def encoded() -> object:
        from gpu_encoding import encoding

        return encoding(device, chosen.rounds, chosen.passages, SEED, dry=chosen.dry)

    def searched() -> object:
        from gpu_search import speed

        sizes = (chosen.vectors, chosen.queries, chosen.dimension)
        return speed(there, sizes, device, chosen.rounds, SEED, left)

    def attended() -> object:
        from gpu_attention import attention

        return attention(device, SEED, dry=chosen.dry)

    def sentences() -> object:
        from gpu_sentences import sentence_training

        return sentence_training(device, left, SEED, dry=chosen.dry)

    def pretrained() -> object:
        from gpu_pretraining import pretraining

        return pretraining(device, left, SEED, dry=chosen.dry)

    def compiled() -> object:
        from gpu_pretraining import compiled_pretraining

        return compiled_pretraining(device, left, SEED, dry=chosen.dry)

    return {
        "environment": (True, "", lambda: environment(there)),
        "correctness": (bool(there.gpus), there.reason, correct),
        "encoding": (real or chosen.dry, ON_GPU, encoded),
        "search": (bool(there.gpus), there.reason, searched),
        "attention": (real or chosen.dry, ON_GPU, attended),
        "sentences": (real or chosen.dry, ON_GPU, sentences),
        "pretraining": (real or chosen.dry, ON_GPU, pretrained),
        "compiled": (real or chosen.dry, ON_GPU, compiled),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="all if left out")
    parser.add_argument("--vectors", type=int, default=10_000_000, help="vectors that are searched")
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=10_000, help="queries of a batch")
    parser.add_argument("--passages", type=int, default=40_000, help="passages that are encoded")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="the time that all parts may take")
    parser.add_argument("--dry", action="store_true", help="run every part small, without a GPU if need be")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    began = time.perf_counter()

    def left() -> float:
        return 60 * chosen.minutes - (time.perf_counter() - began)

    there = find_gpus()
    if chosen.dry:
        chosen.vectors, chosen.dimension, chosen.queries = 6000, 32, 200
        chosen.passages, chosen.rounds = 64, 1
        if not there.gpus and {"correctness", "search"} & set(chosen.parts):
            stand_in()
            there = find_gpus()
    real = torch.cuda.is_available()
    work = work_of(chosen, there, "cuda:0" if real else "cpu", left)
    result: dict[str, object] = {
        "question": "does a GPU answer and train rightly, and how much faster",
        "commit": commit(),
        "machine": machine(),
        "gpu": torch.cuda.get_device_name() if real else None,
        "seed": SEED,
        "dry": "a dry run: no figure here is a GPU's" if chosen.dry else False,
    }
    for part in PARTS:
        possible, reason, run = work[part]
        if part not in chosen.parts:
            continue
        if not possible:
            result[part] = {"skipped": reason}
        elif left() < 30:
            result[part] = {"skipped": "the time was up"}
        else:
            begin = time.perf_counter()
            try:
                result[part] = run()
            except ModuleNotFoundError as error:
                result[part] = {"skipped": f"{error.name} is not installed"}
            except Exception:  # noqa: BLE001 - one part that breaks must not cost the figures of the others
                result[part] = {"failed": traceback.format_exc()}
            sys.stderr.write(f"{part}: {time.perf_counter() - begin:.1f} s\n")
        written = json.dumps(result, indent=2)
        if chosen.out:
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
