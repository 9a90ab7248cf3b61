"""Searching on GPUs: an index on them proposes, the stored float32 vectors decide, the CPU stands by.

A GPU that fails in the middle of things is said once, in a plain sentence, and the CPU answers from then on.
Johnson et al. 2019, https://arxiv.org/abs/1702.08734

The tests have a stand-in for FAISS's GPU functions; tests/benchmarks/gpu.py ran on one H100. Several GPUs
have never been met: copies and parts were tried on one GPU twice.
"""

import ctypes
import functools
import importlib
import inspect
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import first_line
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.centroids import Chosen, Lists
from nearsay.indexer.plans.engines import engine_of
from nearsay.indexer.plans.plan import GpuKind, GpuPlan, PlanKind
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore

# Which GPUs FAISS can really use, and the reason in one sentence when it can use none.
#
# That CUDA is there says little: faiss-cpu may be installed instead of faiss-gpu, CUDA's libraries may be
# missing, the driver may be, or the GPU may not run the build's kernels. Each is found out and said.


NO_ROOM = "the GPU has no room for it"
_INSTALL = "Install it: pip uninstall faiss-cpu, then pip install 'nearsay[gpu]'"
_PROBE_SECONDS = 120  # CUDA's first start on a machine of many GPUs takes tens of seconds
# FAISS: Error in F at FILE:LINE: Error: …
_MESSAGE = re.compile(r"Error: (?:'.*?' failed: )?(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that FAISS computes on."""

    number: int  # as in cuda:NUMBER, within CUDA_VISIBLE_DEVICES
    free_bytes: int | None = None  # at the time of asking; None when torch cannot say

    @property
    def device(self) -> str:
        """As it is named on the command line."""
        return f"cuda:{self.number}"


@dataclass(frozen=True, slots=True)
class FaissGpus:
    """What FAISS can use."""

    gpus: tuple[Gpu, ...]
    reason: str  # why there is none, a sentence without its full stop; empty when there is one


def wants_gpu(device: str | None) -> bool:
    """Whether a library opened on this device is to search on GPUs.

    None and "auto" do not: making a GPU index reads every vector, which pays for a process that stays.
    """
    return device is not None and device.split(":")[0] == "cuda"


def requested_gpus(device: str | None, there: FaissGpus) -> tuple[tuple[Gpu, ...], str]:
    """The GPUs that a device names ("cuda": all of them), and what has to be said if there are none.

    The sentence is empty when no GPU was asked for.
    """
    if device is None or not wants_gpu(device):
        return (), ""
    if not there.gpus:
        return (), f"{there.reason}; the CPU searches"
    chosen = tuple(gpu for gpu in there.gpus if device in ("cuda", gpu.device))
    if chosen:
        return chosen, ""
    known = ", ".join(gpu.device for gpu in there.gpus)
    return (), f"FAISS cannot use {device}, only {known}; the CPU searches"


def find_gpus() -> FaissGpus:
    """The GPUs that FAISS has computed on; each is tried once a process, its free memory asked every time.

    One whose memory is taken is tried again the next time.
    """
    try:
        faiss = importlib.import_module("faiss")
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: faiss-gpu without CUDA's libraries
        if isinstance(error, ModuleNotFoundError) and error.name == "faiss":
            return FaissGpus((), f"FAISS is not installed. {_INSTALL}")
        return FaissGpus((), f"FAISS cannot be imported ({first_line(error)})")
    if not hasattr(faiss, "StandardGpuResources"):
        return FaissGpus((), f"the FAISS that is installed is faiss-cpu, which knows no GPU. {_INSTALL}")
    try:
        count = int(faiss.get_num_gpus())
    except RuntimeError as error:
        return FaissGpus((), f"FAISS cannot ask for GPUs ({plain_reason(error)})")
    if not count:
        return FaissGpus((), f"FAISS finds no GPU: {_why_none()}")
    tried = {number: _tried(number) for number in range(count)}
    if NO_ROOM in tried.values():
        _tried.cache_clear()
    gpus = tuple(Gpu(number, free_bytes(number)) for number, said in tried.items() if not said)
    reasons = [
        f"the memory of cuda:{number} is taken by another program (nvidia-smi shows by which)"
        if said == NO_ROOM
        else f"cuda:{number} is there but does not work ({said})"
        for number, said in tried.items()
        if said
    ]
    return FaissGpus(gpus, "" if gpus else "; ".join(reasons))


def free_bytes(number: int) -> int | None:
    """The memory that a GPU has left; None when torch cannot say: without CUDA, or where it is full."""
    import torch

    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        return None
    try:
        return int(torch.cuda.mem_get_info(number)[0])
    except RuntimeError:  # it has no room for what CUDA needs to answer
        return None


def plain_reason(error: BaseException) -> str:
    """What FAISS means by an error on a GPU, as a clause."""
    said = str(error)
    if isinstance(error, MemoryError) or "out of memory" in said or "alloc fail" in said:
        return NO_ROOM
    if "no kernel image" in said:
        return "this FAISS was built without code for this GPU"
    if "Invalid GPU device" in said:
        return "that GPU does not exist"
    message = _MESSAGE.search(said)
    return first_line(RuntimeError(message.group(1))) if message else first_line(error)


def _why_none() -> str:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides every one"
    return "there is an NVIDIA driver, so look at nvidia-smi"


@functools.cache
def _tried(number: int) -> str:
    """What a search on the GPU ended with; "" = well.

    FAISS ends the whole process when a kernel cannot be started (a GPU that is too old or too new for the
    build, a driver that is broken), which no `except` catches: the first search has a process of its own.
    """
    program = f"{inspect.getsource(_probe)}\nprint(_probe({number}), end='')"
    try:
        ran = subprocess.run(  # noqa: S603 - our own function, an integer
            [sys.executable, "-P", "-c", program],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_PROBE_SECONDS} seconds"
    if ran.returncode == 0:
        return plain_reason(RuntimeError(ran.stdout)) if ran.stdout else ""
    return plain_reason(RuntimeError(ran.stderr.strip() or f"exit status {ran.returncode}"))


def _probe(number: int) -> str:
    """Search two vectors on one GPU; "" if the answer is right, else what went wrong. Stands alone."""
    import faiss
    import numpy as np

    try:
        settings = faiss.GpuIndexFlatConfig()
        settings.device = number
        settings.useFloat16 = True
        index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), 8, settings)
        vectors = np.eye(2, 8, dtype=np.float32)
        index.add(vectors)
        found = index.search(vectors, 1)[1].ravel().tolist()
    except Exception as error:  # noqa: BLE001 - FAISS raises what it likes; all of it is an answer here
        return str(error) or type(error).__name__
    return "" if found == [0, 1] else f"it answers wrongly: {found}"


logger = logging.getLogger("nearsay")

MAX_PROBES: Final = 2048  # lists of a query: FAISS's GPU_MAX_SELECTION_K
_MOST: Final = 2048  # candidates of a query, likewise
_KIN: Final = {  # the CPU's kinds that behave alike, under filters above all
    GpuKind.FLAT_FP16: PlanKind.FLAT_FP16,
    GpuKind.IVF_FLAT: PlanKind.IVF,
    GpuKind.IVF_FP16: PlanKind.IVF,
    GpuKind.IVF_PQ: PlanKind.IVF_PQ,
}


@dataclass(slots=True)
class OnGpu:
    """One index on GPUs and who may use it: FAISS's GPU resources take one thread at a time."""

    index: Any  # FAISS's, over all GPUs; None once it failed or was given back: its GPU memory is free
    parts: tuple[Any, ...]  # those of single GPUs in it: nprobe is set on these
    device: str  # cuda:0, or "cuda:0,cuda:1 replicated"
    numbers: NDArray[np.int64] | None  # passage number by what FAISS answers; None: it answers numbers
    probes: int = 0  # as last set
    note: str = ""  # why it failed
    given_back: bool = False  # for another index to have its room
    turn: threading.Lock = field(default_factory=threading.Lock)

    def free(self) -> None:
        """Let go of the GPU memory, in one's turn."""
        self.index, self.parts = None, ()


class GpuIndex(CandidateIndex):
    """An index on one GPU or several over all passages up to `through`; safe to search from several threads.

    Threads take turns. FAISS's plain GPU build ignores selectors in silence, so none is passed: twice as many
    candidates are drawn as are asked for, or all that a GPU gives, and those that may not be found are
    dropped. What cannot be had in this way (more than 2,048 candidates, a filter that lets little through) is
    asked of the CPU.
    """

    def __init__(
        self,
        on_gpu: OnGpu,
        plan: GpuPlan,
        ids: NDArray[np.int64],
        through: int,
        vectors: VectorStore,
        stored: CandidateIndex | None,
        sha256: str = "",
    ) -> None:
        """ids: the passages in it, ascending; stored: the CPU's index that stands by, None = exact search."""
        super().__init__(engine_of(_KIN[plan.kind]), None, through, sha256, plan.parameters)
        self.plan = plan
        self.stored = stored
        self.on_gpu, self._ids, self._vectors = on_gpu, ids, vectors

    @property
    def device(self) -> str:
        """Where the next search is answered: cuda:0, several with how they share, or cpu after a failure."""
        return "cpu" if self.on_gpu.index is None else self.on_gpu.device

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said about its GPU, plain sentences."""
        return (self.on_gpu.note,) if self.on_gpu.note else ()

    def give_back(self) -> None:
        """Free its GPU memory after the search that is under way; from then on the CPU answers."""
        with self.on_gpu.turn:
            self.on_gpu.free()
            self.on_gpu.given_back = True

    def __len__(self) -> int:
        return int(self._ids.size)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the index, ascending."""
        return self._ids

    @property
    def rough(self) -> bool:
        """True: what a filter keeps out takes places among those that it proposes."""
        return True

    @property
    def lists(self) -> int:
        """The most lists that a search can look into; 0 where there are none."""
        return min(self.plan.lists, MAX_PROBES)

    def looking(self, parameters: Mapping[str, int]) -> Self:
        """The same index on the same GPUs, searched with other probes or another factor.

        Where it looks further, so does the CPU that stands by.
        """
        probes = min(parameters.get("probes", self.plan.probes), self.lists)
        plan = replace(self.plan, probes=probes, factor=parameters.get("factor", self.plan.factor))
        stored = self.stored
        if stored is not None and probes > self.plan.probes:
            stored = stored.wider(probes / self.plan.probes)
        return type(self)(self.on_gpu, plan, self._ids, self.through, self._vectors, stored, self.sha256)

    def serialise(self) -> NDArray[np.uint8]:
        """TypeError: what is on a GPU is made from what is stored."""
        raise TypeError("an index on a GPU is never stored")

    def candidates(
        self,
        queries: NDArray[np.float32],
        count: int,
        alive: NDArray[np.bool_] | None = None,
        lists: Lists | None = None,  # noqa: ARG002 - GPUs choose their own
    ) -> NDArray[np.int64]:
        """The `count` passages that the index holds for nearest, for each query; -1 = no more.

        queries: (n, d) unit length; alive: bool by passage number, True where a passage may be found, None =
        all; returns: (n, count).
        """
        most = min(_MOST, len(self))
        if count > _MOST:
            return self._on_cpu(queries, count, alive)
        kept = np.full((len(queries), count), -1, dtype=np.int64)
        short = np.arange(len(queries))
        for drawing in sorted({min(most, count if alive is None else 2 * count), most}):
            if not short.size:
                return kept
            found = self._searched(queries[short], drawing)
            if found is None:
                return self._on_cpu(queries, count, alive)
            kept[short] = _living(found, alive, count)
            # A row that ended in -1 was answered to its end: its lists hold no more, here as on the CPU.
            short = short[(kept[short, -1] < 0) & (found[:, -1] >= 0)]
        if short.size and most < len(self):
            kept[short] = self._on_cpu(queries[short], count, alive)
        return kept

    def nearest_many(
        self,
        vectors: VectorStore,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_] | None = None,
        chosen: Chosen | None = None,  # noqa: ARG002 - GPUs choose their own
    ) -> list[Candidates]:
        """The k nearest as far as the index shows them, scored by the stored vectors; (n, d) gives n."""
        return vectors.nearest_among_many(queries, self.proposed(queries, k, alive), k)

    def proposed(
        self,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_] | None = None,
        lists: Lists | None = None,  # noqa: ARG002 - GPUs choose their own
    ) -> NDArray[np.int64]:
        """The candidates that are scored to find k: `factor` times as many, as far as a GPU gives them.

        Where some may have to be skipped, a quarter of what it gives is left for those.
        """
        most = _MOST if alive is None else _MOST * 3 // 4
        wanted = max(k, min(self.plan.factor * k, most))
        return self.candidates(queries, wanted, alive)

    def _on_cpu(
        self, queries: NDArray[np.float32], count: int, alive: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        if self.stored is not None:
            return self.stored.candidates(queries, count, alive)
        found = np.full((len(queries), count), -1, dtype=np.int64)
        for row, near in enumerate(self._vectors.nearest_many(queries, count, alive)):
            found[row, : near.ids.size] = near.ids
        return found

    def _searched(self, queries: NDArray[np.float32], count: int) -> NDArray[np.int64] | None:
        """Passage numbers (n, count), -1 = no more, from the GPUs; None once they have failed."""
        there = self.on_gpu
        with there.turn:
            if there.index is None:
                return None
            try:
                if self.plan.probes != there.probes:
                    for part in there.parts:
                        part.nprobe = self.plan.probes
                    there.probes = self.plan.probes
                queries = np.ascontiguousarray(queries, dtype=np.float32)
                found: NDArray[np.int64] = there.index.search(queries, count)[1]
            except (MemoryError, RuntimeError) as error:
                there.note = f"{there.device} stopped answering ({plain_reason(error)}); the CPU searches"
                there.free()
                logger.warning("%s", there.note)
                return None
        return found if there.numbers is None else np.where(found >= 0, there.numbers[found], -1)


def _living(found: NDArray[np.int64], alive: NDArray[np.bool_] | None, count: int) -> NDArray[np.int64]:
    """The first `count` of each row that may be found, closed up, -1 = no more."""
    passing = found >= 0
    if alive is not None:
        passing &= (found < alive.size) & alive[np.minimum(found, alive.size - 1)]
    order = np.argsort(~passing, axis=1, kind="stable")[:, :count]
    kept = np.where(np.take_along_axis(passing, order, axis=1), np.take_along_axis(found, order, axis=1), -1)
    return np.pad(kept, ((0, 0), (0, count - kept.shape[1])), constant_values=-1)
