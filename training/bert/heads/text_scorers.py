"""What gives a text, or a pair of texts, its scores: a fine-tuned network, or a linear layer on vectors."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.training.bert.heads.example_tokens import ExampleTokens
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.linear_head import LinearHead
from nearsay.training.bert.heads.network import HeadNetwork, example_logits
from nearsay.training.bert.heads.text_examples import text_examples
from nearsay.training.bert.pooling import Pooling
from nearsay.training.encoder.precision import Precision
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "FeatureTextScorer",
    "NetworkTextScorer",
    "ProbeTextScorer",
    "TextScorer",
    "TextScores",
    "TextVectors",
    "feature_vectors",
    "probe_vectors",
]


class TextScores(NamedTuple):
    """The scores of texts."""

    logits: NDArray[np.float32]  # (texts, labels)
    truncated: int  # texts that were cut at the length limit


class TextVectors(NamedTuple):
    """Vectors of texts that a linear head scores."""

    vectors: NDArray[np.float32]  # (texts, width)
    truncated: int  # texts that were cut at the length limit


class TextScorer(Protocol):
    """Scores texts, or pairs of them."""

    def scores(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> TextScores:
        """Score texts; `pairs`: the second text of each."""


class NetworkTextScorer:
    """A `BertForSequenceClassification`."""

    def __init__(
        self,
        network: HeadNetwork,
        tokens: ExampleTokens,
        *,
        length: int,
        device: str,
        precision: Precision,
    ) -> None:
        """`length`: most tokens of a row; `precision`: a resolved one."""
        self.network = network
        self._tokens = tokens
        self._length = length
        self._device = device
        self._precision = precision

    def scores(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> TextScores:
        """Score texts; `pairs`: the second text of each."""
        rows = text_examples(self._tokens, texts, pairs, length=self._length)
        logits = example_logits(
            self.network,
            rows.examples,
            pad_id=self._tokens.special.pad,
            device=self._device,
            precision=self._precision,
        )
        labels = int(self.network.transformer.config.num_labels or 0)
        return TextScores(np.array(logits, dtype=np.float32).reshape(-1, labels), rows.truncated)


class FeatureTextScorer:
    """A linear layer on features of a row's tokens."""

    def __init__(
        self,
        features: FrozenFeatures,
        tokens: ExampleTokens,
        head: LinearHead,
        *,
        pooling: Pooling,
        length: int,
    ) -> None:
        """`head`: as wide as the features; `length`: most tokens of a row."""
        self._features = features
        self._tokens = tokens
        self._head = head
        self._pooling = pooling
        self._length = length

    def scores(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> TextScores:
        """Score texts; `pairs`: the second text of each."""
        found = feature_vectors(
            self._features, self._tokens, texts, pairs, pooling=self._pooling, length=self._length
        )
        return TextScores(self._head.logits(found.vectors), found.truncated)


class ProbeTextScorer:
    """A linear layer on the sentence vectors of an encoder."""

    def __init__(self, encoder: TextEncoder, head: LinearHead) -> None:
        """`head`: as wide as the encoder's vectors, or as four of them for pairs."""
        self._encoder = encoder
        self._head = head

    def scores(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> TextScores:
        """Score texts; `pairs`: the second text of each."""
        found = probe_vectors(self._encoder, texts, pairs)
        return TextScores(self._head.logits(found.vectors), found.truncated)


def feature_vectors(
    features: FrozenFeatures,
    tokens: ExampleTokens,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    *,
    pooling: Pooling,
    length: int,
) -> TextVectors:
    """Give features of rows [CLS] text [SEP], or [CLS] text [SEP] pair [SEP]: (texts, width)."""
    rows = text_examples(tokens, texts, pairs, length=length)
    return TextVectors(features.of_rows(rows.examples, pooling), rows.truncated)


def probe_vectors(encoder: TextEncoder, texts: Sequence[str], pairs: Sequence[str] | None) -> TextVectors:
    """Give sentence vectors, (texts, dimension); of a pair u, v: u, v, |u - v|, u * v side by side.

    Conneau et al. 2017, section 3.1, https://arxiv.org/abs/1705.02364
    """
    both = [*texts, *(pairs or ())]
    window = next(iter(encoder.stream([both])))
    first = window.vectors[: len(texts)]
    if pairs is None:
        return TextVectors(first, window.truncated)
    second = window.vectors[len(texts) :]
    joined = np.concatenate([first, second, np.abs(first - second), first * second], axis=1)
    return TextVectors(joined, window.truncated)
