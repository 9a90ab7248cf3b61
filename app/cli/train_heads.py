"""`nearsay train classifier`, `tagger` and `reader`: heads on a BERT."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nearsay.app.cli.options import ENCODER, device_options, json_option, training_run_options
from nearsay.app.cli.printing import print_json, print_notes, print_table

if TYPE_CHECKING:
    from nearsay.training.bert.heads.fine_tuning import FineTuning
    from nearsay.training.bert.heads.train_head import HeadResult
    from nearsay.training.run.training_progress import Watch

__all__ = [
    "classifier",
    "column_options",
    "fine_tuning",
    "head_options",
    "print_head",
    "reader",
    "tagger",
    "watched",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def head_options(*, length: int) -> Callable[[Command], Command]:
    """FILE and the options of every head; `length`: the default of --length."""
    options = (
        click.argument("file", type=_FILE),
        click.option(
            "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the model to."
        ),
        click.option(
            "--bert",
            type=ENCODER,
            default="all-MiniLM-L6-v2",
            show_default=True,
            help="Name or folder of the BERT.",
        ),
        click.option(
            "--dev", type=_FILE, help="File to measure on after each epoch. The best checkpoint is kept."
        ),
        click.option("--test", type=_FILE, help="File to measure on at the end."),
        click.option(
            "--epochs", default=3, show_default=True, help="Number of passes over the training data."
        ),
        click.option("--batch", default=32, show_default=True, help="Number of rows in a training step."),
        click.option("--learning-rate", default=5e-5, show_default=True, help="Peak learning rate."),
        click.option(
            "--freeze",
            default="none",
            show_default=True,
            metavar="PART",
            help="Which layers to freeze: none, all-but-last, all, or a number of layers from the bottom.",
        ),
        click.option(
            "--length", default=length, show_default=True, help="Maximum number of tokens in a sequence."
        ),
        click.option("--seed", default=0, show_default=True, help="Seed of the random number generator."),
        training_run_options,
        json_option,
        device_options,
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def column_options(command: Command) -> Command:
    """`--label`, `--text` and `--pair`: which columns of a file mean what."""
    for option in (
        click.option("--pair", metavar="FIELD", help="Field that holds the second text, with --text."),
        click.option(
            "--text", metavar="FIELD", help="Field that holds the text.", show_default="guessed and reported"
        ),
        click.option(
            "--label", metavar="FIELD", help="Field that holds the label or score.", show_default="guessed"
        ),
    ):
        command = option(command)
    return command


def fine_tuning(options: Mapping[str, Any]) -> "FineTuning":
    """How the options say that a head is trained."""
    from nearsay.training.bert.heads.fine_tuning import FineTuning, Freezing, HeadStart
    from nearsay.training.encoder.hardware import Precision

    return FineTuning(
        epochs=options["epochs"],
        batch=options["batch"],
        learning_rate=options["learning_rate"],
        freezing=Freezing.parse(options["freeze"]),
        start=HeadStart(options.get("head_start") or HeadStart.LINEAR),
        precision=Precision(options["precision"]),
        seed=options["seed"],
        exact_resume=not options["inexact_resume"],
    )


@contextmanager
def watched(log_to: tuple[str, ...]) -> "Iterator[Watch]":
    """Progress and notes on standard error, and Ctrl-C that ends after a step."""
    from nearsay.app.cli.progress import TrainingLine, stoppable
    from nearsay.training.run.training_progress import Watch

    with TrainingLine() as line, stoppable() as stop:
        yield Watch(listener=line, report=lambda note: print_notes([note]), stop=stop, log_to=log_to)


def print_head(result: "HeadResult", out: Path, *, as_json: bool) -> None:
    """What came of a training; KeyboardInterrupt when it was stopped."""
    from nearsay.training.evaluation.judged.reports import Trained

    if not result.finished:
        raise KeyboardInterrupt
    parts = {"training": result.training, "dev": result.dev, "test": result.test}
    if as_json:
        facts = {"steps": result.steps, "seconds": round(result.seconds, 1)}
        print_json(Trained(str(out), facts, training=result.training, dev=result.dev, test=result.test))
        return
    rows = [
        [f"{part} {name}".replace("_", " "), f"{value:.4f}"]
        for part, figures in parts.items()
        for name, value in figures.items()
    ]
    print_table(["", str(out)], [["steps", result.steps], ["seconds", round(result.seconds)], *rows])


_FEATURES = click.option(
    "--features",
    metavar="LAYERS",
    help=(
        "Train a linear layer on frozen layers instead: last, sum-last-4, concat-last-4, or a layer's number."
    ),
)
_HEAD_START = click.option(
    "--head-start",
    type=click.Choice(["linear", "random"]),
    default="linear",
    show_default=True,
    help=(
        "How the new layer is initialised: by a linear fit to the BERT as it is, or at "
        "random as in the paper."
    ),
)
_REGULARISATION = click.option(
    "--regularisation",
    type=float,
    metavar="C",
    help="Inverse strength C of the regularisation of a linear layer; smaller values regularise more.",
    show_default="chosen by trying several",
)


@click.command()
@head_options(length=128)
@column_options
@_HEAD_START
@_FEATURES
@click.option(
    "--pooling",
    type=click.Choice(["cls", "mean", "max"]),
    default="mean",
    show_default=True,
    help="How token vectors are combined into one vector per text.",
)
@click.option(
    "--probe", is_flag=True, help="Train a linear layer on the encoder's own sentence vectors instead."
)
@_REGULARISATION
def classifier(file: Path, out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Train a classifier of texts, or of pairs of texts.

    FILE is a tsv, csv or jsonl (also .gz) with a label and a text, or a label and two texts. The model loads
    in transformers, unless it is a linear layer (--features, --probe); OUT/run documents the training. If the
    command is interrupted, running it again resumes it.

    \b
    Example:
        nearsay train classifier intents.tsv --dev intents-dev.tsv --out my-intents
    """
    from nearsay.data.labelled_texts import LabelColumns, read_labelled_texts

    if options["probe"] and options["features"] is not None:
        raise click.UsageError("--probe and --features are two ways; take one")
    columns = LabelColumns(options["label"], options["text"], options["pair"])
    _train(lambda place: read_labelled_texts(place, columns), file, out, options, as_json=as_json)


@click.command()
@head_options(length=128)
@_HEAD_START
@_FEATURES
@_REGULARISATION
def tagger(file: Path, out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Train a named entity tagger.

    FILE has the CoNLL format: a word and its tag (O, B-type, I-type) per line, and a blank line between
    sentences. The model loads in transformers, unless it is a linear layer on other layers than the last
    (--features).

    \b
    Example:
        nearsay train tagger train.conll --dev dev.conll --epochs 4 --out my-tagger
    """
    from nearsay.data.tagged_sentences import read_tagged_sentences

    _train(read_tagged_sentences, file, out, options, as_json=as_json)


@click.command()
@head_options(length=384)
@click.option(
    "--step", default=128, show_default=True, help="Number of tokens between the starts of two windows."
)
@click.option(
    "--question-length", default=64, show_default=True, help="Maximum number of tokens in a question."
)
@click.option("--answer-length", default=30, show_default=True, help="Maximum number of tokens in an answer.")
def reader(file: Path, out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Train a question answering model that finds answers in a text.

    FILE is JSON in the format of SQuAD 1.1 or 2.0. The model loads in transformers.

    \b
    Example:
        nearsay train reader train-v1.1.json --dev dev-v1.1.json --out my-reader
    """
    from nearsay.data.answered_questions import read_answered_questions

    _train(read_answered_questions, file, out, options, as_json=as_json)


def _train(
    read: Callable[[Path], Any],
    file: Path,
    out: Path,
    options: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    places = {"train": file} | {name: options[name] for name in ("dev", "test")}
    files = {name: read(place) for name, place in places.items() if place is not None}
    for rows in files.values():
        print_notes(getattr(rows, "notes", ()))
    # Seconds: after all files.
    from nearsay.training.bert.heads.fine_tuning import FineTuning
    from nearsay.training.bert.heads.head_settings import ReaderSettings
    from nearsay.training.bert.heads.train_head import LinearFit, train_head
    from nearsay.training.bert.layers import LayerChoice, Pooling
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.run.training_progress import Watch

    how: FineTuning | LinearFit
    features = options.get("features")
    if features is not None or options.get("probe"):
        how = LinearFit(
            layers=None if features is None else LayerChoice.parse(features),
            pooling=Pooling(options.get("pooling") or Pooling.MEAN),
            regularisation=options["regularisation"],
            precision=Precision(options["precision"]),
        )
    else:
        how = fine_tuning(options)
    settings = None
    if "answer_length" in options:  # of a reader
        settings = ReaderSettings(
            length=options["length"],
            step=options["step"],
            question=options["question_length"],
            answer=options["answer_length"],
        )
    # a linear layer is solved, not trained in steps that Ctrl-C could end between
    noted = Watch(report=lambda note: print_notes([note]), log_to=options["log_to"])
    with watched(options["log_to"]) if isinstance(how, FineTuning) else nullcontext(noted) as watch:
        result = train_head(
            files["train"],
            out,
            bert=options["bert"],
            dev=files.get("dev"),
            test=files.get("test"),
            options=how,
            length=options["length"],
            settings=settings,
            device=options["device"],
            watch=watch,
        )
    print_head(result, out, as_json=as_json)
