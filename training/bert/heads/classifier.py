"""A trained classifier: texts, or pairs of texts, in; labels and their probabilities out."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.example import ExampleTokens, text_examples
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_folder import load_saved_network
from nearsay.training.bert.heads.head_settings import ClassifierSettings, HeadWay
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import LinearHead
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, example_logits
from nearsay.training.bert.layers import LayerChoice, Pooling
from nearsay.training.cut_note import cut_note
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, Processor, choose_device, resolve_precision
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "FeatureTextScorer",
    "NetworkTextScorer",
    "ProbeTextScorer",
    "TextClassifier",
    "TextScorer",
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


logger = logging.getLogger("nearsay")

_DEFAULT_LENGTH = 512  # of folders that others saved, which do not say


class TextPredictions(NamedTuple):
    """What a classifier says of texts."""

    labels: list[str]  # the likeliest label of each text
    probabilities: NDArray[np.float32]  # (texts, labels), in the order of the classifier's labels
    truncated: int  # texts that were cut at the length limit


class TextClassifier:
    """Says which label a text, or a pair of texts, has. Make one with `TextClassifier.load`."""

    def __init__(self, scorer: TextScorer, labels: LabelSet, settings: ClassifierSettings) -> None:
        """`labels`: in the order of the scorer's scores."""
        self._scorer = scorer
        self.labels = labels.names
        self.settings = settings

    @classmethod
    def load(
        cls, folder: str | Path, *, device: str | None = None, precision: Precision = Precision.AUTO
    ) -> "TextClassifier":
        """Load a classifier that `nearsay train classifier` made, or any BertForSequenceClassification.

        device: "cpu", "cuda", "cuda:1", "mps"; None takes a working GPU, else the CPU
        Raises NearsayError when the folder is none, carries code, or holds another kind of head.
        """
        chosen = choose_device(device)
        resolved = resolve_precision(Precision(precision), chosen, Processor.detect())
        place = Path(folder).expanduser()
        settings = ClassifierSettings.read(EncoderFolder(place))
        if settings is not None and settings.way is HeadWay.PROBE:
            encoder = Encoder.load(folder, device=chosen, precision=precision)
            return cls(ProbeTextScorer(encoder, LinearHead.load(place)), LabelSet(settings.labels), settings)
        if settings is not None and settings.way is HeadWay.FEATURES:
            bert = load_bert(folder)
            features = FrozenFeatures(
                bert, LayerChoice.parse(settings.layers or "last"), device=chosen, precision=resolved
            )
            scorer = FeatureTextScorer(
                features,
                ExampleTokens(bert.tokenizer),
                LinearHead.load(place),
                pooling=Pooling(settings.pooling or Pooling.MEAN),
                length=settings.length,
            )
            return cls(scorer, LabelSet(settings.labels), settings)
        bert, network = load_saved_network(folder, HeadKind.CLASSIFIER, device=chosen, precision=resolved)
        settings = settings or ClassifierSettings(length=min(bert.max_tokens, _DEFAULT_LENGTH))
        tokens = ExampleTokens(bert.tokenizer)
        return cls(
            NetworkTextScorer(network, tokens, length=settings.length, device=chosen, precision=resolved),
            LabelSet.of_config(bert.config.id2label or {}),
            settings,
        )

    def predict(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> TextPredictions:
        """Give each text's label and the probabilities of all labels; a log warning says how many were cut.

        pairs: the second text of each, for a classifier of pairs
        Raises BadInputError when there are pairs where it was trained on single texts, or none where it was
        trained on pairs.
        """
        if isinstance(texts, str) or isinstance(pairs, str):
            raise TypeError("texts is one string; give a list of texts")
        if pairs is not None and len(pairs) != len(texts):
            raise BadInputError(
                f"there are {len(texts)} texts and {len(pairs)} second texts; give one for each"
            )
        if self.settings.pairs != (pairs is not None):
            raise BadInputError(
                "the classifier was trained on pairs of texts; give the second text of each pair too"
                if self.settings.pairs
                else "the classifier was trained on single texts; give texts alone"
            )
        if not texts:
            return TextPredictions([], np.empty((0, len(self.labels)), dtype=np.float32), 0)
        scores = self._scorer.scores(texts, pairs)
        if scores.truncated:
            limit = f"the {self.settings.length} tokens that the classifier takes"
            logger.warning("%s", cut_note(scores.truncated, len(texts), limit))
        probabilities = softmax(scores.logits.astype(np.float64), axis=1).astype(np.float32)
        labels = [self.labels[number] for number in scores.logits.argmax(axis=1)]
        return TextPredictions(labels, probabilities, scores.truncated)
