"""Exact search over vectors that are stored in fewer bits; the query stays float32."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.compression.quantisation import (
    Int8Ranges,
    binary_codes,
    hamming_distances,
    signs,
)

__all__ = ["BinaryVectors", "FloatVectors", "Int8Vectors", "StoredVectors"]

_BLOCK_ROWS = 4096  # rows that are widened to float32 at a time, to stay in the processor's cache


class StoredVectors(Protocol):
    """Vectors that answer queries."""

    @property
    def bytes_per_vector(self) -> int:
        """Bytes that one vector takes."""

    def scores(
        self, query: NDArray[np.float32], rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Give the similarity of a (dimension,) query to all vectors, or to some; higher is closer.

        Scores of one query may be compared with each other, and with nothing else.
        """

    def nearest(self, query: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
        """Give the rows of the `depth` vectors that are closest to a (dimension,) query, best first."""


@dataclass(frozen=True, slots=True)
class FloatVectors:
    """Numbers as they are, float32 or float16."""

    vectors: NDArray[np.float32] | NDArray[np.float16]  # (n, dimension)

    @property
    def bytes_per_vector(self) -> int:
        return int(self.vectors.shape[1] * self.vectors.itemsize)

    def scores(
        self, query: NDArray[np.float32], rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """The dot products."""
        return _products(self.vectors if rows is None else self.vectors[rows], query)

    def nearest(self, query: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
        return _highest(self.scores(query), depth)


@dataclass(frozen=True, slots=True)
class Int8Vectors:
    """A byte a number."""

    codes: NDArray[np.int8]  # (n, dimension)
    ranges: Int8Ranges

    @classmethod
    def of(cls, vectors: NDArray[np.float32], ranges: Int8Ranges | None = None) -> "Int8Vectors":
        """Store vectors, within their own ranges unless others are given."""
        ranges = ranges or Int8Ranges.of([vectors])
        return cls(ranges.codes(vectors), ranges)

    @property
    def bytes_per_vector(self) -> int:
        return int(self.codes.shape[1])

    def scores(
        self, query: NDArray[np.float32], rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """The dot products with the restored numbers, less a part that is the same for all vectors."""
        return _products(self.codes if rows is None else self.codes[rows], query * self.ranges.step)

    def nearest(self, query: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
        return _highest(self.scores(query), depth)


@dataclass(frozen=True, slots=True)
class BinaryVectors:
    """A bit a number: those that differ from the query in the fewest bits, perhaps ranked again.

    Ranking again takes the candidates' dot products with the whole query: with finer vectors, or with the
    signs themselves, which takes no further bytes. Yamada et al. 2021, https://arxiv.org/abs/2106.00882
    """

    codes: NDArray[np.uint8]  # (n, bytes) of `binary_codes`
    dimension: int
    rescored_by: "FloatVectors | Int8Vectors | None" = None  # finer vectors of the same rows
    rescored: bool = False  # whether candidates are ranked again, by the signs if there is nothing finer
    candidates: int = 4  # that are ranked again, for each hit that is asked for

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise BadInputError(f"{self.candidates} candidates a hit are too few. Take 1 or more, such as 4")

    @classmethod
    def of(
        cls,
        vectors: NDArray[np.float32],
        *,
        rescored_by: "FloatVectors | Int8Vectors | None" = None,
        rescored: bool = False,
        candidates: int = 4,
    ) -> "BinaryVectors":
        """Store the signs of (n, dimension) vectors."""
        codes = binary_codes(vectors)
        again = rescored or rescored_by is not None
        return cls(codes, vectors.shape[1], rescored_by, again, candidates)

    @property
    def bytes_per_vector(self) -> int:
        return int(self.codes.shape[1]) + (self.rescored_by.bytes_per_vector if self.rescored_by else 0)

    def scores(
        self, query: NDArray[np.float32], rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """The dot products of the query with the signs."""
        return _products(signs(self.codes if rows is None else self.codes[rows], self.dimension), query)

    def nearest(self, query: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
        distances = hamming_distances(binary_codes(query), self.codes)
        if not self.rescored:
            return _highest(-distances, depth)
        rows = np.sort(_highest(-distances, depth * self.candidates))  # equal scores come in order of rows
        return rows[_highest((self.rescored_by or self).scores(query, rows), depth)]


def _products(
    vectors: NDArray[np.float32] | NDArray[np.float16] | NDArray[np.int8], query: NDArray[np.float32]
) -> NDArray[np.float32]:
    if vectors.dtype == np.float32:
        whole: NDArray[np.float32] = vectors @ query
        return whole
    products = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS]
        # NumPy widens float16 number by number; torch does it with the processor's instructions.
        wide = (
            torch.from_numpy(block).float().numpy() if block.dtype == np.float16 else block.astype(np.float32)
        )
        products[start : start + _BLOCK_ROWS] = wide @ query
    return products


def _highest(scores: NDArray[np.float32] | NDArray[np.int64], depth: int) -> NDArray[np.int64]:
    """The rows of the highest scores, best first; equal scores come in the order of their rows."""
    rows = np.arange(len(scores), dtype=np.int64)
    if depth < len(scores):
        last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        rows = np.flatnonzero(scores >= last)
    return rows[np.argsort(-scores[rows], kind="stable")][:depth]
