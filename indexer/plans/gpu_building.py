"""A FAISS index on one GPU or several, made from the stored vectors or copied from the CPU's index.

None of this has run on a GPU: its tests drive a stand-in that has FAISS's GPU functions and computes on the
CPU. The calls were taken from FAISS 1.15.1's own Python module and C++ sources.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.gpu_placement import Placed, part_bounds
from nearsay.indexer.plans.gpu_plan import GpuKind, GpuPlan
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["BuiltIndex", "build_from_vectors", "can_be_copied", "copy_from_cpu"]

_SEED = 20190827
_TRAINING_VECTORS_A_LIST = 64
_TRAINING_VECTORS = 2_000_000  # at most
_ADDED_ROWS = 262_144  # rows read and sent at a time to inverted lists
_FLAT_ROWS = 2_097_152  # rows of one flat index; a GPU's flat index that grows needs its room twice over
_COPIED_QUANTISERS = ("QT_fp16", "QT_8bit", "QT_8bit_uniform", "QT_4bit", "QT_4bit_uniform", "QT_6bit")


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """A FAISS index and what it needs to live."""

    index: Any  # FAISS's, over everything
    leaves: tuple[Any, ...]  # the indexes of single GPUs in it: `nprobe` is set on these
    resources: tuple[Any, ...]  # FAISS's, one a GPU; not safe for two threads at once
    numbers: NDArray[np.int64] | None  # passage number by what FAISS answers; None: it answers numbers

    def set_probes(self, probes: int) -> None:
        """How many lists each GPU looks into; FAISS takes no search parameters for several GPUs."""
        for leaf in self.leaves:
            leaf.nprobe = probes


def build_from_vectors(
    faiss: Any,  # noqa: ANN401 - FAISS has no types
    plan: GpuPlan,
    placed: Placed,
    vectors: VectorStore,
    ids: NDArray[np.int64],
) -> BuiltIndex:
    """An index over the passages `ids` (rising), read in blocks. RuntimeError is what FAISS raises."""
    resources = tuple(faiss.StandardGpuResources() for _ in placed.gpus)
    build = {GpuKind.FLAT_FP16: _flat, GpuKind.CAGRA: _cagra}.get(plan.kind, _inverted)
    return build(faiss, plan, placed, resources, vectors, ids)


def can_be_copied(faiss: Any, index: Any) -> bool:  # noqa: ANN401 - FAISS has no types
    """Whether FAISS copies this CPU index to a GPU as it is: inverted lists without fast scan."""
    if isinstance(index, faiss.IndexIVFPQ):
        return bool(index.pq.nbits == 8 and index.by_residual)
    if isinstance(index, faiss.IndexIVFScalarQuantizer):
        known = {getattr(faiss.ScalarQuantizer, name) for name in _COPIED_QUANTISERS}
        return index.sq.qtype in known
    return isinstance(index, faiss.IndexIVFFlat)


def copy_from_cpu(
    faiss: Any,  # noqa: ANN401 - FAISS has no types
    index: Any,  # noqa: ANN401
    placed: Placed,
) -> BuiltIndex:
    """The CPU's index on the GPUs, as it is: the same lists, codes and numbers, so the same candidates."""
    resources = tuple(faiss.StandardGpuResources() for _ in placed.gpus)
    numbers = [gpu.number for gpu in placed.gpus]
    if len(numbers) == 1:
        copy = faiss.index_cpu_to_gpu(resources[0], numbers[0], index, _cloner(faiss.GpuClonerOptions()))
        return BuiltIndex(copy, (copy,), resources, None)
    options = _cloner(faiss.GpuMultipleClonerOptions())
    options.shard = placed.sharded
    options.shard_type = 1  # by number modulo the GPUs: every list on every GPU, whatever the order
    copy = faiss.index_cpu_to_gpu_multiple_py(list(resources), index, options, numbers)
    leaves = tuple(faiss.downcast_index(copy.at(place)) for place in range(len(numbers)))
    return BuiltIndex(copy, leaves, resources, None)


def _cloner(options: Any) -> Any:  # noqa: ANN401 - FAISS has no types
    options.useFloat16 = True  # IVF-PQ's look-up tables: wider ones do not fit the GPU's cache
    options.usePrecomputed = False  # needs much room, and inner product has no use for it
    return options


def _flat(
    faiss: Any,  # noqa: ANN401 - FAISS has no types
    plan: GpuPlan,  # noqa: ARG001 - the builders are called alike
    placed: Placed,
    resources: Sequence[Any],
    vectors: VectorStore,
    ids: NDArray[np.int64],
) -> BuiltIndex:
    def on(place: int, some: NDArray[np.int64]) -> Any:  # noqa: ANN401
        settings = faiss.GpuIndexFlatConfig()
        settings.device = placed.gpus[place].number
        settings.useFloat16 = True
        pieces = []
        for begin in range(0, max(1, some.size), _FLAT_ROWS):
            piece = faiss.GpuIndexFlatIP(resources[place], vectors.dimension, settings)
            piece.add(_rows(vectors, some[begin : begin + _FLAT_ROWS]))
            pieces.append(piece)
        # In turn, not in threads: they share the resources of their GPU.
        return (
            pieces[0] if len(pieces) == 1 else _joined(faiss, vectors, pieces, threaded=False, numbered=True)
        )

    index, leaves = _spread(faiss, placed, vectors, ids, on, numbered=True)
    return BuiltIndex(index, leaves, tuple(resources), ids)


def _inverted(
    faiss: Any,  # noqa: ANN401 - FAISS has no types
    plan: GpuPlan,
    placed: Placed,
    resources: Sequence[Any],
    vectors: VectorStore,
    ids: NDArray[np.int64],
) -> BuiltIndex:
    trained = _untrained(faiss, plan, resources[0], placed.gpus[0].number, vectors.dimension)
    trained.cp.seed = _SEED
    trained.cp.min_points_per_centroid = 1  # a warning on stderr, otherwise
    generator = np.random.default_rng(_SEED)
    size = min(ids.size, plan.lists * _TRAINING_VECTORS_A_LIST, _TRAINING_VECTORS)
    trained.train(_rows(vectors, np.sort(generator.choice(ids, size=size, replace=False))))
    # Taken back to the CPU while it is empty, so that every GPU has the very same lists.
    pattern = faiss.index_gpu_to_cpu(trained) if len(placed.gpus) > 1 else None

    def on(place: int, some: NDArray[np.int64]) -> Any:  # noqa: ANN401
        options = _cloner(faiss.GpuClonerOptions())
        options.reserveVecs = some.size
        number = placed.gpus[place].number
        index = (
            trained if pattern is None else faiss.index_cpu_to_gpu(resources[place], number, pattern, options)
        )
        for begin in range(0, some.size, _ADDED_ROWS):
            block = some[begin : begin + _ADDED_ROWS]
            index.add_with_ids(_rows(vectors, block), block)
        index.reclaimMemory()
        return index

    index, leaves = _spread(faiss, placed, vectors, ids, on, numbered=False)
    built = BuiltIndex(index, leaves, tuple(resources), None)
    built.set_probes(plan.probes)
    return built


def _untrained(faiss: Any, plan: GpuPlan, resources: Any, number: int, dimension: int) -> Any:  # noqa: ANN401
    product = faiss.METRIC_INNER_PRODUCT
    if plan.kind is GpuKind.IVF_PQ:
        settings = faiss.GpuIndexIVFPQConfig()
        settings.useFloat16LookupTables = True
        settings.device = number
        return faiss.GpuIndexIVFPQ(
            resources, dimension, plan.lists, plan.code_bytes, 8, product, settings
        )  # 8 bits a code: the only width that the GPU takes
    if plan.kind is GpuKind.IVF_FLAT:
        settings = faiss.GpuIndexIVFFlatConfig()
        settings.device = number
        return faiss.GpuIndexIVFFlat(resources, dimension, plan.lists, product, settings)
    settings = faiss.GpuIndexIVFScalarQuantizerConfig()
    settings.device = number
    half = faiss.ScalarQuantizer.QT_fp16
    return faiss.GpuIndexIVFScalarQuantizer(resources, dimension, plan.lists, half, product, False, settings)


def _cagra(
    faiss: Any,  # noqa: ANN401 - FAISS has no types
    plan: GpuPlan,  # noqa: ARG001 - the builders are called alike
    placed: Placed,
    resources: Sequence[Any],
    vectors: VectorStore,
    ids: NDArray[np.int64],
) -> BuiltIndex:
    settings = faiss.GpuIndexCagraConfig()
    settings.device = placed.gpus[0].number
    # Of vectors of length 1 the nearest by L2 is the nearest by cosine, and L2 is what every cuVS has.
    index = faiss.GpuIndexCagra(resources[0], vectors.dimension, faiss.METRIC_L2, settings)
    index.train(_rows(vectors, ids))
    return BuiltIndex(index, (), tuple(resources), ids)


def _spread(
    faiss: Any,  # noqa: ANN401 - FAISS has no types
    placed: Placed,
    vectors: VectorStore,
    ids: NDArray[np.int64],
    on: Callable[[int, NDArray[np.int64]], Any],
    *,
    numbered: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """One index out of the GPUs' own; `numbered`: FAISS numbers the rows, part after part."""
    parts = len(placed.gpus)
    if parts == 1:
        only = on(0, ids)
        return only, (only,)
    if placed.sharded:
        bounds = part_bounds(ids.size, parts)
        leaves = tuple(on(place, ids[begin:end]) for place, (begin, end) in enumerate(bounds))
        return _joined(faiss, vectors, leaves, threaded=True, numbered=numbered), leaves
    leaves = tuple(on(place, ids) for place in range(parts))
    copies = faiss.IndexReplicas(vectors.dimension, True)
    for leaf in leaves:
        copies.addIndex(leaf)
    return copies, leaves


def _joined(
    faiss: Any,  # noqa: ANN401 - FAISS has no types
    vectors: VectorStore,
    parts: Sequence[Any],
    *,
    threaded: bool,
    numbered: bool,
) -> Any:  # noqa: ANN401
    whole = faiss.IndexShards(vectors.dimension, threaded, numbered)
    for part in parts:
        whole.add_shard(part)
    return whole


def _rows(vectors: VectorStore, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.ascontiguousarray(vectors.rows(vectors.positions(ids)))
