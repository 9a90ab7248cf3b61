"""A linear step behind the encoding of queries alone: the passages' vectors stay as they are."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

STRENGTHS: Final = (1.0, 3.0, 10.0)  # of the penalty; the higher, the nearer queries stay to where they were


@dataclass(frozen=True, slots=True, eq=False)
class QueryAdapter:
    """Moves a query to where its answers were: q + q · step, of unit length."""

    step: NDArray[np.float32]  # (d, d)

    def __call__(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Adapt queries, (n, d) of unit length, to (n, d) of unit length."""
        return _unit(queries + queries @ self.step)

    def moved(self, query: NDArray[np.float64]) -> NDArray[np.float64]:
        """One query (d,) of unit length, adapted in double precision: (d,) of unit length."""
        moved = query + query @ self.step
        return moved / float(np.linalg.norm(moved))

    def seen_by(self, query: NDArray[np.float64], passage: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a query (d,) multiplied with gives the cosine of the adapted query and a passage (d,): (d,).

        (q + q · step) · p / |q + q · step| = q · (p + step · p) / |q + q · step|: so each part of a query
        that is a sum has its part of the cosine.
        """
        return (passage + self.step @ passage) / float(np.linalg.norm(query + query @ self.step))

    def to_bytes(self) -> bytes:
        """As `from_bytes` reads it: float32 numbers, little-endian, row after row."""
        return self.step.astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, kept: bytes) -> "QueryAdapter":
        """Read what `to_bytes` gave; BadInputError for what is no square."""
        numbers = np.frombuffer(kept[: len(kept) // 4 * 4], dtype="<f4")
        size = int(np.sqrt(numbers.size))
        if not size or 4 * size * size != len(kept) or not np.isfinite(numbers).all():
            raise BadInputError(
                f"{len(kept)} bytes are no query adapter. Make it anew: nearsay index improve"
            )
        return cls(numbers.reshape(size, size).astype(np.float32))


def fit_query_adapter(
    queries: NDArray[np.float32], targets: NDArray[np.float32], strength: float
) -> QueryAdapter:
    """Fit the step from queries to what answers them, by ridge regression.

    queries: (n, d) of unit length; targets: (n, d), of each query the mean of its relevant passages' vectors
    strength: of the penalty on the step's squares, above 0

    step = argmin Σ |t - q - q · step|² + strength · |step|², in closed form, Hoerl & Kennard 1970,
    https://doi.org/10.1080/00401706.1970.10488634. That only the queries' side is trained, over stored
    vectors: https://arxiv.org/abs/2601.04646
    """
    _check(queries, targets, strength)
    wide = queries.astype(np.float64)
    return QueryAdapter((_inverse(wide, strength) @ (wide.T @ (targets - wide))).astype(np.float32))


def adapted_leaving_one_out(
    queries: NDArray[np.float32], targets: NDArray[np.float32], strength: float
) -> NDArray[np.float32]:
    """Each query as an adapter moves it that was fitted to all the others, (n, d) of unit length.

    What the adapter makes of queries that it has not seen, without fitting n of them: the residual of the
    whole fit is divided by how much the query pulled it to itself.
    """
    _check(queries, targets, strength)
    wide = queries.astype(np.float64)
    inverse, wanted = _inverse(wide, strength), targets - wide
    left = wanted - wide @ (inverse @ (wide.T @ wanted))
    pulled = np.einsum("nd,nd->n", wide @ inverse, wide)
    return _unit((targets - left / (1 - pulled)[:, None]).astype(np.float32))


def _inverse(queries: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
    """(XᵀX + strength · I)⁻¹ of queries X, (d, d): it is small however many queries there are."""
    inverse = np.linalg.inv(queries.T @ queries + strength * np.eye(queries.shape[1]))
    return inverse.astype(np.float64, copy=False)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return unit


def _check(queries: NDArray[np.float32], targets: NDArray[np.float32], strength: float) -> None:
    if queries.shape != targets.shape or queries.ndim != 2 or not len(queries) or strength <= 0:
        raise BadInputError(
            f"queries {queries.shape} and what answers them {targets.shape}, strength {strength:g}: give as "
            "many of one as of the other, and a strength above 0"
        )
