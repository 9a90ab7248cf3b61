"""What each kind of index must be able to do."""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import MissingExtraError, NearsayError, first_line
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import VectorStore

SEED = 20190827
ADD_BLOCK = 16_384  # vectors read and added at a time: 25 MB at 384 dimensions


class Engine(ABC):
    """One kind of FAISS index: how it is built, how large it gets, what can be turned when searching it."""

    kind: ClassVar[PlanKind]
    has_centroids: ClassVar[bool] = False  # whether the vectors stand in lists around centroids
    rough: ClassVar[bool] = False  # whether its own scores leave near vectors behind many others
    defaults: ClassVar[Mapping[str, int]]  # search parameters where a plan names none

    @abstractmethod
    def shapes(self, count: int, dimension: int) -> tuple[Mapping[str, int], ...]:
        """The ways to build it over so many vectors that are worth measuring, the likeliest first."""

    @abstractmethod
    def ladder(self, count: int, shape: Mapping[str, int]) -> tuple[Mapping[str, int], ...]:
        """Search parameters to measure, by ascending cost and recall."""

    @abstractmethod
    def expected_bytes(self, count: int, dimension: int, shape: Mapping[str, int]) -> int:
        """Bytes of memory that the index will take, before it is built."""

    @abstractmethod
    def build(
        self,
        vectors: VectorStore,
        ids: NDArray[np.int64],
        shape: Mapping[str, int],
        seed: int = SEED,
    ) -> Any:  # noqa: ANN401 - FAISS has no types
        """A FAISS index over the passages `ids` (ascending), read in blocks; its ids are passage numbers."""

    @abstractmethod
    def search_parameters(self, parameters: Mapping[str, int], selector: Any) -> Any:  # noqa: ANN401
        """FAISS's search parameters; selector: an IDSelector or None."""

    @abstractmethod
    def ids(self, index: Any) -> NDArray[np.int64]:  # noqa: ANN401 - FAISS has no types
        """Every passage number in the index, in any order."""


def fill(index: Any, vectors: VectorStore, ids: NDArray[np.int64]) -> None:  # noqa: ANN401
    """Add passages (ascending numbers) to a trained FAISS index, in blocks."""
    for begin in range(0, ids.size, ADD_BLOCK):
        some = ids[begin : begin + ADD_BLOCK]
        index.add_with_ids(vectors.rows(vectors.positions(some)), some)


def drawn(vectors: VectorStore, ids: NDArray[np.int64], count: int, seed: int) -> NDArray[np.float32]:
    """The vectors of `count` of the passages, drawn at random without repetition, by ascending number."""
    chosen = np.random.default_rng(seed).choice(ids, size=min(ids.size, count), replace=False)
    return vectors.rows(vectors.positions(np.sort(chosen)))


@contextmanager
def one_thread() -> Iterator[None]:
    """FAISS on one thread, where the order of its threads would show in what it builds."""
    faiss = faiss_module()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def faiss_is_installed() -> bool:
    """Whether FAISS can be imported; exact search works without it."""
    return importlib.util.find_spec("faiss") is not None


def faiss_module() -> Any:  # noqa: ANN401 - FAISS has no types
    """FAISS, imported when it is needed; MissingExtraError says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("The index of a large collection", "cpu") from error
    except (OSError, RuntimeError) as error:  # faiss-gpu without the libraries of CUDA
        raise NearsayError(
            f"FAISS is installed but cannot be loaded ({first_line(error)}). "
            "Install CUDA 12's libraries for it, or take the other: pip install 'nearsay[cpu]'"
        ) from error
    return faiss
