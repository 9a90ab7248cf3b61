"""Vectors that must not reach an index, and the last touch to those that may."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NotFiniteError
from nearsay.training.sentence.tokens import shortened


def checked_vectors(
    vectors: NDArray[np.float32], texts: Sequence[str], encoder_name: str
) -> NDArray[np.float32]:
    """Return the vectors if every row is finite and not all zero; otherwise raise NotFiniteError.

    vectors: (texts, dimension); one bad row corrupts an index and is near to nothing, or to everything
    """
    # The sum of squares says all three at once: NaN, infinite or 0.
    squares = np.einsum("td,td->t", vectors, vectors, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(squares) | (squares == 0))
    if len(bad):
        raise NotFiniteError(
            f"encoder {encoder_name!r} gave {len(bad)} of {len(vectors)} different texts a vector that is "
            f"NaN, infinite or all zero, the first to {shortened(texts[bad[0]])}. Its weights are damaged "
            "or the precision is too narrow for them: try float32, then copy or train the encoder again"
        )
    return vectors


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale each row to unit length, in place; rows must not be zero. Returns the same array."""
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def pair_features(u: NDArray[np.float32], v: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (u, v, |u-v|, u*v) side by side: (pairs, dimension) twice in, (pairs, 4 · dimension) out.

    Conneau et al. 2017, section 3.1, https://arxiv.org/abs/1705.02364
    """
    return np.concatenate([u, v, np.abs(u - v), u * v], axis=1)
