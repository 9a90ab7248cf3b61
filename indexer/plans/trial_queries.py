"""What candidate indexes are measured with: queries, and what exact search answers to each."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore

__all__ = [
    "LEAST_QUERIES",
    "TrialQueries",
    "drawn",
    "given",
    "held_out",
    "queries_to_show",
    "recall_at_least",
    "require_enough",
]

LEAST_QUERIES: Final = 10  # of the user's own; `queries_to_show` says how many a recall needs
_ONE_SIDED_95: Final = 1.645  # standard deviations
_MISSES: Final = _ONE_SIDED_95**2  # queries that find nothing, as which the unasked count


@dataclass(frozen=True, slots=True)
class TrialQueries:
    """Queries and their truth: the `at` nearest of each by exact search, never the query itself."""

    vectors: NDArray[np.float32]  # (n, d), unit length
    own: NDArray[np.int64]  # (n,), the passage that each query is the vector of; -1: of none
    truth: tuple[Candidates, ...]  # n
    at: int

    def __len__(self) -> int:
        return len(self.own)

    @property
    def asked(self) -> int:
        """How many to ask an index for, so that `at` are left without the query itself."""
        return self.at + int(bool(np.any(self.own >= 0)))

    def recalls(self, found: Sequence[Candidates]) -> NDArray[np.float64]:
        """For each query the share of its truth that was found, (n,); what ties with the truth's last counts.

        found: the `asked` nearest of each query, scored as the truth was.
        """
        shares = np.ones(len(self), dtype=np.float64)
        for row, (truth, got) in enumerate(zip(self.truth, found, strict=True)):
            if truth.ids.size:
                scores = got.scores[got.ids != self.own[row]][: self.at]
                shares[row] = np.count_nonzero(scores >= truth.scores[-1]) / truth.ids.size
        return shares

    def part(self, begin: int, end: int) -> "TrialQueries":
        """Some of them."""
        return TrialQueries(self.vectors[begin:end], self.own[begin:end], self.truth[begin:end], self.at)


def drawn(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    count: int,
    at: int,
    generator: np.random.Generator,
    after: int = 0,
) -> TrialQueries:
    """So many of the living stored vectors (or all there are), each to find its neighbours but not itself.

    after: only of passages with a higher number
    """
    own, queries = _drawn(vectors, alive, count, generator, after)
    return _answered(vectors, alive, queries, own, at)


def held_out(
    vectors: VectorStore, alive: NDArray[np.bool_], count: int, at: int, generator: np.random.Generator
) -> tuple[TrialQueries, NDArray[np.bool_]]:
    """So many of the living stored vectors, none of which is to be found; and who is left to be found.

    returns: the queries, and `alive` without them, read-only
    """
    own, queries = _drawn(vectors, alive, count, generator, 0)
    others = alive.copy()
    others[own] = False
    others.flags.writeable = False
    strangers = np.full(own.size, -1, dtype=np.int64)
    return _answered(vectors, others, queries, strangers, at), others


def given(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    queries: NDArray[np.float32],
    at: int,
    generator: np.random.Generator,
) -> TrialQueries:
    """The user's own queries (n, d), in an order by chance; BadInputError for fewer than ten."""
    require_enough(len(queries))
    shuffled = queries[generator.permutation(len(queries))]
    return _answered(vectors, alive, shuffled, np.full(len(queries), -1, dtype=np.int64), at)


def require_enough(queries: int) -> None:
    """BadInputError for fewer queries than ten."""
    if queries < LEAST_QUERIES:
        raise BadInputError(
            f"{queries} queries are too few to measure recall with. Give {LEAST_QUERIES} or more, "
            "best some hundreds, or none: then stored vectors are taken"
        )


def _drawn(
    vectors: VectorStore, alive: NDArray[np.bool_], count: int, generator: np.random.Generator, after: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Passage numbers by chance (n,), and their vectors (n, d)."""
    ids = vectors.ids[alive[vectors.ids] & (vectors.ids > after)]
    own = generator.choice(ids, size=min(count, ids.size), replace=False).astype(np.int64)
    order = np.argsort(own)
    queries = np.empty((own.size, vectors.dimension), dtype=np.float32)
    queries[order] = vectors.rows(vectors.positions(own[order]))
    return own, queries


def _answered(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    queries: NDArray[np.float32],
    own: NDArray[np.int64],
    at: int,
) -> TrialQueries:
    asked = at + int(bool(np.any(own >= 0)))
    truth = []
    for number, near in zip(own, vectors.nearest_many(queries, asked, alive), strict=True):
        others = near.ids != number
        truth.append(Candidates(near.ids[others][:at], near.scores[others][:at]))
    return TrialQueries(queries, own, tuple(truth), at)


def recall_at_least(recalls: NDArray[np.float64]) -> float:
    """The recall that the queries vouch for: the lower end of the mean's one-sided 95 % interval.

    recalls: (n,), each query's share; one query vouches for nothing. The smaller of the normal approximation,
    mean - 1.645 s / sqrt(n), and mean / (1 + 1.645^2 / n): where few queries find the same their spread is
    nothing, which says little of the others. Of queries that all find everything the second is Wilson's lower
    bound of a share (1927, https://doi.org/10.1080/01621459.1927.10502953); Wilson's bound of other means
    takes shares for zeros and ones, which spread more than shares of ten neighbours do.
    """
    if recalls.size < 2:
        return 0.0
    mean = float(recalls.mean())
    spread = float(recalls.std(ddof=1)) / float(np.sqrt(recalls.size))
    return max(0.0, min(mean - _ONE_SIDED_95 * spread, mean / (1 + _MISSES / recalls.size)))


def queries_to_show(recall: float) -> int | None:
    """How many queries vouch for a recall if each finds everything; None if no number does."""
    return None if recall >= 1 else max(2, ceil(_MISSES * recall / (1 - recall)))
