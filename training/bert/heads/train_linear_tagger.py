"""Training a tagger the feature-based way: a linear layer on the token vectors of a frozen BERT."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.tagged_sentences import TaggedSentences
from nearsay.training.bert.bert_folder import BertFolder, load_bert
from nearsay.training.bert.heads.example import ExampleTokens, word_examples
from nearsay.training.bert.heads.fine_tuning import fresh_network, head_device
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_evaluation import evaluate_tagger
from nearsay.training.bert.heads.head_folder import HeadFolder, HeadResult, copy_encoder, save_network
from nearsay.training.bert.heads.head_settings import HeadWay, TaggerSettings
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import REGULARISATIONS, LinearHead, chosen_head, every_tenth
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork
from nearsay.training.bert.heads.tagger import FeatureWordScorer, Tagger
from nearsay.training.bert.heads.train_classifier import require_positions
from nearsay.training.bert.heads.train_tagger import TAGGER_USAGE, entity_metrics, tag_numbers
from nearsay.training.bert.layers import LayerChoice, LayerRule
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.entity_f1 import entity_f1
from nearsay.training.run.metrics_clients import logged_to
from nearsay.training.run.metrics_log import MetricsLog
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["LinearTagger", "train_linear_tagger"]

_USAGE = """
from nearsay.training.bert.heads.tagger import Tagger

tagger = Tagger.load("{name}")
tagger.predict([["Ada", "wrote", "it"]])
"""
_BEST_OF_TABLE_7: Final = LayerChoice(LayerRule.CONCAT_LAST_4)


@dataclass(frozen=True, slots=True)
class LinearTagger:
    """On what vectors a linear head stands, and how it is fitted; BadInputError for what cannot be."""

    layers: LayerChoice = _BEST_OF_TABLE_7
    regularisation: float | None = None  # C, smaller holds back more; None: chosen by trying
    length: int = 128  # most tokens of a row; longer sentences go through in windows
    precision: Precision = Precision.AUTO  # of the BERT's matrix products

    def __post_init__(self) -> None:
        if self.regularisation is not None and not self.regularisation > 0:
            raise BadInputError(f"the regularisation C is {self.regularisation}; give a number above 0")

    def settings(self) -> dict[str, JsonValue]:
        """What decides the run's numbers, for its config.json."""
        return {
            "way": str(HeadWay.FEATURES),
            "layers": str(self.layers),
            "length": self.length,
            "regularisation": self.regularisation,
        }


def train_linear_tagger(
    train: TaggedSentences,
    out: str | Path,
    *,
    bert: str | Path = BUNDLED_NAME,
    dev: TaggedSentences | None = None,
    test: TaggedSentences | None = None,
    options: LinearTagger | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> HeadResult:
    """Fit a linear layer on the vectors of words' first tokens, computed once, and save it into `out`.

    On the last layer that is a `BertForTokenClassification`, and saved as one. On other layers transformers
    has no class for it: the head is a file beside the BERT's own files, and `Tagger` loads the two.

    dev: measures the regularisations; None: every tenth sentence does, and the head is then fitted on all
    Raises BadInputError for sentences, tags and settings that cannot be trained with, and DiskFullError.

    Devlin et al. 2019, section 5.3 and table 7, https://arxiv.org/abs/1810.04805; the paper puts a BiLSTM of
    two layers between the features and the labels, and nearsay nothing
    """
    chosen, watch = options or LinearTagger(), watch or Watch()
    labels = LabelSet.of_tags(train)
    targets = np.concatenate(tag_numbers(labels, train))
    for other in (dev, test):
        if other is not None:
            tag_numbers(labels, other)
    place, precision = head_device(device, chosen.precision)
    base = load_bert(bert)
    require_positions(base, chosen.length)
    tokens = ExampleTokens(base.tokenizer)
    features = FrozenFeatures(base, chosen.layers, device=place, precision=precision)
    folder = HeadFolder(
        out,
        HeadKind.TAGGER,
        lineage=base.lineage,
        weights_sha256=base.weights_sha256,
        data={"train": train, "dev": dev, "test": test},
        settings={**chosen.settings(), "labels": len(labels.names)},
        environment=RunEnvironment.here(place, precision),
    )
    folder.begin()

    def vectors_of(sentences: TaggedSentences) -> NDArray[np.float32]:
        words = [sentence.words for sentence in sentences.sentences]
        return features.of_words(word_examples(tokens, words, length=chosen.length))

    vectors = vectors_of(train)
    judged = [sentence.tags for sentence in (train if dev is None else dev).sentences]
    held_out = None
    if dev is None:
        tenth = every_tenth(len(train))
        held_out = np.repeat(tenth, [len(tags) for tags in judged])
        judged = [tags for tags, held in zip(judged, tenth, strict=True) if held]
    measured = vectors[held_out] if dev is None else vectors_of(dev)

    def figure(head: LinearHead) -> float:
        return entity_f1(judged, _split(labels, head.logits(measured), judged)).overall.f1

    found = chosen_head(
        vectors,
        targets,
        figure,
        labels=len(labels.names),
        held_out=held_out,
        regularisations=REGULARISATIONS if chosen.regularisation is None else (chosen.regularisation,),
    )
    watch.report(f"C = {found.regularisation:g} of {len(found.tried)} tried, in {found.seconds:.0f} s")
    log = MetricsLog(folder.run.metrics)
    log.rewind(0)
    with logged_to(watch.log_to, folder.run, 0) as log.tell:
        for line in found.lines("f1"):
            log.append(line)
    settings = TaggerSettings(
        length=chosen.length, way=HeadWay.FEATURES, layers=str(chosen.layers), labels=labels.names
    )
    tagger = Tagger(FeatureWordScorer(features, found.head), tokens, labels, settings)
    tags = [sentence.tags for sentence in train.sentences]
    result = HeadResult(
        finished=True,
        seconds=found.seconds,
        training=entity_metrics(entity_f1(tags, _split(labels, found.head.logits(vectors), tags))),
        dev={} if dev is None else entity_metrics(evaluate_tagger(tagger, dev)),
        chosen={"regularisation": found.regularisation},
        test={} if test is None else entity_metrics(evaluate_tagger(tagger, test)),
    )
    on_last = chosen.layers.taken(int(base.config.num_hidden_layers)) == (int(base.config.num_hidden_layers),)

    def save(folder: Path) -> None:
        if on_last:
            save_network(_network(base, found.head, labels), base, folder)
            TaggerSettings(length=chosen.length).save(folder)
        else:
            copy_encoder(base.path, folder)
            found.head.save(folder)
            settings.save(folder)

    folder.finish(
        save,
        result,
        what=(
            f"A tagger of {len(labels.names) // 2} types of entities: a linear layer on features "
            f"({chosen.layers}) of {base.name}."
        ),
        usage=TAGGER_USAGE if on_last else _USAGE,
        library="transformers" if on_last else "nearsay",
    )
    return result


def _split(
    labels: LabelSet, logits: NDArray[np.float32], sentences: Sequence[Sequence[str]]
) -> list[list[str]]:
    """The tags of words that come one sentence after the other."""
    said = [labels.names[number] for number in logits.argmax(axis=1)]
    ends = np.cumsum([0, *(len(words) for words in sentences)])
    return [said[start:end] for start, end in pairwise(ends)]


def _network(base: BertFolder, head: LinearHead, labels: LabelSet) -> HeadNetwork:
    network = fresh_network(base, HeadKind.TAGGER, labels, seed=0, device="cpu")
    layer = network.head
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(head.weights))
        layer.bias.copy_(torch.from_numpy(head.bias))
    return network
