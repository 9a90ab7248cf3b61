"""How alike texts are for an encoder: cosines, and what each word has of one."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.query.explain import explain_passages
from nearsay.indexer.query.explanation import ExplainedPassage, Explanation
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["cosines", "explained"]


class _Encodes(Protocol):
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


def cosines(encoder: _Encodes, texts: Sequence[str]) -> NDArray[np.float64]:
    """The cosine similarity of every text to every other, (texts, texts); 1 on the diagonal."""
    vectors = encoder.encode(texts).astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found: NDArray[np.float64] = np.clip(unit @ unit.T, -1.0, 1.0)
    return found


def explained(encoder: TextEncoder, first: str, second: str, cosine: float) -> Explanation:
    """What each word of both has of their cosine: the first as the query, the second as the passage.

    cosine: as it is told, so that the shares add up to it
    """
    passage = ExplainedPassage("", second, cosine)
    (explanation,) = explain_passages(encoder, first, [passage], sentences=False)
    return explanation
