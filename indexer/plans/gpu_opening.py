"""Indexes made on GPUs, when a library is opened for one and when plans are measured, and why there is none.

A GPU index is never stored. It is made of the stored vectors or of the CPU's inverted lists and gone when the
process ends. FAISS's cloner puts an index on each GPU, an empty one that is trained and filled there or the
CPU's as it is; IndexReplicas join several, or IndexShards where copies do not fit. Whether it fits is left to
FAISS, which raises where memory is short.
https://github.com/facebookresearch/faiss/wiki/Faiss-on-the-GPU
"""

import time
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED, faiss_module
from nearsay.indexer.plans.engine import drawn as drawn_vectors
from nearsay.indexer.plans.engines import InvertedLists
from nearsay.indexer.plans.gpu import (
    MAX_PROBES,
    NO_ROOM,
    FaissGpus,
    Gpu,
    GpuIndex,
    OnGpu,
    find_gpus,
    free_bytes,
    plain_reason,
    requested_gpus,
    wants_gpu,
)
from nearsay.indexer.plans.plan import (
    EXACT_UP_TO,
    GpuKind,
    GpuMeasured,
    GpuPlan,
    GpuReport,
    PlanKind,
    RecallContract,
)
from nearsay.indexer.plans.trials import (
    DECIDING,
    KEEPS,
    PROPOSING,
    TIMED,
    Searcher,
    Stopwatch,
    drawn,
    given,
    judged,
    stopwatch,
    with_recall,
)
from nearsay.indexer.vectors.vector_store import VectorStore

_NEWER_SHARE: Final = 0.25  # of a GPU index: with more passages than that beside it, it is recreated
_LISTS_AT_MOST: Final = 65_536
_PATTERNS: Final = {  # for FAISS's index_factory
    GpuKind.FLAT_FP16: "Flat",
    GpuKind.IVF_FLAT: "IVF{lists},Flat",
    GpuKind.IVF_FP16: "IVF{lists},SQfp16",
    GpuKind.IVF_PQ: "IVF{lists},PQ{code_bytes}np",  # np: without polysemous training
}
_CODES: Final = (96, 64, 56, 48, 40, 32, 28, 24, 20, 16, 12, 8, 4)  # bytes a vector that IVF-PQ takes on GPUs
_ADDED_ROWS: Final = 262_144  # rows read and sent at a time to inverted lists
_COPIED: Final = (PlanKind.IVF, PlanKind.IVF_SQ8)  # the CPU's kinds that FAISS has on GPUs as well


def answering(
    device: str | None,
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    *,
    cpu: CandidateIndex | None,
    plan: GpuPlan | None,
    before: CandidateIndex | None = None,
    same: bool = True,
    refused: tuple[str, ...] = (),
) -> tuple[CandidateIndex | None, tuple[str, ...]]:
    """The index that answers under a library's device, and what has to be said; None: exact search.

    before:  what answered a moment ago, None = nothing. A GPU index is kept while the CPU index that stands
             by is the same, what is newer is little (that is searched exactly), and no earlier passage got
             its vector since. Else it is given back before the next one is made, and whoever still searches
             with it is answered by the CPU.
    same:    whether that was in the same generation and numbering
    refused: what was said then if no GPU index could be made; in the same generation it is not tried again
    """
    if not wants_gpu(device):
        return cpu, ()
    if isinstance(before, GpuIndex):
        stood_by, stands_by = (None if one is None else one.sha256 for one in (before.stored, cpu))
        if same and stood_by == stands_by and not before.on_gpu.given_back:
            held = np.zeros(max(alive.size, before.through + 1), dtype=np.bool_)
            held[before.ids()] = True
            missing = np.flatnonzero(alive & ~held[: alive.size])
            few = missing.size <= max(EXACT_UP_TO, _NEWER_SHARE * len(before))
            if few and np.all(missing > before.through):
                return before, before.notes
        before.give_back()
    elif same and refused:
        return cpu, refused
    index, notes = open_on_gpu(device, vectors, alive, cpu=cpu, plan=plan)
    return (cpu if index is None else index), notes


def open_on_gpu(
    device: str | None,
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    *,
    cpu: CandidateIndex | None = None,
    plan: GpuPlan | None = None,
    there: FaissGpus | None = None,
) -> tuple[GpuIndex | None, tuple[str, ...]]:
    """The index on the GPUs that the library's device names, and what has to be said; None: the CPU searches.

    alive: bool by passage number; cpu: the opened CPU index, None if the generation is searched exactly
    plan:  the GPU plan that was measured; without one, every vector in half precision if there is room (its
           recall needs no measuring), else a copy of the CPU's inverted lists with their probes
    A small collection without an index is left to the CPU, in silence: it answers in milliseconds.
    """
    if not wants_gpu(device) or (cpu is None and plan is None and len(vectors) <= EXACT_UP_TO):
        return None, ()
    gpus, reason = requested_gpus(device, there or find_gpus())
    if not gpus:
        return None, (reason,)
    chosen = plan or GpuPlan(GpuKind.FLAT_FP16, factor=2)
    index, reason = build_on_gpu(chosen, gpus, vectors, vectors.ids[alive[vectors.ids]], cpu=cpu)
    if index is None and plan is None and cpu is not None:
        index, why = copy_on_gpu(cpu, gpus, vectors)
        reason = f"{reason}; {why}"
    if index is not None:
        return index, ()
    named = ",".join(gpu.device for gpu in gpus)
    return None, (f"{chosen.kind} is not on {named} ({reason}); the CPU searches",)


def build_on_gpu(
    plan: GpuPlan,
    gpus: tuple[Gpu, ...],
    vectors: VectorStore,
    ids: NDArray[np.int64],
    *,
    cpu: CandidateIndex | None = None,
    sharded: bool | None = None,
) -> tuple[GpuIndex | None, str]:
    """An index over the passages `ids` (ascending) on the GPUs, or None and the reason as a clause.

    cpu:     answers what the GPUs cannot; None for exact search
    sharded: a part on each GPU (True), a copy on each (False), or whichever the memory allows (None)
    """
    reason = "there are no passages"
    for parted in (False, True) if sharded is None else (sharded,):
        if not ids.size or (parted and len(gpus) == 1):
            break
        try:
            on_gpu = OnGpu(*_filled(plan, gpus, vectors, ids, sharded=parted), numbers=ids)
            return GpuIndex(on_gpu, plan, ids, int(ids[-1]), vectors, cpu), ""
        except (MemoryError, RuntimeError) as error:
            reason = plain_reason(error)
        if reason != NO_ROOM:
            break
    return None, reason


def copy_on_gpu(
    cpu: CandidateIndex, gpus: tuple[Gpu, ...], vectors: VectorStore
) -> tuple[GpuIndex | None, str]:
    """The CPU's inverted lists on each GPU: the same codes and numbers, so the same candidates.

    returns: None and the reason as a clause where that cannot be
    """
    if cpu.kind not in _COPIED:
        return None, f"FAISS cannot copy {cpu.kind} to a GPU"
    if cpu.faiss_index is None:
        return None, "the CPU has several indexes, which nearsay index optimize makes one"
    probes = min(cpu.parameters["probes"], cpu.lists)
    if probes > MAX_PROBES:
        return None, f"the CPU's index looks into {probes} lists, a GPU into {MAX_PROBES} at most"
    try:
        on_gpu = OnGpu(*_cloned(cpu.faiss_index, gpus, sharded=False), numbers=None)
    except (MemoryError, RuntimeError) as error:
        return None, f"a copy of the CPU's index neither, {plain_reason(error)}"
    plan = GpuPlan(GpuKind.IVF_FP16, cpu.lists, probes, factor=cpu.parameters["factor"])
    return GpuIndex(on_gpu, plan, cpu.ids(), cpu.through, vectors, cpu, cpu.sha256), ""


def _filled(
    plan: GpuPlan, gpus: tuple[Gpu, ...], vectors: VectorStore, ids: NDArray[np.int64], *, sharded: bool
) -> tuple[Any, tuple[Any, ...], str]:
    """`_cloned` of the plan's empty index, trained and filled; FAISS numbers the passages from nought on."""
    each = -(-ids.size // len(gpus)) if sharded else ids.size
    at_once = _ADDED_ROWS
    if not plan.lists:
        # In one pass: FAISS reserves room for that, and numbers the rows of several parts in one alone.
        at_once, room = ids.size, 2 * each * vectors.dimension
        if any(gpu.free_bytes is not None and room > gpu.free_bytes for gpu in gpus):
            raise MemoryError  # before every vector is read: FAISS could only say so afterwards
    faiss = faiss_module()
    described = _PATTERNS[plan.kind].format(**plan.parameters)
    pattern = faiss.index_factory(vectors.dimension, described, faiss.METRIC_INNER_PRODUCT)
    if plan.kind is GpuKind.IVF_FP16:
        pattern.by_residual = False
    index, parts, device = _cloned(pattern, gpus, sharded=sharded)
    if plan.lists:
        for part in parts:
            part.cp.min_points_per_centroid = 1  # a warning on stderr, otherwise
        count = InvertedLists.training_vectors({"lists": plan.lists})
        index.train(drawn_vectors(vectors, ids, count, SEED))
        for part in parts:
            part.reserveMemory(each)
    for begin in range(0, ids.size, at_once):
        index.add(vectors.rows(vectors.positions(ids[begin : begin + at_once])))
    for part in parts if plan.lists else ():
        part.reclaimMemory()
    return index, parts, device


def _cloned(index: Any, gpus: tuple[Gpu, ...], *, sharded: bool) -> tuple[Any, tuple[Any, ...], str]:  # noqa: ANN401
    """FAISS's copy of a CPU index on GPUs, those of the single GPUs in it, and where that is, in words."""
    faiss, device = faiss_module(), ",".join(gpu.device for gpu in gpus)
    options = faiss.GpuClonerOptions()
    options.useFloat16 = True  # flat vectors; IVF-PQ's look-up tables, which fit the GPU's cache only so
    options.usePrecomputed = False  # needs much room, and inner product has no use for it
    options.use_cuvs = False  # which has no scalar-quantised lists
    # FAISS's cloner for several GPUs is not used: it makes parts in OpenMP's threads, where running out of
    # memory ends the process, and leaves a kind that GPUs do not have on the CPU, in silence.
    parts = tuple(
        faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), gpu.number, index, options) for gpu in gpus
    )
    if len(parts) == 1:
        return parts[0], parts, device
    if sharded:  # flat rows are numbered part after part, lists keep the numbers that they are given
        whole, join = faiss.IndexShards(index.d, True, not hasattr(index, "nlist")), "add_shard"
    else:
        whole, join = faiss.IndexReplicas(index.d, True), "addIndex"
    for part in parts:
        getattr(whole, join)(part)
    return whole, parts, f"{device} {'sharded' if sharded else 'replicated'}"


def gpu_plans(count: int, dimension: int) -> tuple[GpuPlan, ...]:
    """The plans worth measuring over so many vectors, the surest first; `ladder` has their steps."""
    lists = min(_LISTS_AT_MOST, InvertedLists.usual_lists(count))
    probes = min(lists, 16)
    plans = [
        GpuPlan(GpuKind.FLAT_FP16, factor=2),
        GpuPlan(GpuKind.IVF_FLAT, lists, probes),
        GpuPlan(GpuKind.IVF_FP16, lists, probes),
    ]
    size = next((size for size in _CODES if dimension % size == 0), 0)
    if size:
        plans.append(GpuPlan(GpuKind.IVF_PQ, lists, probes, code_bytes=size, factor=16))
    return tuple(plans)


def ladder(plan: GpuPlan) -> tuple[GpuPlan, ...]:
    """A plan at every step worth measuring, by ascending cost and recall: its probes doubled from four on."""
    most = min(plan.lists, MAX_PROBES)
    steps = [2**power for power in range(2, most.bit_length())] or [most]
    return tuple(replace(plan, probes=probes) for probes in steps)


def tune_on_gpu(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    contract: RecallContract,
    there: FaissGpus,
    queries: NDArray[np.float32] | None = None,
    *,
    timed: Stopwatch = stopwatch,
) -> GpuReport:
    """The fastest GPU search over the living passages that keeps the contract, with the whole report.

    The CPU's index stays what is stored and what stands by; the GPU plan says only what to make of the same
    vectors where a GPU is at hand. The contract's memory limit is the CPU's. One index at a time is on the
    GPUs; without GPUs the report says why.

    alive: bool by passage number; queries: (n, d) unit length, the user's own, or None for stored vectors.
    """
    if not there.gpus:
        return GpuReport(None, (), there.reason)
    generator = np.random.default_rng(SEED)
    if queries is None:
        trial = drawn(vectors, alive, PROPOSING + DECIDING, contract.at, generator)
    else:
        trial = given(queries, contract.at, generator, lambda some, k: vectors.nearest_many(some, k, alive))
    proposing, deciding = trial.parted()
    ids = vectors.ids[alive[vectors.ids]]
    rows: list[GpuMeasured] = []
    for plan in gpu_plans(int(ids.size), vectors.dimension):
        begin = time.perf_counter()
        index, reason = build_on_gpu(plan, there.gpus, vectors, ids)
        if index is None:
            rows.append(GpuMeasured(plan, verdict=f"not built: {reason}"))
            continue
        built = GpuMeasured(
            plan,
            index.device,
            bytes=_taken(there.gpus),
            build_seconds=round(time.perf_counter() - begin, 2),
        )
        for step in ladder(plan):
            looking = index.looking(step.parameters)
            searcher = Searcher(vectors, alive, trial.asked, looking)
            recalls, failing = judged(searcher.found, proposing, deciding, contract.recall)
            speed = timed(searcher, deciding.vectors[:TIMED])
            if index.notes:
                stopped = f"not measured: {index.notes[0]}"
                rows.append(replace(built, plan=step, device="cpu", verdict=stopped))
                break
            row = replace(
                built,
                plan=step,
                milliseconds_a_query=speed.milliseconds,
                queries_a_second=speed.queries_a_second,
                verdict=failing or KEEPS,
            )
            rows.append(with_recall(row, recalls))
            if not failing:
                break
        index.give_back()  # before the next is built: the loop's names hold it
    keeping = [row for row in rows if row.verdict == KEEPS]
    best = min(keeping, key=lambda row: (row.milliseconds_a_query or 0.0, row.bytes or 0), default=None)
    if best is None:
        return GpuReport(None, tuple(rows))
    slower = f"{KEEPS}; slower than {best.plan.kind}"
    verdicts = ["taken" if row is best else slower if row in keeping else row.verdict for row in rows]
    worded = (replace(row, verdict=verdict) for row, verdict in zip(rows, verdicts, strict=True))
    return GpuReport(best.plan, tuple(worded))


def _taken(gpus: tuple[Gpu, ...]) -> int | None:
    """The GPU memory that is gone since the GPUs were looked for; None where torch cannot say."""
    taken = 0
    for gpu in gpus:
        now = free_bytes(gpu.number)
        if now is None or gpu.free_bytes is None:
            return None
        taken += gpu.free_bytes - now
    return taken
