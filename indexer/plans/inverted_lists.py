"""Inverted lists: a query looks into the lists whose centres are nearest to it.

Coded in half precision, in a byte a number, or product-quantised for FAISS's fast scan (André et al. 2015,
http://www.vldb.org/pvldb/vol9/p288-andre.pdf; Douze et al. 2024, section 5, https://arxiv.org/abs/2401.08281).
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.engine import SEED, Engine, Shared, drawn, faiss_module, fill
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = [
    "HalfPrecisionLists",
    "InvertedLists",
    "NumberLists",
    "ProductQuantisedLists",
    "ScalarQuantisedLists",
    "steps_of_probes",
]

_TRAINING_VECTORS_A_LIST = 48
_ID_BYTES = 8
_CENTRE_BYTES = 4 + 2  # in float32, and in half precision for one query alone
_BOOK_BYTES = 4
_TOGETHER = 32  # codes that fast scan looks at together
_FACTORS = (3, 4, 6, 8, 10, 12, 16)  # candidates scored again, as multiples of k, that are worth measuring


class InvertedLists(Engine):
    """What the kinds of inverted lists share; they keep their recall under any filter if enough is probed."""

    keeps_recall_under_filters = True
    has_centres = True
    factor: ClassVar[int] = 2  # candidates scored again, as a multiple of k: makes up for the rounding

    @abstractmethod
    def empty(self, dimension: int, shape: Mapping[str, int]) -> Any:  # noqa: ANN401 - FAISS has no types
        """The untrained FAISS index."""

    @abstractmethod
    def code_bytes(self, dimension: int, shape: Mapping[str, int]) -> int:
        """Bytes of one coded vector."""

    def shapes(self, count: int, dimension: int) -> tuple[Mapping[str, int], ...]:  # noqa: ARG002
        """Four lists for every root of the count, as a power of two."""
        return ({"lists": self.usual_lists(count)},)

    @staticmethod
    def usual_lists(count: int) -> int:
        """A power of two near four times the root of the count, at least 16."""
        return int(max(16, 2 ** int(np.log2(4.0 * np.sqrt(max(count, 1))))))

    def ladder(self, count: int, shape: Mapping[str, int]) -> tuple[Mapping[str, int], ...]:  # noqa: ARG002
        """Probes by steps of about 1.4, from four to a quarter of the lists."""
        return tuple({"probes": probes, "factor": self.factor} for probes in steps_of_probes(shape["lists"]))

    def expected_bytes(self, count: int, dimension: int, shape: Mapping[str, int]) -> int:
        """Codes, numbers and centres."""
        centres = shape["lists"] * dimension * _CENTRE_BYTES
        return count * (self.code_bytes(dimension, shape) + _ID_BYTES) + centres

    def build(
        self,
        vectors: VectorStore,
        ids: NDArray[np.int64],
        shape: Mapping[str, int],
        seed: int = SEED,
        shared: Shared | None = None,
    ) -> Any:  # noqa: ANN401 - FAISS has no types
        """Trained on a drawn sample, then filled in blocks; the centres are the same for every coding."""
        sample = drawn(vectors, ids, self.training_vectors(shape), seed)
        index = self.trained(sample, shape, seed, shared)
        fill(index, vectors, ids)
        return index

    @staticmethod
    def training_vectors(shape: Mapping[str, int]) -> int:
        """How many vectors the centres are learned from."""
        return shape["lists"] * _TRAINING_VECTORS_A_LIST

    def trained(
        self,
        sample: NDArray[np.float32],
        shape: Mapping[str, int],
        seed: int = SEED,
        shared: Shared | None = None,
    ) -> Any:  # noqa: ANN401 - FAISS has no types
        """The empty FAISS index, trained on a sample (n, d); shared: as for `build`."""
        index = self.empty(sample.shape[1], shape)
        known = None if shared is None else shared.centres.get(shape["lists"])
        if known is not None:
            index.quantizer.add(known)  # FAISS leaves a full quantiser as it is
        index.cp.seed = seed
        index.cp.niter = 10
        index.cp.min_points_per_centroid = 1  # few are enough where there are few: no warning
        index.train(sample)
        if shared is not None and known is None:
            shared.centres[shape["lists"]] = index.quantizer.reconstruct_n(0, shape["lists"])
        return index

    def search_parameters(self, parameters: Mapping[str, int], selector: Any) -> Any:  # noqa: ANN401
        """nprobe, and which ids may be found."""
        return faiss_module().SearchParametersIVF(nprobe=parameters["probes"], sel=selector)

    def ids(self, index: Any) -> NDArray[np.int64]:  # noqa: ANN401 - FAISS has no types
        """Every list's."""
        faiss = faiss_module()
        lists = index.invlists
        parts = [
            faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)).copy()
            for number in range(lists.nlist)
            if lists.list_size(number)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


class NumberLists(InvertedLists):
    """What the lists share that code every number of a vector by itself."""

    defaults: ClassVar[Mapping[str, int]] = {"probes": 16, "factor": 4}
    number_bytes: ClassVar[int]  # bytes of a stored number
    coded: ClassVar[str]  # FAISS's name of how a number is stored

    def empty(self, dimension: int, shape: Mapping[str, int]) -> Any:  # noqa: ANN401 - FAISS has no types
        """IndexIVFScalarQuantizer, not by residual."""
        faiss = faiss_module()
        return faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(dimension),
            dimension,
            shape["lists"],
            getattr(faiss.ScalarQuantizer, self.coded),
            faiss.METRIC_INNER_PRODUCT,
            False,
        )

    def code_bytes(self, dimension: int, shape: Mapping[str, int]) -> int:  # noqa: ARG002
        """So many a number."""
        return self.number_bytes * dimension


class HalfPrecisionLists(NumberLists):
    """Vectors in half precision: as good as exact within the lists, two bytes a number."""

    kind = PlanKind.IVF
    number_bytes = 2
    coded = "QT_fp16"


class ScalarQuantisedLists(NumberLists):
    """Vectors in a byte a number."""

    kind = PlanKind.IVF_SQ8
    number_bytes = 1
    coded = "QT_8bit"


class ProductQuantisedLists(InvertedLists):
    """Vectors in four bits for every few numbers, 32 of them scanned in a few instructions.

    Its own scores are rough: with as many candidates as are wanted recall is about .7, with ten times as many
    scored again it is above .95.
    """

    kind = PlanKind.IVF_PQ
    defaults: ClassVar[Mapping[str, int]] = {"probes": 16, "factor": 10}

    def shapes(self, count: int, dimension: int) -> tuple[Mapping[str, int], ...]:
        """Four numbers a code and two numbers a code."""
        lists = self.usual_lists(count)
        return tuple(
            {"lists": lists, "subvectors": subvectors}
            for subvectors in dict.fromkeys(_divisor(dimension, dimension // part) for part in (4, 2))
        )

    def ladder(self, count: int, shape: Mapping[str, int]) -> tuple[Mapping[str, int], ...]:
        """Probes and factors together, by what they cost.

        A list costs a third of a microsecond and one for every 12,000 bytes of codes; ten candidates that are
        scored again cost 3.5 (measured at 384 dimensions; only the order matters).
        """
        a_list = 0.3 + count / shape["lists"] * shape["subvectors"] / 2 / 12_000
        steps = [
            (a_list * probes + 3.5 * factor, probes, factor)
            for probes in steps_of_probes(shape["lists"])
            for factor in _FACTORS
        ]
        return tuple({"probes": probes, "factor": factor} for _, probes, factor in sorted(steps))

    def expected_bytes(self, count: int, dimension: int, shape: Mapping[str, int]) -> int:
        """As ever, and the code book, and codes to fill each list to a multiple of 32: on average half."""
        filling = shape["lists"] * _TOGETHER // 2 * self.code_bytes(dimension, shape)
        book = 16 * dimension * _BOOK_BYTES
        return super().expected_bytes(count, dimension, shape) + filling + book

    def empty(self, dimension: int, shape: Mapping[str, int]) -> Any:  # noqa: ANN401 - FAISS has no types
        """IndexIVFPQFastScan over 4-bit codes."""
        faiss = faiss_module()
        index = faiss.IndexIVFPQFastScan(
            faiss.IndexFlatIP(dimension),
            dimension,
            shape["lists"],
            shape["subvectors"],
            4,
            faiss.METRIC_INNER_PRODUCT,
        )
        index.pq.cp.seed = SEED
        return index

    def code_bytes(self, dimension: int, shape: Mapping[str, int]) -> int:  # noqa: ARG002
        """Half a byte for every subvector."""
        return -(-shape["subvectors"] // 2)


def steps_of_probes(lists: int) -> list[int]:
    """From four (or fewer lists) to a quarter of the lists, by steps of about 1.4."""
    most = max(min(4, lists), lists // 4)
    count = 1 + round(2 * np.log2(most / min(4, most)))
    return [int(probes) for probes in np.unique(np.geomspace(min(4, most), most, count).round())]


def _divisor(dimension: int, most: int) -> int:
    """The largest number up to `most`, at least 1, that divides the dimension."""
    return next((number for number in range(max(most, 1), 0, -1) if dimension % number == 0), 1)
