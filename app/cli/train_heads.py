"""`nearsay train classifier`, `tagger` and `reader`: heads on a BERT."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from nearsay.app.cli.command import FILE, GROUP, argument, command, option
from nearsay.app.cli.options import (
    BATCH,
    BERT,
    EPOCHS,
    JSON,
    LABEL,
    LEARNING_RATE,
    LENGTH,
    PAIR,
    POOLING,
    SEED,
    TEXT,
    Run,
    TrainingRun,
    note,
    refuse_given,
    settings_of,
    text_columns,
)
from nearsay.app.cli.printing import print_notes, print_reports

if TYPE_CHECKING:
    from nearsay.training.bert.heads.head_settings import ReaderSettings


@dataclass(frozen=True)
class _Head:
    """FILE, and the options of every head."""

    file: Path = argument(type=FILE)
    out: Path = option("Folder to write the model to.")
    bert: str = BERT("all-MiniLM-L6-v2")
    dev: Path | None = option("File to measure on after each epoch. The best checkpoint is kept.", type=FILE)
    test: Path | None = option("File to measure on at the end.", type=FILE)
    epochs: int = EPOCHS(3)
    batch: int = BATCH(32)
    learning_rate: float = LEARNING_RATE(5e-5)
    freeze: str = option(
        "Which layers to freeze: none, all-but-last, all, or a number of layers from the bottom.",
        metavar="PART",
        default="none",
    )
    length: int = LENGTH(128)
    seed: int = SEED(0)
    resuming: TrainingRun = GROUP
    as_json: bool = JSON
    run: Run = GROUP


@dataclass(frozen=True)
class _ReaderHead(_Head):
    """The same with a longer default length."""

    length: int = LENGTH(384)


_FEATURES = option(
    "Train a linear layer on frozen layers instead: last, sum-last-4, concat-last-4, or a layer's number.",
    metavar="LAYERS",
)
_REGULARISATION = option(
    "Inverse strength C of the regularisation of a linear layer; smaller values regularise more.",
    metavar="C",
    shown="chosen by trying several",
)


@command()
def classifier(
    head: _Head = GROUP,
    label: str | None = LABEL,
    text: str | None = TEXT,
    pair: str | None = PAIR,
    features: str | None = _FEATURES,
    pooling: Literal["cls", "mean", "max"] = POOLING("mean"),
    probe: bool = option("Train a linear layer on the encoder's own sentence vectors instead."),
    regularisation: float | None = _REGULARISATION,
) -> None:
    """Train a classifier of texts, or of pairs of texts.

    FILE is a tsv, csv or jsonl (also .gz) with a label and a text, or a label and two texts. The model loads
    in transformers, unless it is a linear layer (--features, --probe); OUT/run documents the training. If the
    command is interrupted, running it again resumes it.

    \b
    Example:
        nearsay train classifier intents.tsv --dev intents-dev.tsv --out my-intents
    """
    from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts

    if probe and features is not None:
        raise click.UsageError("--probe and --features cannot be combined: use one of them")
    is_linear = probe or features is not None
    if not is_linear:
        refuse_given("is for a linear layer: add --features or --probe", "pooling", "regularisation")
    if probe:
        refuse_given("is for --features: a probe uses the encoder's own vectors", "pooling", "length")
    columns = text_columns(text, pair)
    linear = {"features": features, "pooling": pooling, "regularisation": regularisation}
    _train(lambda place: read_labelled_texts(place, columns, label), head, linear if is_linear else None)


@command()
def tagger(
    head: _Head = GROUP,
    features: str | None = _FEATURES,
    regularisation: float | None = _REGULARISATION,
) -> None:
    """Train a named entity tagger.

    FILE has the CoNLL format: a word and its tag (O, B-type, I-type) per line, and a blank line between
    sentences. The model loads in transformers, unless it is a linear layer on other layers than the last
    (--features).

    \b
    Example:
        nearsay train tagger train.conll --dev dev.conll --epochs 4 --out my-tagger
    """
    from nearsay.data.tagged_sentences import read_tagged_sentences

    if features is None:
        refuse_given("is for a linear layer: add --features", "regularisation")
    linear = {"features": features, "pooling": "mean", "regularisation": regularisation}
    _train(read_tagged_sentences, head, None if features is None else linear)


@command()
def reader(
    head: _ReaderHead = GROUP,
    step: int = option("Number of tokens between the starts of two windows.", default=128),
    question_length: int = option("Maximum number of tokens in a question.", default=64),
    answer_length: int = option("Maximum number of tokens in an answer.", default=30),
) -> None:
    """Train a question answering model that finds answers in a text.

    FILE is JSON in the format of SQuAD 1.1 or 2.0. The model loads in transformers.

    \b
    Example:
        nearsay train reader train-v1.1.json --dev dev-v1.1.json --out my-reader
    """
    from nearsay.data.answered_questions import read_answered_questions

    def settings() -> "ReaderSettings":
        from nearsay.training.bert.heads.head_settings import ReaderSettings

        return ReaderSettings(length=head.length, step=step, question=question_length, answer=answer_length)

    _train(read_answered_questions, head, None, settings)


def _train(
    read: Callable[[Path], Any],
    head: _Head,
    linear: dict[str, Any] | None,
    settings: "Callable[[], ReaderSettings] | None" = None,
) -> None:
    """Train a head and print the results; linear: settings of a linear layer, trained instead."""
    if linear is not None:
        why = "is for training in steps, but a linear layer is fitted directly: omit it"
        refuse_given(why, "epochs", "batch", "learning_rate", "freeze", "seed", "inexact_resume")
    from nearsay.training.run.run_folder import RunFolder

    RunFolder(head.out).check()
    places = {"train": head.file, "dev": head.dev, "test": head.test}
    files = {name: read(place) for name, place in places.items() if place is not None}
    for rows in files.values():
        print_notes(getattr(rows, "notes", ()))
    # These imports take seconds, so files are checked first.
    from nearsay.training.bert.heads.fine_tuning import FineTuning, Freezing
    from nearsay.training.bert.heads.kinds import LinearFit
    from nearsay.training.bert.heads.train_head import train_head
    from nearsay.training.bert.layers import LayerChoice, Pooling
    from nearsay.training.evaluation.judged.reports import Trained
    from nearsay.training.run.training_progress import Watch

    how: FineTuning | LinearFit
    if linear is not None:
        features = linear["features"]
        how = LinearFit(
            layers=None if features is None else LayerChoice.parse(features),
            pooling=Pooling(linear["pooling"]),
            regularisation=linear["regularisation"],
            precision=head.run.precision,
        )
    else:
        how = settings_of(
            FineTuning,
            head,
            freezing=Freezing.parse(head.freeze),
            precision=head.run.precision,
            exact_resume=not head.resuming.inexact_resume,
        )
    # a linear layer is solved directly, without steps to stop between
    noted = nullcontext(Watch(report=note, log_to=head.resuming.log_to))
    with noted if linear is not None else head.resuming.watched() as watch:
        result = train_head(
            files["train"],
            head.out,
            bert=head.bert,
            dev=files.get("dev"),
            test=files.get("test"),
            options=how,
            length=head.length,
            settings=None if settings is None else settings(),
            device=head.run.device,
            watch=watch,
        )
    if not result.finished:
        raise KeyboardInterrupt
    facts = {"steps": result.steps, "seconds": round(result.seconds, 1)}
    trained = Trained(str(head.out), facts, training=result.training, dev=result.dev, test=result.test)
    print_reports([trained], as_json=head.as_json)
