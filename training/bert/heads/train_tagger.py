"""Training a tagger by fine-tuning a BERT."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.tagged_sentences import TaggedSentences
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.example import ExampleTokens, word_examples
from nearsay.training.bert.heads.fine_tuning import FineTuning, fine_tune, fresh_network, head_device
from nearsay.training.bert.heads.head_evaluation import evaluate_tagger
from nearsay.training.bert.heads.head_folder import HeadFolder, HeadResult, save_network
from nearsay.training.bert.heads.head_settings import TaggerSettings
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.network import HeadKind
from nearsay.training.bert.heads.tagger import NetworkWordScorer, Tagger
from nearsay.training.bert.heads.train_classifier import require_positions
from nearsay.training.evaluation.entity_f1 import EntityReport
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["TAGGER_USAGE", "entity_metrics", "tag_numbers", "train_tagger"]

TAGGER_USAGE = """
from transformers import pipeline

tag = pipeline("token-classification", "{name}", aggregation_strategy="first")
"""


def train_tagger(
    train: TaggedSentences,
    out: str | Path,
    *,
    bert: str | Path = BUNDLED_NAME,
    dev: TaggedSentences | None = None,
    test: TaggedSentences | None = None,
    options: FineTuning | None = None,
    length: int = 128,
    device: str | None = None,
    watch: Watch | None = None,
) -> HeadResult:
    """Fine-tune a BERT with a `BertForTokenClassification` on top, into the folder `out`, or go on there.

    dev:    measured after each epoch; the weights with the highest entity F1 are kept. None: the last ones
    test:   measured at the end
    length: most tokens of a row; longer sentences go through in windows, so nothing is cut
    Raises BadInputError for sentences, tags and settings that cannot be trained with, and DiskFullError.

    Devlin et al. 2019, section 5.3, https://arxiv.org/abs/1810.04805
    """
    chosen, watch = options or FineTuning(), watch or Watch()
    labels = LabelSet.of_tags(train)
    targets = tag_numbers(labels, train)
    for other in (dev, test):
        if other is not None:
            tag_numbers(labels, other)
    place, precision = head_device(device, chosen.precision)
    base = load_bert(bert)
    require_positions(base, length)
    tokens = ExampleTokens(base.tokenizer)
    settings = TaggerSettings(length=length)
    folder = HeadFolder(
        out,
        HeadKind.TAGGER,
        lineage=base.lineage,
        weights_sha256=base.weights_sha256,
        data={"train": train, "dev": dev, "test": test},
        settings={**chosen.settings(), "length": length, "labels": len(labels.names)},
        environment=RunEnvironment.here(place, chosen.precision),
    )
    if folder.begin(exact=chosen.exact_resume):
        watch.report(f"going on with the run in {out}")
    rows = word_examples(
        tokens, [sentence.words for sentence in train.sentences], length=length, targets=targets
    )
    network = fresh_network(base, HeadKind.TAGGER, labels, seed=chosen.seed, device=place)
    scorer = NetworkWordScorer(network, pad_id=tokens.special.pad, device=place, precision=precision)
    tagger = Tagger(scorer, tokens, labels, settings)
    run = fine_tune(
        HeadKind.TAGGER,
        network,
        [row.example for row in rows],
        folder.run,
        chosen,
        pad_id=tokens.special.pad,
        device=place,
        measure=None if dev is None else lambda: entity_metrics(evaluate_tagger(tagger, dev)),
        best="f1",
        watch=watch,
    )
    if not run.finished:
        return HeadResult(finished=False, seconds=run.seconds)
    result = HeadResult(
        finished=True,
        seconds=run.seconds,
        training=run.metrics,
        dev=run.evaluation,
        test={} if test is None else entity_metrics(evaluate_tagger(tagger, test)),
        steps=run.steps,
    )

    def save(folder: Path) -> None:
        save_network(network, base, folder)
        settings.save(folder)

    folder.finish(
        save,
        result,
        what=f"A tagger of {len(labels.names) // 2} types of entities, fine-tuned from {base.name}.",
        usage=TAGGER_USAGE,
        library="transformers",
    )
    return result


def tag_numbers(labels: LabelSet, sentences: TaggedSentences) -> list[NDArray[np.int64]]:
    """Turn each sentence's tags into numbers; BadInputError names a tag that is not known, with its line."""
    return [
        labels.numbered(
            [(tag, sentence.line + place) for place, tag in enumerate(sentence.tags)], sentences.source
        )
        for sentence in sentences.sentences
    ]


def entity_metrics(report: EntityReport) -> dict[str, float]:
    """The figures of a report, for a run's log; F1 first."""
    overall = report.overall
    return {
        "f1": overall.f1,
        "precision": overall.precision,
        "recall": overall.recall,
        "tag_accuracy": report.tag_accuracy,
    }
