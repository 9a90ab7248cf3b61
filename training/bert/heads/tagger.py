"""A trained tagger: words in, a tag for each out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.example import ExampleTokens, WordExample, word_examples
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_folder import load_saved_network
from nearsay.training.bert.heads.head_settings import HeadWay, TaggerSettings
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import LinearHead
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, example_logits
from nearsay.training.bert.layers import LayerChoice
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, Processor, choose_device, resolve_precision

__all__ = [
    "FeatureWordScorer",
    "NetworkWordScorer",
    "Tagger",
]


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


_DEFAULT_LENGTH = 512  # of folders that others saved, which do not say


class Tagger:
    """Gives each word of a sentence its tag. Make one with `Tagger.load`."""

    def __init__(
        self, scorer: WordScorer, tokens: ExampleTokens, labels: LabelSet, settings: TaggerSettings
    ) -> None:
        """`labels`: in the order of the scorer's scores."""
        self._scorer = scorer
        self._tokens = tokens
        self.labels = labels.names
        self.settings = settings

    @classmethod
    def load(
        cls, folder: str | Path, *, device: str | None = None, precision: Precision = Precision.AUTO
    ) -> "Tagger":
        """Load a tagger that `nearsay train tagger` made, or any BertForTokenClassification.

        device: "cpu", "cuda", "cuda:1", "mps"; None takes a working GPU, else the CPU
        Raises NearsayError when the folder is none, carries code, or holds another kind of head.
        """
        chosen = choose_device(device)
        resolved = resolve_precision(Precision(precision), chosen, Processor.detect())
        place = Path(folder).expanduser()
        settings = TaggerSettings.read(EncoderFolder(place))
        if settings is not None and settings.way is not HeadWay.FINE_TUNED:
            bert = load_bert(folder)
            features = FrozenFeatures(
                bert, LayerChoice.parse(settings.layers or "last"), device=chosen, precision=resolved
            )
            scorer: WordScorer = FeatureWordScorer(features, LinearHead.load(place))
            return cls(scorer, ExampleTokens(bert.tokenizer), LabelSet(settings.labels), settings)
        bert, network = load_saved_network(folder, HeadKind.TAGGER, device=chosen, precision=resolved)
        settings = settings or TaggerSettings(length=min(bert.max_tokens, _DEFAULT_LENGTH))
        tokens = ExampleTokens(bert.tokenizer)
        scorer = NetworkWordScorer(network, pad_id=tokens.special.pad, device=chosen, precision=resolved)
        return cls(scorer, tokens, LabelSet.of_config(bert.config.id2label or {}), settings)

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Give the tags of each sentence's words, all of them: long sentences go through in windows.

        sentences: lists of words; TypeError for a string, since where its words end is the caller's to say
        """
        tags: list[list[str]] = [[] for _ in sentences]
        examples = word_examples(self._tokens, sentences, length=self.settings.length)
        for example, logits in zip(examples, self._scorer.logits(examples), strict=True):
            # a sentence's rows come in order, and each of its words has one row that speaks for it
            tags[example.sentence] += [self.labels[number] for number in logits.argmax(axis=1)]
        return tags
