"""`nearsay evaluate mlm`, `classifier`, `tagger` and `reader`: a BERT and the heads on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from nearsay.app.cli.options import ENCODER, device_options, json_option
from nearsay.app.cli.printing import print_notes, print_reports
from nearsay.app.cli.train_heads import column_options
from nearsay.app.cli.train_pretrain import BREAKS

__all__ = ["classifier", "mlm", "reader", "tagger"]


@click.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT…")
@click.option("--bert", type=ENCODER, required=True, metavar="BERT", help="Name or folder of the BERT.")
@click.option("--length", default=128, show_default=True, help="Maximum number of tokens in a sequence.")
@click.option(
    "--rows",
    default=10_000,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of rows to measure.",
)
@click.option(
    "--text", metavar="FIELD", help="Field that holds the text.", show_default="guessed and reported"
)
@BREAKS
@json_option
@device_options
def mlm(
    *,
    texts: tuple[str, ...],
    bert: str,
    length: int,
    rows: int,
    text: str | None,
    breaks: str,
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Measure masked language modelling and next sentence prediction on held-out text.

    Rows and masks are the same for every BERT with the same vocabulary and a next-sentence head. Without such
    a head, or with a single document, only masked words are measured, on rows filled with sentences.

    \b
    Example:
        nearsay evaluate mlm held-out.txt --bert my-bert
    """
    from nearsay.app.cli.train_pretrain import prepare_options
    from nearsay.training.bert.mlm import evaluate_mlm_of

    report, notes = evaluate_mlm_of(
        bert,
        texts,
        length=length,
        most_rows=rows,
        reading=prepare_options(text, breaks, one_sentence_a_line=False),
        device=device,
        precision=precision,
    )
    print_notes(notes)
    print_reports([report], as_json=as_json)


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
    """Measure a classifier: accuracy, F1, Matthews correlation and confusions.

    MODEL is the folder of a classifier. FILE is a tsv, csv or jsonl with a label and a text, or a label and
    two texts.

    \b
    Example:
        nearsay evaluate classifier my-intents intents-test.tsv
    """
    from nearsay.data.labelled_texts import LabelColumns, read_labelled_texts
    from nearsay.training.bert.heads.classifier import TextClassifier
    from nearsay.training.bert.heads.head_evaluation import evaluate_classifier
    from nearsay.training.encoder.hardware import Precision

    texts = read_labelled_texts(file, LabelColumns(label, text, pair))
    print_notes(texts.notes)
    loaded = TextClassifier.load(model, device=device, precision=Precision(precision))
    report = evaluate_classifier(loaded, texts)
    print_reports([report], as_json=as_json)


@click.command()
@_head
@json_option
@device_options
def tagger(model: str, file: Path, as_json: bool, device: str | None, precision: str) -> None:
    """Measure a named entity tagger: precision, recall and F1 of whole entities.

    MODEL is the folder of a tagger. FILE has the CoNLL format: a word and its tag per line, and a blank line
    between sentences.

    \b
    Example:
        nearsay evaluate tagger my-tagger test.conll
    """
    from nearsay.data.tagged_sentences import read_tagged_sentences
    from nearsay.training.bert.heads.head_evaluation import evaluate_tagger
    from nearsay.training.bert.heads.tagger import Tagger
    from nearsay.training.encoder.hardware import Precision

    sentences = read_tagged_sentences(file)
    print_notes(sentences.notes)
    report = evaluate_tagger(Tagger.load(model, device=device, precision=Precision(precision)), sentences)
    print_reports([report], as_json=as_json)


@click.command()
@_head
@json_option
@device_options
def reader(model: str, file: Path, as_json: bool, device: str | None, precision: str) -> None:
    """Measure a question answering model: exact match and F1 as in SQuAD, in percent.

    MODEL is the folder of a reader. FILE is JSON in the format of SQuAD 1.1 or 2.0.

    \b
    Example:
        nearsay evaluate reader my-reader dev-v1.1.json
    """
    from nearsay.data.answered_questions import read_answered_questions
    from nearsay.training.bert.heads.head_evaluation import evaluate_reader
    from nearsay.training.bert.heads.reader import Reader
    from nearsay.training.encoder.hardware import Precision

    questions = read_answered_questions(file)
    report = evaluate_reader(Reader.load(model, device=device, precision=Precision(precision)), questions)
    print_reports([report], as_json=as_json)
