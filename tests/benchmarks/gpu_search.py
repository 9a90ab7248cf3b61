"""Whether GPU plans answer rightly, and how fast, beside the CPU's."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from gpu_vectors import HOW_MADE, made, store_of, truth

from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import drawn, faiss_module, fill
from nearsay.indexer.plans.engines import InvertedLists, build, engine_of
from nearsay.indexer.plans.gpu import FaissGpus, Gpu, GpuIndex
from nearsay.indexer.plans.gpu_opening import build_on_gpu, copy_on_gpu, gpu_plans, ladder
from nearsay.indexer.plans.plan import GpuKind, GpuPlan, PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["correctness", "speed"]

K = 10
TARGET = 0.95
JUDGED = 1000  # queries that recall is measured with
SINGLES = 200  # queries that are asked one at a time
CPU_QUERIES = 2000  # a CPU's batch needs no more to be steady
CPU_BUILD_SECONDS = 150  # to be left when an index of ten million is built on the CPU


def recall(found: np.ndarray, expected: np.ndarray) -> float:
    shares = [np.isin(got, true).mean() for got, true in zip(found[:, :K], expected[:, :K], strict=True)]
    return round(float(np.mean(shares)), 4)


def nearest(index: GpuIndex | CandidateIndex, store: VectorStore, queries: np.ndarray) -> np.ndarray:
    found = np.full((len(queries), K), -1, dtype=np.int64)
    for row, near in enumerate(index.nearest_many(store, queries, K)):
        found[row, : near.ids.size] = near.ids
    return found


def correctness(
    there: FaissGpus, count: int, dimension: int, device: str, seed: int
) -> list[dict[str, object]]:
    """Every kind on one GPU, and as two copies and two parts (on one GPU twice, if there is one only)."""
    vectors, queries = made(count, 200, dimension, device, seed)
    store = store_of(vectors)
    expected = truth(vectors, queries, K, device)
    one = there.gpus[0]
    other = there.gpus[1] if len(there.gpus) > 1 else one
    places = {"one": ((one,), False), "copies": ((one, other), False), "parts": ((one, other), True)}
    rows = []
    for plan in gpu_plans(count, dimension):
        for name, (gpus, sharded) in places.items():
            rows.append(_checked(plan, name, gpus, store, queries, expected, sharded=sharded))
    rows.append(_copied(store, queries, one, other, expected))
    return rows


def _checked(
    plan: GpuPlan,
    name: str,
    gpus: tuple[Gpu, ...],
    store: VectorStore,
    queries: np.ndarray,
    expected: np.ndarray,
    *,
    sharded: bool,
) -> dict[str, object]:
    row: dict[str, object] = {"kind": str(plan.kind), "placed": name}
    index, reason = build_on_gpu(plan, gpus, store, store.ids, sharded=sharded)
    if index is None:
        return {**row, "failed": reason}
    row["device"] = index.device
    widest = index.looking(ladder(plan)[-1].parameters)
    near = widest.nearest_many(store, queries, K)
    exact = [store.nearest_among(query, K, got.ids).scores for query, got in zip(queries, near, strict=True)]
    alive = np.ones(len(store) + 1, dtype=np.bool_)
    alive[expected[:, : K // 2].ravel()] = False
    left = widest.candidates(queries, K, alive)
    still = np.stack([found.ids for found in widest.nearest_many(store, queries, K, alive)])
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: nearest(widest, store, queries), range(8)))
    return {
        **row,
        "recall": recall(nearest(widest, store, queries), expected),
        "scores_are_the_stored_vectors": all(
            np.array_equal(got.scores, want) for got, want in zip(near, exact, strict=True)
        ),
        "removed_ones_found": int(np.count_nonzero(~alive[left[left >= 0]])),
        "recall_after_removal": recall(still, truth_among(store, queries, alive)),
        "eight_threads_agree": all(np.array_equal(answer, together[0]) for answer in together),
        "more_than_a_gpu_gives": int(np.count_nonzero(widest.candidates(queries[:1], 3000) >= 0)),
        "answered_on": widest.device,
        "notes": list(widest.notes),
    }


def truth_among(store: VectorStore, queries: np.ndarray, alive: np.ndarray) -> np.ndarray:
    return np.stack([found.ids for found in store.nearest_many(queries, K, alive)])


def _copied(
    store: VectorStore, queries: np.ndarray, one: Gpu, other: Gpu, expected: np.ndarray
) -> dict[str, object]:
    """The CPU's inverted lists copied: the same candidates, but for ties and rounding."""
    shape = {"lists": gpu_plans(len(store), store.dimension)[2].lists}
    cpu = build(PlanKind.IVF, store, store.ids, len(store), shape).looking(
        {"probes": min(16, shape["lists"])}
    )
    want = cpu.candidates(queries, K)
    row: dict[str, object] = {"kind": "copy of the CPU's ivf", "recall_of_the_cpu": recall(want, expected)}
    for name, gpus in {"one": (one,), "copies": (one, other)}.items():
        copy, reason = copy_on_gpu(cpu, gpus, store)
        row[f"same_as_cpu_{name}"] = reason if copy is None else recall(copy.candidates(queries, K), want)
    return row


def speed(
    there: FaissGpus,
    sizes: tuple[int, int, int],
    device: str,
    rounds: int,
    seed: int,
    left: Callable[[], float],
) -> dict[str, object]:
    """Queries a second of each plan at its first step with recall 0.95@10; `left`: seconds there still are.

    sizes: vectors, queries, dimension.
    """
    count, asked, dimension = sizes
    begin = time.perf_counter()
    vectors, queries = made(count, asked, dimension, device, seed)
    store = store_of(vectors)
    expected = truth(vectors, queries[:JUDGED], K, device)
    result: dict[str, object] = {
        "vectors": count,
        "queries": asked,
        "dimension": dimension,
        "how_made": HOW_MADE,
        "seconds_to_make": round(time.perf_counter() - begin, 1),
        "recall": f"of the {K} nearest by float32 products on {device}, {TARGET} wanted",
    }

    def of_cpu(cpu: CandidateIndex, shape: dict[str, int]) -> dict[str, object]:
        steps = [cpu.looking(step) for step in engine_of(cpu.kind).ladder(count, shape)]
        return _measured(cpu, steps, store, queries[:CPU_QUERIES], expected, rounds, left)

    rows, beside = [], []
    centres: dict[int, np.ndarray] = {}  # by lists: all are around the same
    # Those whose lists the CPU looks into as well come first: the time may not be enough for all of them.
    for plan in sorted(gpu_plans(count, dimension), key=lambda plan: plan.kind is not GpuKind.IVF_FP16):
        row: dict[str, object] = {"kind": str(plan.kind)}
        rows.append(row)
        if left() < 60:
            row["skipped"] = "the time was up"
            continue
        begin = time.perf_counter()
        index, reason = build_on_gpu(plan, there.gpus, store, store.ids)
        if index is None:
            row["skipped"] = reason
            continue
        row["build_seconds"] = round(time.perf_counter() - begin, 1)
        row["gpu_bytes_taken"] = _taken(there.gpus)
        row |= _measured(
            index,
            [index.looking(step.parameters) for step in ladder(plan)],
            store,
            queries,
            expected,
            rounds,
            left,
        )
        row["device"] = index.device
        row["notes"] = list(index.notes)
        if plan.kind is GpuKind.IVF_FP16 and left() > 120:
            beside = _copied_lists(_back_on_cpu(index, count), store, of_cpu, centres)
        del index
    result["gpu"] = rows
    result["cpu"] = beside + _on_cpu(store, of_cpu, left, centres)
    return result


def _measured(
    index: GpuIndex | CandidateIndex,
    steps: list[GpuIndex] | list[CandidateIndex],
    store: VectorStore,
    queries: np.ndarray,
    expected: np.ndarray,
    rounds: int,
    left: Callable[[], float],
) -> dict[str, object]:
    reached, step = 0.0, index
    for step in steps:
        reached = recall(nearest(step, store, queries[:JUDGED]), expected)
        if reached >= TARGET or left() < 40:
            break
    wanted = K * (step.plan.factor if isinstance(step, GpuIndex) else step.parameters["factor"])
    whole, proposed, single = [], [], []
    for number in range(rounds + 1):  # the first warms up and is not counted
        for taken, search in (
            (whole, lambda: step.nearest_many(store, queries, K)),
            (proposed, lambda: step.candidates(queries, wanted)),
        ):
            begin = time.perf_counter()
            search()
            if number:
                taken.append(time.perf_counter() - begin)
    for query in queries[:SINGLES]:
        begin = time.perf_counter()
        step.nearest_many(store, query[None], K)
        single.append(time.perf_counter() - begin)
    return {
        "parameters": dict(step.plan.parameters if isinstance(step, GpuIndex) else step.parameters),
        "recall": reached,
        "keeps_the_target": reached >= TARGET,
        "queries": len(queries),
        "queries_asked_one_at_a_time": min(len(queries), SINGLES),
        "queries_a_second": {
            "rescored": _rate(len(queries), whole),
            "proposed_only": _rate(len(queries), proposed),
        },
        "milliseconds_for_one": round(1000 * statistics.median(single), 3),
    }


def _rate(count: int, seconds: list[float]) -> dict[str, float]:
    return {
        "median": round(count / statistics.median(seconds), 1),
        "slowest": round(count / max(seconds), 1),
        "fastest": round(count / min(seconds), 1),
    }


def _taken(gpus: tuple[Gpu, ...]) -> list[int] | None:
    """What each GPU has less than before anything was on it."""
    import torch

    if not torch.cuda.is_available():
        return None
    torch.cuda.empty_cache()
    taken = []
    for gpu in gpus:
        free, _ = torch.cuda.mem_get_info(gpu.number)
        taken.append((gpu.free_bytes or free) - free)
    return taken


def _back_on_cpu(index: GpuIndex, count: int) -> CandidateIndex | None:
    """The GPU's inverted lists as the CPU's, so that both look into the same ones and none is built twice."""
    if index.on_gpu.index is None:
        return None
    faiss = faiss_module()
    inverted = faiss.index_gpu_to_cpu(index.on_gpu.parts[0])
    lists = inverted.invlists
    for number in range(lists.nlist):  # FAISS counted from nought, the store's passages do from one
        if size := lists.list_size(number):
            faiss.rev_swig_ptr(lists.get_ids(number), size)[:] += 1
    return CandidateIndex(engine_of(PlanKind.IVF), inverted, count) if inverted.ntotal == count else None


def _copied_lists(
    cpu: CandidateIndex | None,
    store: VectorStore,
    of_cpu: Callable[[CandidateIndex, dict[str, int]], dict[str, object]],
    centres: dict[int, np.ndarray],
) -> list[dict[str, object]]:
    """The GPU's lists searched by the CPU."""
    if cpu is None:
        return []
    shape = engine_of(cpu.kind).shapes(len(store), store.dimension)[0]
    shape = {**shape, "lists": int(cpu.faiss_index.nlist)}
    centres[shape["lists"]] = cpu.faiss_index.quantizer.reconstruct_n(0, shape["lists"])
    built = "on the GPU, and copied back"
    return [{"kind": str(cpu.kind), "device": "cpu", "built": built, **of_cpu(cpu, shape)}]


def _around(
    engine: InvertedLists, store: VectorStore, shape: dict[str, int], centres: dict[int, np.ndarray]
) -> CandidateIndex:
    """Lists of everything, around the centres that there are; the first of a number learns them."""
    lists = shape["lists"]
    sample = drawn(store, store.ids, engine.training_vectors(shape), 0)
    if lists in centres:
        index = engine.empty(store.dimension, shape)
        index.quantizer.add(centres[lists])  # FAISS leaves a full quantiser as it is
        index.train(sample)
    else:
        index = engine.trained(sample, shape)
        centres[lists] = index.quantizer.reconstruct_n(0, lists)
    fill(index, store, store.ids)
    return CandidateIndex(engine, index, len(store))


def _on_cpu(
    store: VectorStore,
    of_cpu: Callable[[CandidateIndex, dict[str, int]], dict[str, object]],
    left: Callable[[], float],
    centres: dict[int, np.ndarray],
) -> list[dict[str, object]]:
    """The CPU's compressed lists by kind."""
    lists = int(gpu_plans(len(store), store.dimension)[1].lists)
    rows: list[dict[str, object]] = []
    for kind in (PlanKind.IVF_PQ, PlanKind.IVF_SQ8):
        engine = engine_of(kind)
        assert isinstance(engine, InvertedLists)
        row: dict[str, object] = {"kind": str(kind), "device": "cpu"}
        rows.append(row)
        if left() < CPU_BUILD_SECONDS:
            row["skipped"] = "the time was up"
            continue
        shape = {**engine.shapes(len(store), store.dimension)[0], "lists": lists}
        begin = time.perf_counter()
        cpu = _around(engine, store, shape, centres)
        row["build_seconds"] = round(time.perf_counter() - begin, 1)
        row |= of_cpu(cpu, shape)
    return rows
