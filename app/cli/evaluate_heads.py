"""`nearsay evaluate classifier`, `tagger` and `reader`: how good a trained head is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from nearsay.app.cli.head_options import column_options
from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table

__all__ = ["classifier", "reader", "tagger"]

Command = TypeVar("Command", bound=Callable[..., Any])


def _head(command: Command) -> Command:
    """MODEL and FILE."""
    command = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))(command)
    return click.argument("model")(command)


@click.command()
@_head
@column_options
@json_option
@device_options
def classifier(
    *,
    model: str,
    file: Path,
    label: str | None,
    text: str | None,
    pair: str | None,
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Measure a classifier: accuracy, F1, Matthews' correlation, confusions.

    MODEL: the folder of one. FILE: tsv, csv or jsonl with a label and a text, or a label and two texts.

    \b
    Example:
        nearsay evaluate classifier my-intents intents-test.tsv
    """
    from nearsay.data.labelled_texts import LabelColumns, read_labelled_texts
    from nearsay.training.bert.heads.classifier import TextClassifier
    from nearsay.training.bert.heads.head_evaluation import evaluate_classifier
    from nearsay.training.encoder.precision import Precision

    texts = read_labelled_texts(file, LabelColumns(label, text, pair))
    print_notes(texts.notes)
    loaded = TextClassifier.load(model, device=device, precision=Precision(precision))
    report = evaluate_classifier(loaded, texts)
    if as_json:
        print_json(report)
        return
    rows: list[list[object]] = [["texts", report.texts]]
    rows += [[name.replace("_", " "), f"{value:.4f}"] for name, value in report.metrics().items()]
    print_table(["", file.name], [*rows, ["cut", report.truncated], ["seconds", f"{report.seconds:.1f}"]])
    if report.confusions:
        click.echo()
        confused = [[c.label, c.predicted, c.count, c.of] for c in report.confusions]
        print_table(["label", "taken for", "times", "of"], confused)


@click.command()
@_head
@json_option
@device_options
def tagger(model: str, file: Path, as_json: bool, device: str | None, precision: str) -> None:
    """Measure a tagger: precision, recall and F1 of whole entities.

    MODEL: the folder of one. FILE: CoNLL, a word and its tag a line, blank lines between sentences.

    \b
    Example:
        nearsay evaluate tagger my-tagger test.conll
    """
    from nearsay.data.tagged_sentences import read_tagged_sentences
    from nearsay.training.bert.heads.head_evaluation import evaluate_tagger
    from nearsay.training.bert.heads.tagger import Tagger
    from nearsay.training.encoder.precision import Precision

    sentences = read_tagged_sentences(file)
    print_notes(sentences.notes)
    report = evaluate_tagger(Tagger.load(model, device=device, precision=Precision(precision)), sentences)
    if as_json:
        print_json(report)
        return
    print_table(
        ["type", "precision", "recall", "F1", "entities", "predicted", "right"],
        [
            [name, f"{f.precision:.4f}", f"{f.recall:.4f}", f"{f.f1:.4f}", f.gold, f.predicted, f.right]
            for name, f in {**report.types, "all": report.overall}.items()
        ],
    )


@click.command()
@_head
@json_option
@device_options
def reader(model: str, file: Path, as_json: bool, device: str | None, precision: str) -> None:
    """Measure a reader: exact match and F1 by the rules of SQuAD, in percent.

    MODEL: the folder of one. FILE: JSON in the format of SQuAD 1.1 or 2.0.

    \b
    Example:
        nearsay evaluate reader my-reader dev-v1.1.json
    """
    from dataclasses import asdict

    from nearsay.data.answered_questions import read_answered_questions
    from nearsay.training.bert.heads.head_evaluation import evaluate_reader
    from nearsay.training.bert.heads.reader import Reader
    from nearsay.training.encoder.precision import Precision

    questions = read_answered_questions(file)
    report = evaluate_reader(Reader.load(model, device=device, precision=Precision(precision)), questions)
    if as_json:
        print_json(report)
        return
    print_table(
        ["", file.name],
        [
            [name.replace("_", " "), f"{value:.2f}" if isinstance(value, float) else value]
            for name, value in asdict(report).items()
            if value is not None
        ],
    )
