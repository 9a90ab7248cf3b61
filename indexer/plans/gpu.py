"""Searching on GPUs: they propose passages, the stored float32 vectors decide, the CPU stands by.

A GPU that fails in the middle of things is said once, in a plain sentence, and the CPU answers from then on.
Johnson et al. 2019, https://arxiv.org/abs/1702.08734

None of this has run on a GPU; everything but FAISS's own GPU functions is tested with a stand-in for them.
"""

import logging
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.devices import plain_reason
from nearsay.indexer.plans.engine import faiss_module
from nearsay.indexer.plans.engines import engine_of
from nearsay.indexer.plans.gpu_building import BuiltIndex
from nearsay.indexer.plans.gpu_placement import Placed
from nearsay.indexer.plans.gpu_plan import MAX_PROBES, GpuKind, GpuPlan
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore

__all__ = ["ExactProposer", "GpuIndex", "OnGpu", "Proposer"]

logger = logging.getLogger("nearsay")

_KIN: Final = {  # the CPU's kinds that behave alike, under filters above all
    GpuKind.FLAT_FP16: PlanKind.FLAT_FP16,
    GpuKind.IVF_FLAT: PlanKind.IVF,
    GpuKind.IVF_FP16: PlanKind.IVF,
    GpuKind.IVF_PQ: PlanKind.IVF_PQ,
    GpuKind.CAGRA: PlanKind.HNSW,
}


class Proposer(Protocol):
    """What answers on the CPU when a GPU cannot: an opened `CandidateIndex`, or an `ExactProposer`."""

    def candidates(
        self, queries: NDArray[np.float32], count: int, alive: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """The `count` nearest of each query as far as it knows, (n, count), -1 = no more."""


@dataclass(frozen=True, slots=True)
class ExactProposer:
    """Exact search over the stored vectors, in the shape of an index."""

    vectors: VectorStore

    def candidates(
        self, queries: NDArray[np.float32], count: int, alive: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """The `count` nearest of each query, (n, count), -1 = no more."""
        found = np.full((len(queries), count), -1, dtype=np.int64)
        for row, query in enumerate(queries):
            ids = self.vectors.nearest(query, count, alive).ids
            found[row, : ids.size] = ids
        return found


@dataclass(slots=True)
class OnGpu:
    """One index on GPUs and who may use it: FAISS's GPU resources take one thread at a time."""

    built: BuiltIndex | None  # None once it failed or was given back: its GPU memory is free
    placed: Placed
    probes: int  # as last set
    note: str = ""  # why it failed
    given_back: bool = False  # for another index to have its room
    turn: threading.Lock = field(default_factory=threading.Lock)


class GpuIndex(CandidateIndex):
    """An index on one GPU or several over all passages up to `through`; safe to search from several threads.

    Threads take turns. FAISS's plain GPU build ignores selectors in silence, so none is passed: more
    candidates are drawn than are asked for and those that may not be found are dropped. What cannot be had
    in this way (a filter that lets little through, more than 2,048 candidates) is asked of the CPU.
    """

    def __init__(
        self,
        on_gpu: OnGpu,
        plan: GpuPlan,
        ids: NDArray[np.int64],
        through: int,
        cpu: Proposer,
        sha256: str = "",
    ) -> None:
        """Use `open_on_gpu` or `build_on_gpu`; `ids`: the passages in it, rising."""
        super().__init__(engine_of(_KIN[plan.kind]), None, through, sha256, plan.parameters)
        self.plan = plan
        self.cpu = cpu
        self._on_gpu = on_gpu
        self._ids = ids
        self._share: tuple[weakref.ref[NDArray[np.bool_]], float] | None = None

    @property
    def stored(self) -> CandidateIndex | None:
        """The CPU's index that stands by; None where that is exact search."""
        return self.cpu if isinstance(self.cpu, CandidateIndex) else None

    @property
    def device(self) -> str:
        """Where the next search is answered: cuda:0, several with how they share, or cpu after a failure."""
        return self._on_gpu.placed.device if self._on_gpu.built else "cpu"

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said about its GPU, plain sentences."""
        return (self._on_gpu.note,) if self._on_gpu.note else ()

    @property
    def given_back(self) -> bool:
        """Whether its GPU memory was freed on purpose, so that another index could have it."""
        return self._on_gpu.given_back

    def give_back(self) -> None:
        """Free its GPU memory after the search that is under way; from then on the CPU answers."""
        with self._on_gpu.turn:
            self._on_gpu.built = None
            self._on_gpu.given_back = True

    def __len__(self) -> int:
        return int(self._ids.size)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the index, rising."""
        return self._ids

    def looking(self, parameters: Mapping[str, int]) -> Self:
        """The same index on the same GPUs, searched with other probes, width or factor."""
        plan = replace(
            self.plan,
            probes=min(parameters.get("probes", self.plan.probes), self.plan.lists, MAX_PROBES),
            width=parameters.get("width", self.plan.width),
            factor=parameters.get("factor", self.plan.factor),
        )
        return type(self)(self._on_gpu, plan, self._ids, self.through, self.cpu, self.sha256)

    def wider(self, factor: float) -> Self:
        """Further on the GPUs, as far as they can look, and on the CPU that stands by; a graph stays so."""
        if not self.plan.probes:
            return self
        most = min(self.plan.lists, MAX_PROBES)
        plan = replace(
            self.plan,
            probes=max(self.plan.probes, min(round(self.plan.probes * factor), most)),
            factor=max(self.plan.factor, min(round(self.plan.factor * factor), len(self))),
        )
        if plan == self.plan:
            return self
        cpu = self.cpu.wider(factor) if isinstance(self.cpu, CandidateIndex) else self.cpu
        made = type(self)(self._on_gpu, plan, self._ids, self.through, cpu, self.sha256)
        return self._wider.setdefault(tuple(sorted(plan.parameters.items())), made)

    def serialise(self) -> NDArray[np.uint8]:
        """TypeError: what is on a GPU is made from what is stored."""
        raise TypeError("an index on a GPU is never stored")

    def candidates(
        self, queries: NDArray[np.float32], count: int, alive: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """The `count` passages that the index holds for nearest, for each query; -1 = no more.

        queries: (n, d) unit length; alive: bool by passage number, True where a passage may be found, None =
        all; returns: (n, count).
        """
        most = min(self.plan.most_candidates, len(self))
        share = self._share_of(alive)
        if count > self.plan.most_candidates or (most < len(self) and share * most < count):
            return self.cpu.candidates(queries, count, alive)
        kept = np.full((len(queries), count), -1, dtype=np.int64)
        open_rows = np.arange(len(queries))
        drawn = min(most, _to_draw(count, share))
        while open_rows.size:
            found = self._searched(queries[open_rows], drawn)
            if found is None:
                return self.cpu.candidates(queries, count, alive)
            kept[open_rows] = _living(found, alive, count)
            # A row that ended in -1 was answered to its end: its lists hold no more, here as on the CPU.
            short = (kept[open_rows, -1] < 0) & (found[:, -1] >= 0)
            open_rows = open_rows[short]
            if drawn == most:
                break
            drawn = most
        if open_rows.size and most < len(self):
            kept[open_rows] = self.cpu.candidates(queries[open_rows], count, alive)
        return kept

    def nearest_many(
        self,
        vectors: VectorStore,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_] | None = None,
    ) -> list[Candidates]:
        """The k nearest as far as the index shows them, scored by the stored vectors; (n, d) gives n."""
        wanted = max(k, min(self.plan.factor * k, self.plan.most_candidates))
        return vectors.nearest_among_many(queries, self.candidates(queries, wanted, alive), k)

    def _searched(self, queries: NDArray[np.float32], count: int) -> NDArray[np.int64] | None:
        """Passage numbers (n, count), -1 = no more, from the GPUs; None once they have failed."""
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        with self._on_gpu.turn:
            built = self._on_gpu.built
            if built is None:
                return None
            try:
                if self.plan.probes and self.plan.probes != self._on_gpu.probes:
                    built.set_probes(self.plan.probes)
                    self._on_gpu.probes = self.plan.probes
                _, found = built.index.search(queries, count, params=self._parameters())
            except (MemoryError, RuntimeError) as error:
                device = self.device
                self._on_gpu.built = None
                self._on_gpu.note = f"{device} stopped answering ({plain_reason(error)}); the CPU searches"
                logger.warning("%s", self._on_gpu.note)
                return None
        if built.numbers is None:
            return np.asarray(found, dtype=np.int64)
        return np.where(found >= 0, built.numbers[np.maximum(found, 0)], -1)

    def _parameters(self) -> Any:  # noqa: ANN401 - FAISS has no types
        if self.plan.kind is not GpuKind.CAGRA:
            return None  # several GPUs take none
        parameters = faiss_module().SearchParametersCagra()
        parameters.itopk_size = self.plan.width
        return parameters

    def _share_of(self, alive: NDArray[np.bool_] | None) -> float:
        """How much of the index may be found; worked out once for an array that comes again and again."""
        if alive is None or not len(self):
            return 1.0
        kept = self._share
        if kept is not None and kept[0]() is alive:
            return kept[1]
        inside = self._ids[self._ids < alive.size]
        share = float(np.count_nonzero(alive[inside])) / len(self)
        self._share = (weakref.ref(alive), share)
        return share


def _to_draw(count: int, share: float) -> int:
    """Candidates to draw so that `count` of them may be found, with three deviations to spare."""
    if share >= 1.0:
        return count
    if share <= 0.0:
        return np.iinfo(np.int32).max
    return int(np.ceil((count + 3.0 * np.sqrt(count * (1.0 - share))) / share))


def _living(found: NDArray[np.int64], alive: NDArray[np.bool_] | None, count: int) -> NDArray[np.int64]:
    """The first `count` of each row that may be found, closed up, -1 = no more."""
    passing = found >= 0
    if alive is not None:
        inside = found < alive.size
        passing &= inside & alive[np.where(passing & inside, found, 0)]
    order = np.argsort(~passing, axis=1, kind="stable")[:, :count]
    kept = np.where(np.take_along_axis(passing, order, axis=1), np.take_along_axis(found, order, axis=1), -1)
    if kept.shape[1] < count:
        kept = np.pad(kept, ((0, 0), (0, count - kept.shape[1])), constant_values=-1)
    return np.asarray(kept, dtype=np.int64)
