"""What gives each word of a sentence its scores: a fine-tuned network, or a linear layer on features."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.linear_head import LinearHead
from nearsay.training.bert.heads.network import HeadNetwork, example_logits
from nearsay.training.bert.heads.word_examples import WordExample
from nearsay.training.encoder.precision import Precision

__all__ = ["FeatureWordScorer", "NetworkWordScorer", "WordScorer"]


class WordScorer(Protocol):
    """Scores words."""

    def logits(self, examples: Sequence[WordExample]) -> list[NDArray[np.float32]]:
        """Give, for each row, (words that it speaks for, labels)."""


class NetworkWordScorer:
    """A `BertForTokenClassification`."""

    def __init__(self, network: HeadNetwork, *, pad_id: int, device: str, precision: Precision) -> None:
        """`precision`: a resolved one."""
        self.network = network
        self._pad_id = pad_id
        self._device = device
        self._precision = precision

    def logits(self, examples: Sequence[WordExample]) -> list[NDArray[np.float32]]:
        """Give, for each row, (words that it speaks for, labels)."""
        found = example_logits(
            self.network,
            [example.example for example in examples],
            pad_id=self._pad_id,
            device=self._device,
            precision=self._precision,
        )
        return [logits[example.positions] for example, logits in zip(examples, found, strict=True)]


class FeatureWordScorer:
    """A linear layer on the features of each word's first token."""

    def __init__(self, features: FrozenFeatures, head: LinearHead) -> None:
        """`head`: as wide as the features."""
        self._features = features
        self._head = head

    def logits(self, examples: Sequence[WordExample]) -> list[NDArray[np.float32]]:
        """Give, for each row, (words that it speaks for, labels)."""
        scores = self._head.logits(self._features.of_words(examples))
        ends = np.cumsum([len(example.positions) for example in examples])
        return np.split(scores, ends[:-1]) if len(examples) else []
