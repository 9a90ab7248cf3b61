"""Training a classifier by fine-tuning a BERT."""

from pathlib import Path

from nearsay.data.errors import BadInputError
from nearsay.data.labelled_texts import LabelledTexts
from nearsay.training.bert.bert_folder import BertFolder, load_bert
from nearsay.training.bert.heads.classifier import NetworkTextScorer, TextClassifier
from nearsay.training.bert.heads.example import ExampleTokens, text_examples
from nearsay.training.bert.heads.fine_tuning import FineTuning, fine_tune, fresh_network, head_device
from nearsay.training.bert.heads.head_evaluation import evaluate_classifier
from nearsay.training.bert.heads.head_folder import HeadFolder, HeadResult, save_network
from nearsay.training.bert.heads.head_settings import ClassifierSettings
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.network import HeadKind
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["check_texts", "require_positions", "train_classifier"]

_USAGE = """
from transformers import pipeline

classify = pipeline("text-classification", "{name}")
"""


def train_classifier(
    train: LabelledTexts,
    out: str | Path,
    *,
    bert: str | Path = BUNDLED_NAME,
    dev: LabelledTexts | None = None,
    test: LabelledTexts | None = None,
    options: FineTuning | None = None,
    length: int = 128,
    device: str | None = None,
    watch: Watch | None = None,
) -> HeadResult:
    """Fine-tune a BERT with a `BertForSequenceClassification` on top, into the folder `out`, or go on there.

    dev:    measured after each epoch; the weights of the most accurate one are kept. None: the last ones
    test:   measured at the end
    length: most tokens of a text or pair; the texts that are cut are reported
    Raises BadInputError for rows, labels and settings that cannot be trained with, and DiskFullError.

    Devlin et al. 2019, section 4.1, https://arxiv.org/abs/1810.04805
    """
    chosen, watch = options or FineTuning(), watch or Watch()
    labels = LabelSet.of_texts(train)
    for other in (dev, test):
        check_texts(labels, train, other)
    place, precision = head_device(device, chosen.precision)
    base = load_bert(bert)
    require_positions(base, length)
    tokens = ExampleTokens(base.tokenizer)
    settings = ClassifierSettings(length=length, pairs=train.are_pairs)
    folder = HeadFolder(
        out,
        HeadKind.CLASSIFIER,
        lineage=base.lineage,
        weights_sha256=base.weights_sha256,
        data={"train": train, "dev": dev, "test": test},
        settings={
            **chosen.settings(),
            "length": length,
            "pairs": train.are_pairs,
            "labels": len(labels.names),
        },
        environment=RunEnvironment.here(place, chosen.precision),
    )
    if folder.begin(exact=chosen.exact_resume):
        watch.report(f"going on with the run in {out}")
    rows = text_examples(
        tokens,
        [row.text for row in train.rows],
        [row.pair or "" for row in train.rows] if train.are_pairs else None,
        length=length,
        targets=labels.numbered([(row.label, row.line) for row in train.rows], train.source),
    )
    if rows.truncated:
        watch.report(f"{rows.truncated:,} of {len(train):,} rows are cut at {length} tokens")
    network = fresh_network(base, HeadKind.CLASSIFIER, labels, seed=chosen.seed, device=place)
    scorer = NetworkTextScorer(network, tokens, length=length, device=place, precision=precision)
    classifier = TextClassifier(scorer, labels, settings)
    run = fine_tune(
        HeadKind.CLASSIFIER,
        network,
        rows.examples,
        folder.run,
        chosen,
        pad_id=tokens.special.pad,
        device=place,
        measure=None if dev is None else lambda: evaluate_classifier(classifier, dev).metrics(),
        best="accuracy",
        watch=watch,
    )
    if not run.finished:
        return HeadResult(finished=False, seconds=run.seconds)
    result = HeadResult(
        finished=True,
        seconds=run.seconds,
        training=run.metrics,
        dev=run.evaluation,
        test={} if test is None else evaluate_classifier(classifier, test).metrics(),
        steps=run.steps,
    )

    def save(folder: Path) -> None:
        save_network(network, base, folder)
        settings.save(folder)

    what = "pairs of texts" if train.are_pairs else "texts"
    folder.finish(
        save,
        result,
        what=f"A classifier of {what} with {len(labels.names)} labels, fine-tuned from {base.name}.",
        usage=_USAGE,
        library="transformers",
    )
    return result


def check_texts(labels: LabelSet, train: LabelledTexts, other: LabelledTexts | None) -> None:
    """Raise BadInputError unless a file can be measured on: its labels known, its rows of the same shape."""
    if other is None:
        return
    if other.are_pairs != train.are_pairs:
        one, two = ("pairs of texts", "single texts") if train.are_pairs else ("single texts", "pairs")
        raise BadInputError(
            f"{train.source} holds {one} and {other.source} {two}. "
            "Give files of one kind, or name their columns"
        )
    labels.numbered([(row.label, row.line) for row in other.rows], other.source)


def require_positions(bert: BertFolder, length: int) -> None:
    """Raise BadInputError when rows are longer than the BERT has positions for."""
    if length > bert.positions:
        raise BadInputError(
            f"rows of {length} tokens do not fit {bert.name}, which has {bert.positions} positions. "
            f"Take a length of {bert.positions} or less"
        )
