"""Cosine similarities of texts to one query."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.text_encoder import TextEncoder, TextKind, WindowEncoder

__all__ = ["cosines", "encoded", "unit_vector"]


def encoded(
    encoder: TextEncoder, texts: Sequence[str], kind: TextKind = TextKind.PASSAGE
) -> NDArray[np.float64]:
    """The texts' vectors (texts, dimension), each of length 1; a text that is too long is cut unheard."""
    if not texts:
        return np.empty((0, encoder.dimension))
    few = list(texts)
    window = (
        encoder.encode_window(few, kind=kind)
        if isinstance(encoder, WindowEncoder)
        else next(iter(encoder.stream([few], kind=kind)))
    )
    vectors = window.vectors.astype(np.float64)
    unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def cosines(encoder: TextEncoder, query: NDArray[np.float64], texts: Sequence[str]) -> NDArray[np.float64]:
    """Each text's cosine similarity to the query (texts,); query: (dimension,) of length 1."""
    similarities: NDArray[np.float64] = encoded(encoder, texts) @ query
    return similarities


def unit_vector(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vector at length 1; zeros stay zeros."""
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
