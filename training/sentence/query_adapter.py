"""A linear step behind the encoding of queries alone: the passages' vectors stay as they are."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

STRENGTHS: Final = (1.0, 3.0, 10.0)  # of the penalty; the higher, the nearer queries stay to where they were


@dataclass(frozen=True, slots=True, eq=False)
class QueryAdapter:
    """A linear adapter of query vectors: q + q · step, normalised."""

    step: NDArray[np.float32]  # (d, d)

    def __call__(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Adapt queries, (n, d) of unit length, to (n, d) of unit length."""
        return _unit(queries + queries @ self.step)

    def moved(self, query: NDArray[np.float64]) -> NDArray[np.float64]:
        """Adapt one query (d,) of unit length, in double precision; returns (d,) of unit length."""
        moved = query + query @ self.step
        return moved / float(np.linalg.norm(moved))

    def seen_by(self, query: NDArray[np.float64], passage: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a query (d,) multiplied with gives the cosine of the adapted query and a passage (d,): (d,).

        (q + q · step) · p / |q + q · step| = q · (p + step · p) / |q + q · step|: so each part of a query
        that is a sum has its part of the cosine.
        """
        return (passage + self.step @ passage) / float(np.linalg.norm(query + query @ self.step))

    def to_bytes(self) -> bytes:
        """Serialise for `from_bytes`: float32 numbers, little-endian, row by row."""
        return self.step.astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, kept: bytes) -> "QueryAdapter":
        """Deserialise what `to_bytes` returned; BadInputError if it is not square."""
        numbers = np.frombuffer(kept[: len(kept) // 4 * 4], dtype="<f4")
        size = int(np.sqrt(numbers.size))
        if not size or 4 * size * size != len(kept) or not np.isfinite(numbers).all():
            raise BadInputError(
                f"{len(kept)} bytes are not a query adapter. Create it again: nearsay index improve"
            )
        return cls(numbers.reshape(size, size).astype(np.float32))


def fit_query_adapter(
    queries: NDArray[np.float32], targets: NDArray[np.float32], strength: float
) -> QueryAdapter:
    """Fit the step from queries to their relevant passages, by ridge regression.

    queries: (n, d) of unit length; targets: (n, d), the mean of each query's relevant passages' vectors
    strength: of the L2 penalty on the step, above 0

    The step is argmin Σ |t - q - q · step|² + strength · |step|², in closed form, Hoerl & Kennard 1970,
    https://doi.org/10.1080/00401706.1970.10488634. Training only the query side over stored vectors:
    https://arxiv.org/abs/2601.04646
    """
    _check(queries, targets, strength)
    wide = queries.astype(np.float64)
    return QueryAdapter((_inverse(wide, strength) @ (wide.T @ (targets - wide))).astype(np.float32))


def adapted_leaving_one_out(
    queries: NDArray[np.float32], targets: NDArray[np.float32], strength: float
) -> NDArray[np.float32]:
    """Each query adapted by an adapter fitted to all others, (n, d) of unit length.

    Computed in closed form, without n fits: the residual of the full fit is divided by one minus the query's
    leverage.
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
