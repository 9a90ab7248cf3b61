"""The kinds of index by name, and how an index of any kind is built and opened."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import StorageError, first_line
from nearsay.data.quantity import size_words
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED, Engine, drawn, faiss_module, fill
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

# Inverted lists: a query looks into the lists whose centroids are nearest to it.
#
# Coded in half precision, in a byte a number, or product-quantised for FAISS's fast scan (André et al.
# 2015, http://www.vldb.org/pvldb/vol9/p288-andre.pdf; Douze et al. 2024, section 5,
# https://arxiv.org/abs/2401.08281).


_TRAINING_VECTORS_A_LIST = 48
_ID_BYTES = 8
_CENTROID_BYTES = 4 + 2  # in float32, and in half precision for one query alone
_BOOK_BYTES = 4
# Of k-means, for 16 values of 2 or 4 numbers each. With FAISS's 25, .0002 to .001 more of the nearest ten
# are found with the same parameters, and an index over 12,000 vectors takes half as long again to build.
_BOOK_ROUNDS = 10
_READ_AT_ONCE = 1 << 20  # bytes of a serialised index, which stay in the processor's cache
_TOGETHER = 32  # codes that fast scan looks at together
_FACTORS = (3, 4, 6, 8, 10, 12, 16)  # candidates scored again, as multiples of k, that are worth measuring


class InvertedLists(Engine):
    """What the kinds of inverted lists share."""

    has_centroids = True
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
        """Codes, numbers and centroids."""
        centroids = shape["lists"] * dimension * _CENTROID_BYTES
        return count * (self.code_bytes(dimension, shape) + _ID_BYTES) + centroids

    def build(
        self,
        vectors: VectorStore,
        ids: NDArray[np.int64],
        shape: Mapping[str, int],
        seed: int = SEED,
    ) -> Any:  # noqa: ANN401 - FAISS has no types
        """Trained on a drawn sample, then filled in blocks."""
        sample = drawn(vectors, ids, self.training_vectors(shape), seed)
        index = self.trained(sample, shape, seed)
        fill(index, vectors, ids)
        return index

    @staticmethod
    def training_vectors(shape: Mapping[str, int]) -> int:
        """How many vectors the centroids are learned from."""
        return shape["lists"] * _TRAINING_VECTORS_A_LIST

    def trained(
        self,
        sample: NDArray[np.float32],
        shape: Mapping[str, int],
        seed: int = SEED,
    ) -> Any:  # noqa: ANN401 - FAISS has no types
        """The empty FAISS index, trained on a sample (n, d)."""
        index = self.empty(sample.shape[1], shape)
        index.cp.seed = seed
        index.cp.niter = 10
        index.cp.min_points_per_centroid = 1  # few are enough where there are few: no warning
        index.train(sample)
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
    rough = True
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
        index.pq.cp.seed, index.pq.cp.niter = SEED, _BOOK_ROUNDS
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


class HalfPrecisionFlat(Engine):
    """Every vector in half precision, each of them scored: exact but for the rounding, at half the memory."""

    kind = PlanKind.FLAT_FP16
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

    def ids(self, index: Any) -> NDArray[np.int64]:  # noqa: ANN401 - FAISS has no types
        """As they were added: FAISS's IndexIDMap keeps them."""
        numbers: NDArray[np.int64] = faiss_module().vector_to_array(index.id_map)
        return numbers


ENGINES: Mapping[PlanKind, Engine] = {  # every kind but EXACT
    engine.kind: engine
    for engine in (
        ProductQuantisedLists(),
        ScalarQuantisedLists(),
        HalfPrecisionLists(),
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
) -> CandidateIndex:
    """An index over the passages `ids` (ascending), read in blocks, the same under one seed.

    shape: one of the engine's `shapes`; its first if left out
    """
    engine = engine_of(kind)
    if shape is None:
        shape = engine.shapes(ids.size, vectors.dimension)[0]
    return CandidateIndex(engine, engine.build(vectors, ids, shape, seed), through)


def reach_over(plan: Plan, index: CandidateIndex) -> Mapping[str, int]:
    """How far a search looks in an index that may hold more than the plan was measured over.

    It looks into the share of the lists that was measured, or into as many where it has fewer. Near vectors
    that a rough kind leaves behind others are behind more where there are more: it scores as many times the
    candidates.
    """
    reach = dict(index.parameters)
    if index.lists:
        reach["probes"] = usual_probes(plan, index.lists)
    if index.rough and plan.measured_at:
        reach["factor"] = round(reach["factor"] * max(1.0, len(index) / plan.measured_at))
    return reach


def usual_probes(plan: Plan, lists: int) -> int:
    """Into how many of its lists an index looks: the share that was measured, if not the number."""
    probes = {**engine_of(plan.kind).defaults, **plan.parameters}["probes"]
    more = lists / plan.shape.get("lists", lists)
    return int(np.ceil(probes * more)) if more > 1.0 else probes


def open_index(
    kind: PlanKind,
    serialised: NDArray[np.uint8],
    through: int,
    sha256: str = "",
    parameters: Mapping[str, int] | None = None,
) -> CandidateIndex:
    """From FAISS's own serialisation, which must come from a segment whose hash was checked.

    StorageError if FAISS cannot open it, most likely for want of memory.
    """
    # deserialize_index would first copy everything into a vector of its own: twice the time
    reader = faiss_module().PyCallbackIOReader(_reading(np.ascontiguousarray(serialised)), _READ_AT_ONCE)
    return CandidateIndex(engine_of(kind), _read(reader, serialised), through, sha256, parameters)


def numbers_in(kind: PlanKind, serialised: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Every passage number in FAISS's own serialisation, in any order; StorageError as for `open_index`.

    The codes stay where they are, in a mapped file as a rule; only product-quantised ones are copied.
    """
    faiss, serialised = faiss_module(), np.ascontiguousarray(serialised)
    reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(serialised), serialised.nbytes)
    return engine_of(kind).ids(_read(reader, serialised))


def _read(reader: object, serialised: NDArray[np.uint8]) -> object:
    try:
        index: object = faiss_module().read_index(reader)
    except (MemoryError, RuntimeError) as error:
        raise StorageError(
            f"FAISS cannot open an index of {size_words(serialised.nbytes)} ({first_line(error)}). Free some "
            "memory, then try again; if that does not help, rebuild the index: nearsay index rebuild"
        ) from error
    return index


def _reading(serialised: NDArray[np.uint8]) -> Callable[[int], bytes]:
    """Return the next bytes, so many as are asked for, or what is left."""
    view, begin = serialised.data, 0

    def read(count: int) -> bytes:
        nonlocal begin
        begin += count
        return view[begin - count : begin].tobytes()

    return read
