"""A collection's passages in the order in which a gate looks at their documents."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Points

__all__ = ["Arrangement"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The documents by their newest passage, each one's passages together.

    A document that was changed counts as new: it comes where its newest passage does. The *rank* of a
    document is its place in this order, a *row* that of a passage.
    """

    points: Points
    documents: NDArray[np.int64]  # (documents,) numbers by rank
    newest: NDArray[np.int64]  # (documents,) number of the newest passage, rising
    starts: NDArray[np.int64]  # (documents + 1,) the first row of each
    places: NDArray[np.int64]  # (n,) place in `points` of each row
    ranks: NDArray[np.int64]  # (n,) of the document of each row

    @classmethod
    def of(cls, points: Points, documents: NDArray[np.int64]) -> "Arrangement":
        """documents: (n,) the number of the document of each place."""
        numbers, inverse = np.unique(documents, return_inverse=True)
        newest = np.zeros(numbers.size, dtype=np.int64)
        np.maximum.at(newest, inverse, points.ids)
        by_newest = np.argsort(newest)
        rank = np.empty(numbers.size, dtype=np.int64)
        rank[by_newest] = np.arange(numbers.size)
        of_places = rank[inverse]
        places = np.argsort(of_places, kind="stable")
        ranks = of_places[places]
        starts = np.searchsorted(ranks, np.arange(numbers.size + 1))
        return cls(points, numbers[by_newest], newest[by_newest], starts, places, ranks)

    def __len__(self) -> int:
        return int(self.documents.size)

    def middle(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of a passage out of the middle of each document: beginnings and ends are often alike."""
        row: NDArray[np.int64] = (self.starts[ranks] + self.starts[ranks + 1]) // 2
        return row

    def vectors(self, rank: int) -> NDArray[np.float32]:
        """Of a document's passages, (m, d)."""
        return self.points.rows(self.places[self.starts[rank] : self.starts[rank + 1]])

    def ids(self, end: int, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The rising passage numbers of the documents kept among the first `end`; kept: by rank."""
        rows = self.starts[end]
        chosen: NDArray[np.int64] = self.places[:rows][kept[self.ranks[:rows]]]
        return self.points.ids[np.sort(chosen)]
