"""The kinds of index by name, those without inverted lists, and how an index of any kind is built and opened.

Graphs: a search walks from neighbour to neighbour. Malkov & Yashunin 2016, https://arxiv.org/abs/1603.09320.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import StorageError, first_line
from nearsay.data.quantity import size_words
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED, Engine, Shared, drawn, faiss_module, fill, one_thread
from nearsay.indexer.plans.inverted_lists import (
    HalfPrecisionLists,
    ProductQuantisedLists,
    ScalarQuantisedLists,
)
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["ENGINES", "build", "engine_of", "open_index", "part_shape"]

_TRAINING_VECTORS: Final = 50_000  # of a graph's coding


class _Numbered(Engine):
    """A kind that FAISS's IndexIDMap gives its passage numbers."""

    def ids(self, index: Any) -> NDArray[np.int64]:  # noqa: ANN401 - FAISS has no types
        """As they were added."""
        numbers: NDArray[np.int64] = faiss_module().vector_to_array(index.id_map)
        return numbers


class HalfPrecisionFlat(_Numbered):
    """Every vector in half precision, each of them scored: exact but for the rounding, at half the memory."""

    kind = PlanKind.FLAT_FP16
    keeps_recall_under_filters = True
    defaults: ClassVar[Mapping[str, int]] = {"factor": 2}

    def shapes(self, count: int, dimension: int) -> tuple[Mapping[str, int], ...]:  # noqa: ARG002
        """There is one."""
        return ({},)

    def ladder(self, count: int, shape: Mapping[str, int]) -> tuple[Mapping[str, int], ...]:  # noqa: ARG002
        """Twice as many candidates as are wanted make up for the rounding."""
        return ({"factor": 2},)

    def expected_bytes(self, count: int, dimension: int, shape: Mapping[str, int]) -> int:  # noqa: ARG002
        """Two bytes a number, eight an id."""
        return count * (2 * dimension + 8)

    def build(
        self,
        vectors: VectorStore,
        ids: NDArray[np.int64],
        shape: Mapping[str, int],  # noqa: ARG002
        seed: int = SEED,  # noqa: ARG002
        shared: Shared | None = None,  # noqa: ARG002
    ) -> Any:  # noqa: ANN401 - FAISS has no types
        """Nothing is drawn, nothing trained."""
        faiss = faiss_module()
        flat = faiss.IndexScalarQuantizer(
            vectors.dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        )
        index = faiss.IndexIDMap(flat)
        fill(index, vectors, ids)
        return index

    def search_parameters(self, parameters: Mapping[str, int], selector: Any) -> Any:  # noqa: ANN401, ARG002
        """Which ids may be found."""
        return faiss_module().SearchParameters(sel=selector)


class Graph(_Numbered):
    """What the graphs share.

    A graph removes nothing; what was removed is walked through and not returned. A filter would cost recall,
    since the walk ends when its `ef` best are settled, whether or not they pass: what passes is compared
    exactly instead.
    """

    keeps_recall_under_filters = False
    defaults: ClassVar[Mapping[str, int]] = {"ef": 64, "factor": 2}
    number_bytes: ClassVar[int]  # bytes of a stored number
    coded: ClassVar[str]  # FAISS's name of how a number is stored

    def shapes(self, count: int, dimension: int) -> tuple[Mapping[str, int], ...]:  # noqa: ARG002
        """16 links, twice as many on the ground floor."""
        return ({"links": 16, "ef_construction": 100},)

    def ladder(self, count: int, shape: Mapping[str, int]) -> tuple[Mapping[str, int], ...]:  # noqa: ARG002
        """ef by steps of about 1.4."""
        return tuple({"ef": ef, "factor": 2} for ef in (20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640))

    def expected_bytes(self, count: int, dimension: int, shape: Mapping[str, int]) -> int:
        """Codes, numbers, and links of four bytes: two floors' worth, and a share for the floors above."""
        links = 4 * (2 * shape["links"] + 1) + 16
        return count * (dimension * self.number_bytes + 8 + links)

    def build(
        self,
        vectors: VectorStore,
        ids: NDArray[np.int64],
        shape: Mapping[str, int],
        seed: int = SEED,
        shared: Shared | None = None,  # noqa: ARG002
    ) -> Any:  # noqa: ANN401 - FAISS has no types
        """One passage after another on one thread: with several, their order by chance would show."""
        faiss = faiss_module()
        graph = faiss.IndexHNSWSQ(
            vectors.dimension,
            getattr(faiss.ScalarQuantizer, self.coded),
            shape["links"],
            faiss.METRIC_INNER_PRODUCT,
        )
        graph.hnsw.efConstruction = shape["ef_construction"]
        graph.hnsw.rng = faiss.RandomGenerator(seed)
        graph.train(drawn(vectors, ids, _TRAINING_VECTORS, seed))
        index = faiss.IndexIDMap(graph)
        with one_thread():
            fill(index, vectors, ids)
        return index

    def search_parameters(self, parameters: Mapping[str, int], selector: Any) -> Any:  # noqa: ANN401
        """efSearch, and which ids may be found."""
        return faiss_module().SearchParametersHNSW(efSearch=parameters["ef"], sel=selector)


class HalfPrecisionGraph(Graph):
    """Over vectors in half precision."""

    kind = PlanKind.HNSW
    number_bytes = 2
    coded = "QT_fp16"


class ByteGraph(Graph):
    """Over vectors in a byte a number."""

    kind = PlanKind.HNSW_SQ8
    number_bytes = 1
    coded = "QT_8bit"


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
