"""What the commands that train a head share: options, progress, and what they print at the end."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nearsay.app.cli.options import device_options, inexact_resume_option, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table

if TYPE_CHECKING:
    from nearsay.training.bert.heads.fine_tuning import FineTuning
    from nearsay.training.bert.heads.head_folder import HeadResult
    from nearsay.training.run.watch import Watch

__all__ = ["column_options", "fine_tuning", "head_options", "noted", "print_head", "watched"]

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def head_options(*, length: int, length_help: str) -> Callable[[Command], Command]:
    """FILE and the options of every head; `length`: the default of --length."""
    options = (
        click.argument("file", type=_FILE),
        click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder to be made."),
        click.option(
            "--bert", default="all-MiniLM-L6-v2", show_default=True, help="Name or folder of the BERT."
        ),
        click.option("--dev", type=_FILE, help="Measured each epoch; the best weights are kept."),
        click.option("--test", type=_FILE, help="Measured at the end."),
        click.option("--epochs", default=3, show_default=True, help="Times each row is learned from."),
        click.option("--batch", default=32, show_default=True, help="Rows of a step."),
        click.option("--learning-rate", default=5e-5, show_default=True, help="Its highest value."),
        click.option(
            "--freeze",
            default="none",
            show_default=True,
            metavar="PART",
            help="none, all-but-last, all, or a number of layers from below.",
        ),
        click.option("--length", default=length, show_default=True, help=length_help),
        click.option("--seed", default=0, show_default=True, help="Of everything random."),
        inexact_resume_option,
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
        click.option("--pair", metavar="FIELD", help="The field with the second text; with --text."),
        click.option("--text", metavar="FIELD", help="The field with the text; guessed if left out."),
        click.option("--label", metavar="FIELD", help="The field with the label; guessed if left out."),
    ):
        command = option(command)
    return command


def fine_tuning(options: Mapping[str, Any]) -> "FineTuning":
    """How the options say that a head is trained."""
    from nearsay.training.bert.heads.fine_tuning import FineTuning
    from nearsay.training.bert.heads.freezing import Freezing
    from nearsay.training.bert.heads.head_start import HeadStart
    from nearsay.training.encoder.precision import Precision

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
def watched() -> "Iterator[Watch]":
    """Progress and notes on standard error, and Ctrl-C that ends after a step."""
    from nearsay.app.cli.stopping import stoppable
    from nearsay.app.cli.training_line import TrainingLine
    from nearsay.training.run.watch import Watch

    with TrainingLine() as line, stoppable() as stop:
        yield Watch(listener=line, report=lambda note: print_notes([note]), stop=stop)


def noted() -> "Watch":
    """Notes on standard error, for what is not trained in steps."""
    from nearsay.training.run.watch import Watch

    return Watch(report=lambda note: print_notes([note]))


def print_head(result: "HeadResult", out: Path, *, as_json: bool) -> None:
    """What came of a training; KeyboardInterrupt when it was stopped."""
    if not result.finished:
        raise KeyboardInterrupt
    parts = {"training": result.training, "dev": result.dev, "test": result.test}
    if as_json:
        seconds = round(result.seconds, 1)
        print_json({"folder": str(out), "steps": result.steps, "seconds": seconds, **parts})
        return
    rows = [
        [f"{part} {name}".replace("_", " "), f"{value:.4f}"]
        for part, figures in parts.items()
        for name, value in figures.items()
    ]
    print_table(["", str(out)], [["steps", result.steps], ["seconds", round(result.seconds)], *rows])
