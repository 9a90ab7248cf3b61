"""A trained classifier: texts, or pairs of texts, in; labels and their probabilities out."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder, load_bert
from nearsay.training.bert.heads.example import ExampleTokens, text_examples
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_settings import ClassifierSettings, HeadWay
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import LinearHead
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, example_logits, load_saved_network
from nearsay.training.bert.layers import LayerChoice, Pooling
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, choose_hardware
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import EncodedWindow, VectorEncoder, cut_note, encoded_texts
from nearsay.training.sentence.vectors import pair_features

_WINDOW_TEXTS = 4096  # texts of a probe whose tokens are in memory


# Takes texts and, for pairs, the second text of each; gives vectors, or logits (texts, labels).
TextScorer: TypeAlias = Callable[[Sequence[str], Sequence[str] | None], EncodedWindow]


def network_scorer(
    network: HeadNetwork, tokens: ExampleTokens, *, length: int, device: str, precision: Precision
) -> TextScorer:
    """A scorer with a classifier's network; `length`: maximum tokens of a row; precision: resolved."""

    def scores(texts: Sequence[str], pairs: Sequence[str] | None) -> EncodedWindow:
        rows = text_examples(tokens, texts, pairs, length=length)
        logits = example_logits(
            network, rows.examples, pad_id=tokens.special.pad, device=device, precision=precision
        )
        labels = int(network.transformer.config.num_labels or 0)
        return EncodedWindow(np.array(logits, dtype=np.float32).reshape(-1, labels), rows.truncated)

    return scores


def linear_scorer(vectors: TextScorer, head: LinearHead) -> TextScorer:
    """A scorer with a linear layer as wide as the vectors."""

    def scores(texts: Sequence[str], pairs: Sequence[str] | None) -> EncodedWindow:
        found = vectors(texts, pairs)
        return EncodedWindow(head.logits(found.vectors), found.truncated)

    return scores


def frozen_vectors(
    base: BertFolder | Encoder, settings: ClassifierSettings, *, device: str, precision: Precision
) -> TextScorer:
    """Vectors of texts for a linear layer: the encoder's own, or features of a BERT's layers.

    Features are those of rows [CLS] text [SEP], or [CLS] text [SEP] pair [SEP].
    """
    if isinstance(base, Encoder):
        return partial(probe_vectors, base)
    layers = LayerChoice.parse(settings.layers or "last")
    pooling = Pooling(settings.pooling or Pooling.MEAN)
    if pooling is Pooling.CLS:
        base.require_seeing_cls()
    features = FrozenFeatures(base, layers, device=device, precision=precision)
    tokens = ExampleTokens(base.tokenizer)

    def vectors(texts: Sequence[str], pairs: Sequence[str] | None) -> EncodedWindow:
        rows = text_examples(tokens, texts, pairs, length=settings.length)
        return EncodedWindow(features.of_rows(rows.examples, pooling), rows.truncated)

    return vectors


def probe_vectors(encoder: VectorEncoder, texts: Sequence[str], pairs: Sequence[str] | None) -> EncodedWindow:
    """Compute sentence vectors, (texts, dimension); of pairs their `pair_features`."""
    vectors, truncated = encoded_texts(encoder, [*texts, *(pairs or ())], window=_WINDOW_TEXTS)
    if pairs is None:
        return EncodedWindow(vectors, truncated)
    return EncodedWindow(pair_features(vectors[: len(texts)], vectors[len(texts) :]), truncated)


logger = logging.getLogger("nearsay")

_DEFAULT_LENGTH = 512  # of folders that others saved, which do not say


class TextPredictions(NamedTuple):
    """The predictions of a classifier."""

    labels: list[str]  # the most likely label of each text
    probabilities: NDArray[np.float32]  # (texts, labels), in the order of the classifier's labels
    truncated: int  # number of truncated texts


class TextClassifier:
    """Classifies texts or pairs of texts. Create one with `TextClassifier.load`."""

    def __init__(self, scorer: TextScorer, labels: LabelSet, settings: ClassifierSettings) -> None:
        """`labels`: in the order of the scorer's scores."""
        self._scorer = scorer
        self.labels = labels.names
        self.settings = settings

    @classmethod
    def load(
        cls, folder: str | Path, *, device: str | None = None, precision: Precision = Precision.AUTO
    ) -> "TextClassifier":
        """Load a classifier trained by `nearsay train classifier`, or any BertForSequenceClassification.

        device: "cpu", "cuda", "cuda:1", "mps"; None = a working GPU, else the CPU

        Raises NearsayError if the folder does not exist, contains code, or another kind of head.
        """
        chosen, resolved = choose_hardware(device, precision)
        place = Path(folder).expanduser()
        settings = ClassifierSettings.read(EncoderFolder(place))
        if settings is not None and settings.way is not HeadWay.FINE_TUNED:
            probe = settings.way is HeadWay.PROBE
            base = Encoder.load(folder, device=chosen, precision=precision) if probe else load_bert(folder)
            vectors = frozen_vectors(base, settings, device=chosen, precision=resolved)
            return cls(linear_scorer(vectors, LinearHead.load(place)), LabelSet(settings.labels), settings)
        bert, network = load_saved_network(folder, HeadKind.CLASSIFIER, device=chosen, precision=resolved)
        settings = settings or ClassifierSettings(length=min(bert.max_tokens, _DEFAULT_LENGTH), pairs=None)
        tokens = ExampleTokens(bert.tokenizer)
        return cls(
            network_scorer(network, tokens, length=settings.length, device=chosen, precision=resolved),
            LabelSet.of_config(bert.config.id2label or {}),
            settings,
        )

    def predict(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> TextPredictions:
        """Predict each text's label, with the probabilities of all labels; truncation is logged as a warning.

        pairs: the second text of each, for a classifier of pairs; one saved by others takes either

        Raises BadInputError for pairs if it was trained on single texts, or for none if it was trained on
        pairs.
        """
        if isinstance(texts, str) or isinstance(pairs, str):
            raise TypeError("texts is one string; give a list of texts")
        if pairs is not None and len(pairs) != len(texts):
            raise BadInputError(
                f"there are {len(texts)} texts and {len(pairs)} second texts; give one for each"
            )
        if self.settings.pairs not in {None, pairs is not None}:
            raise BadInputError(
                "the classifier was trained on pairs of texts; give the second text of each pair too"
                if self.settings.pairs
                else "the classifier was trained on single texts; give texts alone"
            )
        if not texts:
            return TextPredictions([], np.empty((0, len(self.labels)), dtype=np.float32), 0)
        scores = self._scorer(texts, pairs)
        if scores.truncated:
            limit = f"the {self.settings.length} tokens that the classifier takes"
            logger.warning("%s", cut_note(scores.truncated, len(texts), limit))
        probabilities = softmax(scores.vectors.astype(np.float64), axis=1).astype(np.float32)
        labels = [self.labels[number] for number in scores.vectors.argmax(axis=1)]
        return TextPredictions(labels, probabilities, scores.truncated)
