"""Training a classifier the feature-based way: a linear layer on the vectors of a frozen encoder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.labelled_texts import LabelledTexts
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.classifier import (
    FeatureTextScorer,
    ProbeTextScorer,
    TextClassifier,
    TextScorer,
    TextVectors,
    feature_vectors,
    probe_vectors,
)
from nearsay.training.bert.heads.example import ExampleTokens
from nearsay.training.bert.heads.fine_tuning import head_device
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_evaluation import evaluate_classifier
from nearsay.training.bert.heads.head_folder import HeadFolder, HeadResult, copy_encoder
from nearsay.training.bert.heads.head_settings import ClassifierSettings, HeadWay
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import REGULARISATIONS, LinearHead, chosen_head, every_tenth
from nearsay.training.bert.heads.network import HeadKind
from nearsay.training.bert.heads.train_classifier import check_texts, require_positions
from nearsay.training.bert.layers import LayerChoice, Pooling
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.metrics_clients import logged_to
from nearsay.training.run.metrics_log import MetricsLog
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.source import find_encoder

__all__ = ["LinearClassifier", "train_linear_classifier"]

_USAGE = """
from nearsay.training.bert.heads.classifier import TextClassifier

classifier = TextClassifier.load("{name}")
classifier.predict(["a text"]).labels
"""


@dataclass(frozen=True, slots=True)
class LinearClassifier:
    """On what vectors a linear head stands, and how it is fitted; BadInputError for what cannot be."""

    layers: LayerChoice | None = None  # of the BERT; None: the encoder's own sentence vectors (a probe)
    pooling: Pooling = Pooling.MEAN  # of a row's tokens, with `layers`
    regularisation: float | None = None  # C, smaller holds back more; None: chosen by trying
    length: int = 128  # most tokens of a row, with `layers`; a probe has its encoder's
    precision: Precision = Precision.AUTO  # of the encoder's matrix products

    def __post_init__(self) -> None:
        if self.regularisation is not None and not self.regularisation > 0:
            raise BadInputError(f"the regularisation C is {self.regularisation}; give a number above 0")

    def settings(self) -> dict[str, JsonValue]:
        """What decides the run's numbers, for its config.json."""
        own: dict[str, JsonValue] = {"way": str(HeadWay.PROBE)}
        if self.layers is not None:
            own = {
                "way": str(HeadWay.FEATURES),
                "layers": str(self.layers),
                "pooling": str(self.pooling),
                "length": self.length,
            }
        return {**own, "regularisation": self.regularisation}


@dataclass(frozen=True, slots=True)
class _Vectors:
    """The encoder at work: what it gives, and what stands on it."""

    of: Callable[[LabelledTexts], TextVectors]
    scorer: Callable[[LinearHead], TextScorer]
    folder: Path
    name: str
    lineage: tuple[str, ...]
    weights_sha256: str
    settings: ClassifierSettings
    environment: RunEnvironment


def train_linear_classifier(
    train: LabelledTexts,
    out: str | Path,
    *,
    bert: str | Path = BUNDLED_NAME,
    dev: LabelledTexts | None = None,
    test: LabelledTexts | None = None,
    options: LinearClassifier | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> HeadResult:
    """Fit a linear layer on vectors of texts, which are computed once, and save both into the folder `out`.

    transformers has no class for it: the head is a file beside the encoder's own files, and `TextClassifier`
    loads the two. The encoder in the folder stays what it was.

    dev: measures the regularisations; None: every tenth training row does, and the head is then fitted on all
    Raises BadInputError for rows, labels and settings that cannot be trained with, and DiskFullError.

    Devlin et al. 2019, section 5.3, https://arxiv.org/abs/1810.04805; Conneau & Kiela 2018,
    https://arxiv.org/abs/1803.05449
    """
    chosen, watch = options or LinearClassifier(), watch or Watch()
    labels = LabelSet.of_texts(train)
    for other in (dev, test):
        check_texts(labels, train, other)
    vectors = _vectors(chosen, bert, device, labels, train)
    folder = HeadFolder(
        out,
        HeadKind.CLASSIFIER,
        lineage=vectors.lineage,
        weights_sha256=vectors.weights_sha256,
        data={"train": train, "dev": dev, "test": test},
        settings={**chosen.settings(), "pairs": train.are_pairs, "labels": len(labels.names)},
        environment=vectors.environment,
    )
    folder.begin()
    given = vectors.of(train)
    if given.truncated:
        watch.report(
            f"{given.truncated:,} of {len(train):,} rows are cut at {vectors.settings.length} tokens"
        )
    targets = _targets(labels, train)
    held_out = None if dev is not None else every_tenth(len(train))
    measured = given.vectors[held_out] if dev is None else vectors.of(dev).vectors
    wanted = targets[held_out] if dev is None else _targets(labels, dev)
    found = chosen_head(
        given.vectors,
        targets,
        lambda head: _share_right(head, measured, wanted),
        labels=len(labels.names),
        held_out=held_out,
        regularisations=REGULARISATIONS if chosen.regularisation is None else (chosen.regularisation,),
    )
    watch.report(f"C = {found.regularisation:g} of {len(found.tried)} tried, in {found.seconds:.0f} s")
    log = MetricsLog(folder.run.metrics)
    log.rewind(0)
    with logged_to(watch.log_to, folder.run, 0) as log.tell:
        for line in found.lines("accuracy"):
            log.append(line)
    classifier = TextClassifier(vectors.scorer(found.head), labels, vectors.settings)
    result = HeadResult(
        finished=True,
        seconds=found.seconds,
        training={"accuracy": _share_right(found.head, given.vectors, targets)},
        dev={} if dev is None else evaluate_classifier(classifier, dev).metrics(),
        chosen={"regularisation": found.regularisation},
        test={} if test is None else evaluate_classifier(classifier, test).metrics(),
    )

    def save(place: Path) -> None:
        copy_encoder(vectors.folder, place)
        found.head.save(place)
        vectors.settings.save(place)

    on_what = "sentence vectors" if chosen.layers is None else f"features ({chosen.layers})"
    folder.finish(
        save,
        result,
        what=f"A classifier with {len(labels.names)} labels: a linear layer on {on_what} of {vectors.name}.",
        usage=_USAGE,
        library="nearsay",
    )
    return result


def _share_right(head: LinearHead, vectors: NDArray[np.float32], targets: NDArray[np.int64]) -> float:
    return float((head.logits(vectors).argmax(axis=1) == targets).mean())


def _targets(labels: LabelSet, texts: LabelledTexts) -> NDArray[np.int64]:
    return labels.numbered([(row.label, row.line) for row in texts.rows], texts.source)


def _split(texts: LabelledTexts) -> tuple[list[str], list[str] | None]:
    first = [row.text for row in texts.rows]
    return first, [row.pair or "" for row in texts.rows] if texts.are_pairs else None


def _vectors(
    options: LinearClassifier, bert: str | Path, device: str | None, labels: LabelSet, train: LabelledTexts
) -> _Vectors:
    place, precision = head_device(device, options.precision)
    environment = RunEnvironment.here(place, precision)
    if options.layers is None:
        encoder = Encoder.load(bert, device=place, precision=options.precision)
        source = find_encoder(bert)
        return _Vectors(
            of=lambda texts: probe_vectors(encoder, *_split(texts)),
            scorer=lambda head: ProbeTextScorer(encoder, head),
            folder=source.folder.path,
            name=encoder.name,
            lineage=encoder.lineage,
            weights_sha256=encoder.weights_sha256,
            settings=ClassifierSettings(
                length=max(encoder.max_tokens, 8),
                pairs=train.are_pairs,
                way=HeadWay.PROBE,
                labels=labels.names,
            ),
            environment=environment,
        )
    base = load_bert(bert)
    require_positions(base, options.length)
    tokens = ExampleTokens(base.tokenizer)
    features = FrozenFeatures(base, options.layers, device=place, precision=precision)
    pooling, length = options.pooling, options.length
    return _Vectors(
        of=lambda texts: feature_vectors(features, tokens, *_split(texts), pooling=pooling, length=length),
        scorer=lambda head: FeatureTextScorer(features, tokens, head, pooling=pooling, length=length),
        folder=base.path,
        name=base.name,
        lineage=base.lineage,
        weights_sha256=base.weights_sha256,
        settings=ClassifierSettings(
            length=options.length,
            pairs=train.are_pairs,
            way=HeadWay.FEATURES,
            layers=str(options.layers),
            pooling=str(options.pooling),
            labels=labels.names,
        ),
        environment=environment,
    )
