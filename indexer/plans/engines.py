"""The engines by kind; build and open an index of any of them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import StorageError, first_line
from nearsay.data.quantity import size_words
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED, Engine, Shared, faiss_module
from nearsay.indexer.plans.flat import HalfPrecisionFlat
from nearsay.indexer.plans.graphs import ByteGraph, HalfPrecisionGraph
from nearsay.indexer.plans.inverted_lists import (
    HalfPrecisionLists,
    ProductQuantisedLists,
    ScalarQuantisedLists,
)
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["ENGINES", "build", "engine_of", "open_index", "part_shape"]

ENGINES: Mapping[PlanKind, Engine] = {  # every kind but EXACT
    engine.kind: engine
    for engine in (
        ProductQuantisedLists(),
        ScalarQuantisedLists(),
        HalfPrecisionLists(),
        ByteGraph(),
        HalfPrecisionGraph(),
        HalfPrecisionFlat(),
    )
}


def engine_of(kind: PlanKind) -> Engine:
    """The engine of a kind; KeyError for EXACT, which has none."""
    return ENGINES[kind]


def part_shape(kind: PlanKind, shape: Mapping[str, int], count: int, dimension: int) -> Mapping[str, int]:
    """How to build a further index over `count` passages beside one of that shape, with the usual lists."""
    usual = engine_of(kind).shapes(count, dimension)
    fitting = [one for one in usual if all(one[name] == shape.get(name) for name in one if name != "lists")]
    return fitting[0] if fitting else usual[0]


def build(
    kind: PlanKind,
    vectors: VectorStore,
    ids: NDArray[np.int64],
    through: int,
    shape: Mapping[str, int] | None = None,
    seed: int = SEED,
    shared: Shared | None = None,
) -> CandidateIndex:
    """An index over the passages `ids` (rising), read in blocks, the same under one seed.

    shape: one of the engine's `shapes`; its first if left out; shared: kept between the kinds over the same
    passages, it saves training the same centres again.
    """
    engine = engine_of(kind)
    if shape is None:
        shape = engine.shapes(ids.size, vectors.dimension)[0]
    return CandidateIndex(engine, engine.build(vectors, ids, shape, seed, shared), through)


def open_index(
    kind: PlanKind,
    serialised: NDArray[np.uint8],
    through: int,
    sha256: str = "",
    parameters: Mapping[str, int] | None = None,
    *,
    mapped: bool = False,
) -> CandidateIndex:
    """From FAISS's own serialisation, which must come from a segment whose hash was checked.

    mapped: the codes stay in `serialised` (a mapped file: read when they are needed, dropped when memory is
    short) instead of being copied into memory; only product-quantised codes are copied.

    StorageError if FAISS cannot open it, most likely for want of memory.
    """
    faiss = faiss_module()
    serialised = np.ascontiguousarray(serialised)
    try:
        if not mapped:
            index = faiss.deserialize_index(serialised)
            return CandidateIndex(engine_of(kind), index, through, sha256, parameters)
        index = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(serialised), serialised.nbytes))
    except (MemoryError, RuntimeError) as error:
        raise StorageError(
            f"FAISS cannot open an index of {size_words(serialised.nbytes)} ({first_line(error)}). Free some "
            "memory, then try again; if it stays so, build the index anew: nearsay index rebuild"
        ) from error
    return CandidateIndex(engine_of(kind), index, through, sha256, parameters, serialised)
