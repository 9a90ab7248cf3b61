"""Several indexes over ranges of passages that follow each other, searched as one."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, merge

__all__ = ["UnitedIndex", "united"]


class UnitedIndex(CandidateIndex):
    """Each index proposes for its own range, and the stored vectors decide among all that were proposed."""

    def __init__(self, parts: Sequence[CandidateIndex], vectors: VectorStore) -> None:
        """`parts`: by their ranges, of one kind; `vectors`: of all passages in them."""
        hashes = ",".join(part.sha256 for part in parts)
        super().__init__(parts[0].engine, None, parts[-1].through, hashes, parts[0].parameters)
        self.parts = tuple(parts)
        self._vectors = vectors

    @cached_property
    def _alike(self) -> list[bool]:
        """Which of them look where the first one does: the lists of a query are chosen once for all these."""
        return [part.looks_where(self.parts[0]) for part in self.parts]

    @property
    def lists(self) -> int:
        """The most lists that a search can look into in one of them."""
        return max(part.lists for part in self.parts)

    def looking(self, parameters: Mapping[str, int]) -> Self:
        """The same indexes, searched with other parameters."""
        return type(self)([part.looking(parameters) for part in self.parts], self._vectors)

    def wider(self, factor: float) -> Self:
        """Each looking `factor` times as far; the same object for the same reach, itself where none can."""
        parts = [part.wider(factor) for part in self.parts]
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        key = tuple(item for part in parts for item in sorted(part.parameters.items()))
        return self._wider.setdefault(key, type(self)(parts, self._vectors))

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def ids(self) -> NDArray[np.int64]:
        """Every passage number in the indexes, rising."""
        return np.sort(np.concatenate([part.ids() for part in self.parts]))

    def add(self, vectors: VectorStore, ids: NDArray[np.int64]) -> None:  # noqa: ARG002
        """TypeError: new passages get an index of their own."""
        raise TypeError("several indexes searched as one take in nothing")

    def serialise(self) -> NDArray[np.uint8]:
        """TypeError: each is kept by itself."""
        raise TypeError("several indexes searched as one are each kept by themselves")

    def candidates(
        self, queries: NDArray[np.float32], count: int, alive: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """The `count` nearest of what each proposes, by the stored vectors; (n, count), -1 = no more."""
        found = np.full((len(queries), count), -1, dtype=np.int64)
        for row, best in enumerate(self.nearest_many(self._vectors, queries, count, alive)):
            found[row, : best.ids.size] = best.ids
        return found

    def nearest_many(
        self,
        vectors: VectorStore,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_] | None = None,
    ) -> list[Candidates]:
        """The k nearest as far as the indexes show them, scored by the stored vectors; (n, d) gives n."""
        queries = np.ascontiguousarray(queries)
        lists = self.parts[0].chosen_lists(queries) if any(self._alike[1:]) else None
        found = [
            self.scored(
                vectors, queries, k, part.proposed_within(lists if alike else None, queries, k, alive)
            )
            for part, alike in zip(self.parts, self._alike, strict=True)
        ]
        return [merge(of_query, k) for of_query in zip(*found, strict=True)]


def united(parts: Sequence[Any], vectors: VectorStore) -> CandidateIndex:
    """The one index, or several as one."""
    one: CandidateIndex = parts[0]
    return one if len(parts) == 1 else UnitedIndex(parts, vectors)
