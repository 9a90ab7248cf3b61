"""Graphs: a search walks from neighbour to neighbour. Malkov & Yashunin 2016, arxiv.org/abs/1603.09320.

A graph removes nothing; what was removed is walked through and not returned. A filter would cost recall,
since the walk ends when its `ef` best are settled, whether or not they pass: what passes is compared exactly
instead.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.engine import ADD_BLOCK, SEED, Engine, Shared, drawn, faiss_module, one_thread
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["ByteGraph", "Graph", "HalfPrecisionGraph"]

_TRAINING_VECTORS = 50_000


class Graph(Engine):
    """What the graphs share."""

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
            for begin in range(0, ids.size, ADD_BLOCK):
                some = ids[begin : begin + ADD_BLOCK]
                index.add_with_ids(vectors.rows(vectors.positions(some)), some)
        return index

    def search_parameters(self, parameters: Mapping[str, int], selector: Any) -> Any:  # noqa: ANN401
        """efSearch, and which ids may be found."""
        return faiss_module().SearchParametersHNSW(efSearch=parameters["ef"], sel=selector)

    def ids(self, index: Any) -> NDArray[np.int64]:  # noqa: ANN401 - FAISS has no types
        """As they were added."""
        faiss = faiss_module()
        numbers: NDArray[np.int64] = faiss.vector_to_array(index.id_map)
        return numbers


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
