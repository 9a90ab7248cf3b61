"""The FAISS index of a large generation: inverted lists of half-precision vectors.

FAISS proposes, the stored float32 vectors decide: candidates are scored again exactly, so a score is the same
whichever way a passage was found. Douze et al. 2024, https://arxiv.org/abs/2401.08281
"""

import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import MissingExtraError
from nearsay.indexer.plan import Measured, Plan, PlanKind
from nearsay.indexer.vector_store import Candidates, VectorStore

__all__ = ["IvfIndex", "build", "faiss_is_installed"]

_SEED = 20190827
_QUERIES = 200  # held-out stored vectors that a plan is measured with
_TRAINING_VECTORS_A_LIST = 64
_REFINE = 4  # candidates scored again, as a multiple of k
_ADD_BLOCK = 65_536


def faiss_is_installed() -> bool:
    """Whether FAISS can be imported; exact search works without it."""
    return importlib.util.find_spec("faiss") is not None


class IvfIndex:
    """An opened index over all passages up to `through`; safe to search from several threads."""

    def __init__(self, index: Any, through: int, sha256: str = "") -> None:  # noqa: ANN401 - FAISS has no types
        """`index`: a FAISS IVF index, ids are passage numbers; `sha256`: of its segment, once written."""
        self._index = index
        self.through = through
        self.sha256 = sha256

    @classmethod
    def deserialise(cls, serialised: NDArray[np.uint8], through: int, sha256: str) -> "IvfIndex":
        """From FAISS's own serialisation, which must come from a segment whose hash was checked."""
        return cls(_faiss().deserialize_index(np.ascontiguousarray(serialised)), through, sha256)

    def serialise(self) -> NDArray[np.uint8]:
        """FAISS's own serialisation."""
        serialised: NDArray[np.uint8] = _faiss().serialize_index(self._index)
        return serialised

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the index, rising."""
        faiss = _faiss()
        lists = self._index.invlists
        parts = [
            faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)).copy()
            for number in range(lists.nlist)
            if lists.list_size(number)
        ]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)

    def nearest(
        self,
        vectors: VectorStore,
        query: NDArray[np.float32],
        k: int,
        probes: int,
        alive: NDArray[np.bool_] | None = None,
    ) -> Candidates:
        """The k nearest as far as `probes` lists show; query: (d,); alive: bool by passage number."""
        faiss = _faiss()
        parameters = faiss.SearchParametersIVF(nprobe=probes)
        if alive is not None:
            bits = np.packbits(alive, bitorder="little")  # must outlive the search
            parameters.sel = faiss.IDSelectorBitmap(bits)
        _, found = self._index.search(query[None, :], _REFINE * k, params=parameters)
        ids = np.sort(found[0][found[0] >= 0])
        return vectors.nearest_among(query, k, ids)


def build(vectors: VectorStore, alive: NDArray[np.bool_], through: int, plan: Plan) -> tuple[IvfIndex, Plan]:
    """An index over the living passages, with as many probes as the recall target needs.

    The probes are doubled until recall at 10 against exact search, measured with stored vectors as queries,
    reaches the plan's target; each step is kept in the plan's report. If none reaches it the plan is exact.
    """
    faiss = _faiss()
    ids = vectors.ids[alive[vectors.ids]]
    generator = np.random.default_rng(_SEED)
    lists = max(16, 2 ** int(np.log2(4.0 * np.sqrt(ids.size))))
    sample = generator.choice(ids, size=min(ids.size, lists * _TRAINING_VECTORS_A_LIST), replace=False)
    quantiser = faiss.IndexFlatIP(vectors.dimension)
    index = faiss.IndexIVFScalarQuantizer(
        quantiser, vectors.dimension, lists, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT, False
    )
    index.cp.seed = _SEED
    index.train(vectors.rows(np.sort(vectors.positions(np.sort(sample)))))
    for begin in range(0, ids.size, _ADD_BLOCK):
        some = ids[begin : begin + _ADD_BLOCK]
        index.add_with_ids(vectors.rows(vectors.positions(some)), some)
    built = IvfIndex(index, through)
    held_out = generator.choice(ids, size=min(ids.size, _QUERIES), replace=False)
    queries = vectors.rows(np.sort(vectors.positions(held_out)))
    return built, _measured(built, vectors, queries, alive, plan.chosen(PlanKind.IVF, lists=lists))


def _measured(
    index: IvfIndex, vectors: VectorStore, queries: NDArray[np.float32], alive: NDArray[np.bool_], plan: Plan
) -> Plan:
    truth, exact_ms = _timed(queries, partial(vectors.nearest, k=11, alive=alive))
    report = [Measured(PlanKind.EXACT, {}, 1.0, exact_ms)]
    probes = 4
    while probes <= plan.lists:
        search = partial(index.nearest, vectors, k=11, probes=probes, alive=alive)
        found, milliseconds = _timed(queries, search)
        recall = _recall_at_10(truth, found)
        report.append(Measured(PlanKind.IVF, {"lists": plan.lists, "probes": probes}, recall, milliseconds))
        if recall >= plan.recall_target:
            return plan.chosen(PlanKind.IVF, probes=probes, report=tuple(report))
        probes *= 2
    note = f"no index reached recall {plan.recall_target} at 10: searched exactly"
    return plan.chosen(PlanKind.EXACT, lists=0, probes=0, report=tuple(report), note=note)


def _timed(
    queries: NDArray[np.float32], search: Callable[[NDArray[np.float32]], Candidates]
) -> tuple[list[Candidates], float]:
    found, seconds = [], []
    for query in queries:
        begin = time.perf_counter()
        found.append(search(query))
        seconds.append(time.perf_counter() - begin)
    return found, round(1000 * float(np.median(seconds)), 4)


def _recall_at_10(truth: Sequence[Candidates], found: Sequence[Candidates]) -> float:
    # The first of the eleven is the query itself: a passage always finds itself, which proves nothing.
    shares = [
        np.intersect1d(expected.ids[1:], got.ids[1:]).size / max(1, expected.ids.size - 1)
        for expected, got in zip(truth, found, strict=True)
    ]
    return round(float(np.mean(shares)), 4)


def _faiss() -> Any:  # noqa: ANN401 - FAISS has no types
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("The index of a large collection", "cpu") from error
    return faiss
