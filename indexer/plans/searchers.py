"""What is measured beside each other: exact search, and an index at some setting."""

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore

__all__ = ["ExactSearcher", "IndexSearcher"]

_AT_ONCE: Final = (
    400  # queries whose candidates are held together: with a hundred each 61 MB at 384 dimensions
)


@dataclass(frozen=True, slots=True)
class ExactSearcher:
    """Search that looks at every living vector."""

    vectors: VectorStore
    alive: NDArray[np.bool_]  # by passage number
    asked: int  # passages for a query
    kind: PlanKind = PlanKind.EXACT

    def search(self, queries: NDArray[np.float32]) -> list[Candidates]:
        """The nearest of each query, (n, d) gives n."""
        if len(queries) == 1:
            return [self.vectors.nearest(queries[0], self.asked, self.alive)]
        return self.vectors.nearest_many(queries, self.asked, self.alive)

    def ready_for(self, queries: NDArray[np.float32]) -> Self:  # noqa: ARG002
        """Itself: it reads everything whatever is asked, and gives it back where the store does."""
        return self


@dataclass(frozen=True, slots=True)
class IndexSearcher:
    """Search through an index."""

    vectors: VectorStore
    alive: NDArray[np.bool_]  # by passage number
    asked: int  # passages for a query
    index: CandidateIndex
    built: CandidateIndex  # the same, in memory, as it was built

    @property
    def kind(self) -> PlanKind:
        """The index's."""
        return self.index.kind

    def search(self, queries: NDArray[np.float32]) -> list[Candidates]:
        """The nearest of each query, (n, d) gives n."""
        return self.index.nearest_many(self.vectors, queries, self.asked, self.alive)

    def ready_for(self, queries: NDArray[np.float32]) -> Self:
        """The same, over a copy of just those vectors that it scores for these queries (n, d).

        Where the store gives pages back: some hundred queries have their candidates in most pages of a
        million vectors, the system takes in up to 2 MB for each that is touched, and all of the file would
        lie in memory beside the indexes that are measured. Of other stores the searcher itself.
        """
        if not self.vectors.gives_back:
            return self
        ids = self.index.proposed(queries, self.asked, self.alive)
        return replace(self, vectors=self.vectors.part(np.unique(ids[ids >= 0])))

    def found(self, queries: NDArray[np.float32]) -> list[Candidates]:
        """What `search` gives, some queries at a time where the store gives pages back."""
        if not self.vectors.gives_back:
            return self.search(queries)
        parts = [queries[begin : begin + _AT_ONCE] for begin in range(0, len(queries), _AT_ONCE)]
        return [one for part in parts for one in self.ready_for(part).search(part)]
