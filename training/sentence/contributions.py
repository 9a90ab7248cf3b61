"""What each token adds to a text's vector, for encoders of which that can be said."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.text_encoder import TextKind

__all__ = ["ContributingEncoder", "TextContributions"]


@dataclass(frozen=True, slots=True)
class TextContributions:
    """A text's vector as a sum over its tokens.

    A token's vector is the last layer's, which has seen the whole text: it is what the token holds there and
    not what the text would lose without the word.
    """

    vectors: NDArray[np.float64]  # (tokens, dimension), what each token adds to the text's vector
    constant: NDArray[np.float64]  # (dimension,), what no token adds: the biases of layers after the pooling
    spans: NDArray[np.int64]  # (tokens, 2), characters of the text; (0, 0) for special tokens and prompt
    exact: bool  # False: a step after the last layer is not linear, and was shared out by a rule
    whole: bool  # False: the text is longer than the encoder takes, and its end has no tokens here

    @property
    def total(self) -> NDArray[np.float64]:
        """The text's vector (dimension,): the tokens' sum and the constant."""
        total: NDArray[np.float64] = self.vectors.sum(axis=0) + self.constant
        return total


@runtime_checkable
class ContributingEncoder(Protocol):
    """A text encoder that can say what its tokens add."""

    def contributions(
        self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE
    ) -> list[TextContributions] | None:
        """Give each text's vector token by token; None when this encoder's vectors are no sum of tokens."""
