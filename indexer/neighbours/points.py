"""The passages that are explored together, with their vectors wherever they lie."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.snapshot import Snapshot
from nearsay.indexer.vector_store import VectorStore

__all__ = ["JoinedPoints", "Points", "Vectors"]


class Vectors(Protocol):
    """Vectors of unit length by place, wherever they lie."""

    def __len__(self) -> int:
        """How many."""
        ...

    @property
    def dimension(self) -> int:
        """Of each."""
        ...

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Those (m, d) at any places, in their order."""
        ...

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first place of each block of so many, and its vectors."""
        ...


@dataclass(frozen=True, slots=True)
class Points:
    """Passages by rising number; a *place* is a passage's position among them, 0 to len - 1."""

    ids: NDArray[np.int64]  # (n,) passage numbers, rising
    _store: VectorStore | None  # where their vectors are mapped, or
    _array: NDArray[np.float32] | None  # the vectors (n, d) themselves
    _positions: NDArray[np.int64] | None  # (n,) the passages' positions in the store

    @classmethod
    def of(cls, snapshot: Snapshot, allowed: NDArray[np.int64] | None = None) -> "Points":
        """What a snapshot can find; allowed: rising passage numbers, None = all. Vectors stay on the disk."""
        ids = snapshot.vectors.ids[snapshot.alive[snapshot.vectors.ids]]
        if allowed is not None:
            ids = ids[np.isin(ids, allowed, assume_unique=True)]
        return cls(ids, snapshot.vectors, None, snapshot.vectors.positions(ids))

    @classmethod
    def from_array(cls, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> "Points":
        """ids: (n,) rising; vectors: (n, d) of unit length, in memory."""
        return cls(ids, None, vectors, None)

    def __len__(self) -> int:
        return int(self.ids.size)

    @property
    def dimension(self) -> int:
        """Of the vectors."""
        if self._array is not None:
            return int(self._array.shape[1])
        assert self._store is not None  # noqa: S101 - one of the two is there
        return self._store.dimension

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The unit-length vectors (m, d) at any places, in their order."""
        if self._array is not None:
            return self._array[places]
        assert self._store is not None  # noqa: S101 - one of the two is there
        assert self._positions is not None  # noqa: S101 - it comes with the store
        rising, back = np.unique(places, return_inverse=True)
        found = self._store.rows(self._positions[rising])
        return found if np.array_equal(rising, places) else found[back]

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first place of each block of so many passages, and their vectors."""
        for begin in range(0, len(self), size):
            yield begin, self.rows(np.arange(begin, min(begin + size, len(self))))


@dataclass(frozen=True, slots=True)
class JoinedPoints:
    """The passages of one collection and, at the places after them, those of another."""

    first: Points
    second: Points

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @property
    def dimension(self) -> int:
        """Of the vectors of both."""
        return self.first.dimension

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The unit-length vectors (m, d) at any places, in their order."""
        after = places >= len(self.first)
        if not after.any():
            return self.first.rows(places)
        rows = np.empty((places.size, self.dimension), dtype=np.float32)
        rows[~after] = self.first.rows(places[~after])
        rows[after] = self.second.rows(places[after] - len(self.first))
        return rows

    def blocks(self, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first place of each block of so many passages, and their vectors."""
        yield from self.first.blocks(size)
        for begin, vectors in self.second.blocks(size):
            yield begin + len(self.first), vectors
