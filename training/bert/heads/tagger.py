"""A trained tagger: words in, a tag for each out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.example import ExampleTokens, WordExample, word_examples
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_settings import HeadWay, TaggerSettings
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import LinearHead
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, example_logits, load_saved_network
from nearsay.training.bert.layers import LayerChoice
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, choose_hardware

# Gives, for each row, the scores of the words that it speaks for, (words, labels).
WordScorer: TypeAlias = Callable[[Sequence[WordExample]], list[NDArray[np.float32]]]


def network_word_scorer(
    network: HeadNetwork, *, pad_id: int, device: str, precision: Precision
) -> WordScorer:
    """A scorer with a `BertForTokenClassification`; `precision`: a resolved one."""

    def logits(examples: Sequence[WordExample]) -> list[NDArray[np.float32]]:
        rows = [example.example for example in examples]
        found = example_logits(network, rows, pad_id=pad_id, device=device, precision=precision)
        return [logits[example.positions] for example, logits in zip(examples, found, strict=True)]

    return logits


def feature_word_scorer(features: FrozenFeatures, head: LinearHead) -> WordScorer:
    """A scorer with a linear layer on the features of each word's first token."""

    def logits(examples: Sequence[WordExample]) -> list[NDArray[np.float32]]:
        scores = head.logits(features.of_words(examples))
        ends = np.cumsum([len(example.positions) for example in examples])
        return np.split(scores, ends[:-1]) if len(examples) else []

    return logits


_DEFAULT_LENGTH = 512  # of folders that others saved, which do not say


class Tagger:
    """Tags the words of sentences. Create one with `Tagger.load`."""

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
        """Load a tagger trained by `nearsay train tagger`, or any BertForTokenClassification.

        device: "cpu", "cuda", "cuda:1", "mps"; None = a working GPU, else the CPU

        Raises NearsayError if the folder does not exist, contains code, or another kind of head.
        """
        chosen, resolved = choose_hardware(device, precision)
        place = Path(folder).expanduser()
        settings = TaggerSettings.read(EncoderFolder(place))
        if settings is not None and settings.way is not HeadWay.FINE_TUNED:
            bert = load_bert(folder)
            features = FrozenFeatures(
                bert, LayerChoice.parse(settings.layers or "last"), device=chosen, precision=resolved
            )
            scorer = feature_word_scorer(features, LinearHead.load(place))
            return cls(scorer, ExampleTokens(bert.tokenizer), LabelSet(settings.labels), settings)
        bert, network = load_saved_network(folder, HeadKind.TAGGER, device=chosen, precision=resolved)
        settings = settings or TaggerSettings(length=min(bert.max_tokens, _DEFAULT_LENGTH))
        tokens = ExampleTokens(bert.tokenizer)
        scorer = network_word_scorer(network, pad_id=tokens.special.pad, device=chosen, precision=resolved)
        return cls(scorer, tokens, LabelSet.of_config(bert.config.id2label or {}), settings)

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Tag all words of each sentence; long sentences are split into windows.

        sentences: lists of words; TypeError for a string, because the caller has to split it into words
        """
        tags: list[list[str]] = [[] for _ in sentences]
        examples = word_examples(self._tokens, sentences, length=self.settings.length)
        for example, logits in zip(examples, self._scorer(examples), strict=True):
            # a sentence's rows come in order, and each of its words has one row that speaks for it
            tags[example.sentence] += [self.labels[number] for number in logits.argmax(axis=1)]
        return tags
