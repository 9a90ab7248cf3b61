"""Every vector in half precision, each of them scored: exact but for the rounding, at half the memory."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.engine import ADD_BLOCK, SEED, Engine, Shared, faiss_module
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["HalfPrecisionFlat"]


class HalfPrecisionFlat(Engine):
    """IndexScalarQuantizer, fp16."""

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
        for begin in range(0, ids.size, ADD_BLOCK):
            some = ids[begin : begin + ADD_BLOCK]
            index.add_with_ids(vectors.rows(vectors.positions(some)), some)
        return index

    def search_parameters(self, parameters: Mapping[str, int], selector: Any) -> Any:  # noqa: ANN401, ARG002
        """Which ids may be found."""
        return faiss_module().SearchParameters(sel=selector)

    def ids(self, index: Any) -> NDArray[np.int64]:  # noqa: ANN401 - FAISS has no types
        """As they were added."""
        numbers: NDArray[np.int64] = faiss_module().vector_to_array(index.id_map)
        return numbers
