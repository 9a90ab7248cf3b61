"""Second opinions on whether a candidate is a false negative."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.remembering import Remembering
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder


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
        self._encoder = Remembering(encoder)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Give each pair's cosine similarity, (pairs,)."""
        anchors = self._encoder.encode([anchor for anchor, _ in pairs], kind=TextKind.QUERY)
        texts = self._encoder.encode([text for _, text in pairs])
        scores: NDArray[np.float32] = np.vecdot(anchors, texts)
        return scores
