"""A GPU index for a library that is opened on a GPU; the CPU, and a plain sentence, where there can be none.

A GPU index is never stored. It is made from the CPU-kept segments (the vectors, or the CPU's inverted lists,
copied) when a library is opened for a GPU, and gone when the process ends.

None of this has run on a GPU; everything but FAISS's own GPU functions is tested with a stand-in for them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.devices import FaissGpus, Gpu, find_gpus, plain_reason, requested_gpus, wants_gpu
from nearsay.indexer.plans.engine import faiss_module
from nearsay.indexer.plans.gpu import ExactProposer, GpuIndex, OnGpu, Proposer
from nearsay.indexer.plans.gpu_building import build_from_vectors, can_be_copied, copy_from_cpu
from nearsay.indexer.plans.gpu_placement import Placement, place
from nearsay.indexer.plans.gpu_plan import MAX_PROBES, GpuKind, GpuPlan, expected_bytes
from nearsay.indexer.plans.plan import EXACT_UP_TO
from nearsay.indexer.plans.united import UnitedIndex
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["answering", "build_on_gpu", "open_on_gpu"]

_NEWER_SHARE = 0.25  # of a GPU index: with more passages than that beside it, it is made anew


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
             by is the same and what is newer is little: that is searched exactly. Else it is given back
             before the next one is made, and whoever still searches with it is answered by the CPU.
    same:    whether that was in the same generation and numbering
    refused: what was said then if no GPU index could be made; in the same generation it is not tried again
    """
    if not wants_gpu(device):
        return cpu, ()
    if isinstance(before, GpuIndex):
        if same and _hash(before.stored) == _hash(cpu) and not before.given_back:
            newer = int(np.count_nonzero(vectors.ids > before.through))
            if newer <= max(EXACT_UP_TO, _NEWER_SHARE * len(before)):
                return before, before.notes
        before.give_back()
    elif same and refused:
        return cpu, refused
    index, notes = open_on_gpu(device, vectors, alive, cpu=cpu, plan=plan)
    return (cpu if index is None else index), notes


def _hash(index: CandidateIndex | None) -> str | None:
    return None if index is None else index.sha256


def open_on_gpu(
    device: str | None,
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    *,
    cpu: Any = None,  # noqa: ANN401 - a CandidateIndex, of which FAISS's index is wanted as well
    plan: GpuPlan | None = None,
    placement: Placement = Placement.AUTO,
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
    ids = vectors.ids[alive[vectors.ids]]
    chosen = plan or GpuPlan(GpuKind.FLAT_FP16, factor=2)
    index, reason = build_on_gpu(chosen, gpus, vectors, ids, cpu=cpu, placement=placement)
    if index is not None:
        return index, ()
    if plan is None and cpu is not None:
        copy, why = _copied(gpus, cpu, placement)
        if copy is not None:
            return copy, ()
        reason = f"{reason}; {why}" if why else reason
    named = ",".join(gpu.device for gpu in gpus)
    return None, (f"{chosen.kind} is not on {named} ({reason}); the CPU searches",)


def build_on_gpu(
    plan: GpuPlan,
    gpus: tuple[Gpu, ...],
    vectors: VectorStore,
    ids: NDArray[np.int64],
    *,
    cpu: Proposer | None = None,
    placement: Placement = Placement.AUTO,
) -> tuple[GpuIndex | None, str]:
    """An index over the passages `ids` (rising) on the GPUs, or None and the reason as a clause.

    cpu: who answers what the GPUs cannot; None for exact search
    """
    if not ids.size:
        return None, "there are no passages"
    if plan.kind is GpuKind.CAGRA and not hasattr(faiss_module(), "GpuIndexCagra"):
        return None, "this FAISS was built without NVIDIA's cuVS"
    needed = expected_bytes(plan, int(ids.size), vectors.dimension)
    placed, reason = place(needed, gpus, placement, divisible=plan.kind is not GpuKind.CAGRA)
    if placed is None:
        return None, reason
    try:
        built = build_from_vectors(faiss_module(), plan, placed, vectors, ids)
    except (MemoryError, RuntimeError) as error:
        return None, plain_reason(error)
    on_gpu = OnGpu(built, placed, plan.probes)
    return GpuIndex(on_gpu, plan, ids, int(ids[-1]), cpu or ExactProposer(vectors)), ""


def _copied(
    gpus: tuple[Gpu, ...],
    cpu: Any,  # noqa: ANN401 - as in `open_on_gpu`
    placement: Placement,
) -> tuple[GpuIndex | None, str]:
    faiss = faiss_module()
    if isinstance(cpu, UnitedIndex):
        return None, "the CPU has several indexes, which nearsay index optimize makes one"
    original = cpu.faiss_index
    if not can_be_copied(faiss, original):
        return None, f"FAISS cannot copy {type(original).__name__} to a GPU"
    lists, probes = int(original.nlist), int(cpu.parameters["probes"])
    if min(probes, lists) > MAX_PROBES:
        return None, f"the CPU's index looks into {probes} lists, a GPU into {MAX_PROBES} at most"
    plan = GpuPlan(GpuKind.IVF_FP16, lists, min(probes, lists), factor=int(cpu.parameters["factor"]))
    placed, reason = place(_copied_bytes(original), gpus, placement)
    if placed is None:
        return None, f"a copy of the CPU's index neither, {reason}"
    try:
        built = copy_from_cpu(faiss, original, placed)
        built.set_probes(plan.probes)
    except (MemoryError, RuntimeError) as error:
        return None, f"a copy of the CPU's index neither, {plain_reason(error)}"
    return GpuIndex(OnGpu(built, placed, plan.probes), plan, cpu.ids(), cpu.through, cpu, cpu.sha256), ""


def _copied_bytes(index: Any) -> int:  # noqa: ANN401 - FAISS has no types
    return int(index.ntotal) * (int(index.code_size) + 8) + int(index.nlist) * int(index.d) * 4
