"""Second opinions on whether a candidate is a false negative."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.batching import distinct
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

__all__ = ["EncoderJudge", "Judge"]


class Judge(Protocol):
    """Says how well texts fit anchors."""

    @property
    def name(self) -> str:
        """What people call it."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Give each (anchor, text) a score, (pairs,); higher fits better, on a scale of the judge's own."""


class EncoderJudge:
    """Another encoder: its score is the cosine similarity of anchor (as a query) and text (as a passage).

    Every text's vector is kept, since a text is a candidate of several anchors: 4 bytes a number.

    Solatorio 2024, GISTEmbed, section 3, https://arxiv.org/abs/2402.16829
    """

    def __init__(self, encoder: VectorEncoder) -> None:
        """Nothing is encoded yet."""
        self.name = encoder.name
        self._encoder = encoder
        self._vectors: dict[TextKind, dict[str, NDArray[np.float32]]] = {kind: {} for kind in TextKind}

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Give each pair's cosine similarity, (pairs,)."""
        anchors = self._encoded([anchor for anchor, _ in pairs], TextKind.QUERY)
        texts = self._encoded([text for _, text in pairs], TextKind.PASSAGE)
        products = [np.dot(anchors[anchor], texts[text]) for anchor, text in pairs]
        return np.array(products, dtype=np.float32)

    def _encoded(self, texts: Sequence[str], kind: TextKind) -> dict[str, NDArray[np.float32]]:
        kept = self._vectors[kind]
        new, _ = distinct([text for text in texts if text not in kept])
        if new:
            vectors, _ = encoded_texts(self._encoder, new, kind=kind)
            kept |= dict(zip(new, unit_rows(vectors), strict=True))
        return kept
