"""`nearsay train distill`: a smaller encoder that learns a larger one's vectors."""

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from nearsay.app.cli.options import device_options, inexact_resume_option, json_option
from nearsay.app.cli.printing import print_json, print_notes
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.training.sentence.fine_tuning.result import SentenceResult
    from nearsay.training.sentence.fine_tuning.settings import SentenceTraining

__all__ = ["distill"]


class _Training(TypedDict):
    """How it is trained."""

    epochs: float
    steps: int | None
    minutes: float | None
    batch: int
    learning_rate: float
    seed: int
    precision: str
    inexact_resume: bool


def _layers(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> int | tuple[int, ...] | None:
    """How many layers, of "3", or which, of "0,2,4"."""
    if value is None:
        return None
    try:
        numbers = tuple(int(number) for number in value.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number, or numbers with commas between") from error
    return numbers if "," in value else numbers[0]


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="TEXTS…")
@click.option(
    "--teacher", default="all-MiniLM-L6-v2", show_default=True, help="Name or folder of the encoder."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new encoder's folder.")
@click.option(
    "--keep-layers",
    callback=_layers,
    metavar="N|N,N",
    help="The student: the teacher with so many of its layers, or with these, the first is 0.",
)
@click.option("--student", metavar="ENCODER", help="The student: another encoder or a BERT.")
@click.option("--text", "columns", metavar="FIELD,FIELD", help="The fields with the texts; else guessed.")
@click.option("--dev", metavar="SET", help="Measured while it trains, as in sts:dev.tsv; the best is kept.")
@click.option("--evaluate", multiple=True, metavar="SET", help="Measured before and after; may be repeated.")
@click.option("--epochs", default=1.0, show_default=True, help="Times each text is learned from.")
@click.option("--steps", type=int, help="Train for so many steps instead.")
@click.option("--minutes", type=float, help="Train for so many minutes instead.")
@click.option("--batch", default=32, show_default=True, help="Texts of a step.")
@click.option("--learning-rate", default=2e-4, show_default=True, help="Its highest value.")
@click.option("--seed", default=0, show_default=True, help="Of everything random.")
@inexact_resume_option
@json_option
@device_options
def distill(
    *,
    files: tuple[str, ...],
    teacher: str,
    out: Path,
    keep_layers: int | tuple[int, ...] | None,
    student: str | None,
    columns: str | None,
    dev: str | None,
    evaluate: tuple[str, ...],
    as_json: bool,
    device: str | None,
    **training: Unpack[_Training],
) -> None:
    """Train a smaller encoder to give a larger one's vectors.

    TEXTS: tsv, csv, jsonl, parquet (or .gz) or txt, one text a line; every different text in them is learned
    from, and labels are not looked at. Name --keep-layers or --student. Stopped or killed, the same command
    goes on.

    \b
    Example:
        nearsay train distill texts.txt --teacher all-MiniLM-L6-v2 --keep-layers 3 --out small-encoder
    """
    from nearsay.app.cli.stopping import stoppable
    from nearsay.app.cli.training_line import TrainingLine
    from nearsay.data.sentence_examples.reading import read_sentence_examples
    from nearsay.training.evaluation.judged.reading import read_judged_set
    from nearsay.training.run.watch import Watch
    from nearsay.training.sentence.compression.distillation import distil

    if (keep_layers is None) == (student is None):
        raise click.UsageError("name the student: either --keep-layers or --student")
    texts = [read_sentence_examples(file, columns=columns.split(",") if columns else None) for file in files]
    print_notes([note for one in texts for note in one.notes])
    with TrainingLine() as line, stoppable() as stop:
        result = distil(
            texts,
            out,
            teacher=teacher,
            keep_layers=keep_layers,
            student=student,
            options=_options(training),
            dev=None if dev is None else read_judged_set(dev),
            tests=[read_judged_set(spec) for spec in evaluate],
            device=device,
            watch=Watch(listener=line, report=lambda note: print_notes([note]), stop=stop),
        )
    if not result.finished:
        raise KeyboardInterrupt
    _print(result, out, as_json=as_json)


def _options(training: _Training) -> "SentenceTraining":
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.sentence.fine_tuning.settings import SentenceTraining

    return SentenceTraining(
        epochs=training["epochs"],
        steps=training["steps"],
        minutes=training["minutes"],
        batch=training["batch"],
        learning_rate=training["learning_rate"],
        seed=training["seed"],
        precision=Precision(training["precision"]),
        exact_resume=not training["inexact_resume"],
    )


def _print(result: "SentenceResult", out: Path, *, as_json: bool) -> None:
    if as_json:
        changes = [change.to_json() for change in result.changes]
        told = {"folder": str(out), "steps": result.steps, "seconds": round(result.seconds, 1)}
        print_json({**told, "dev": dict(result.dev), "evaluations": changes})
        return
    click.echo(
        f"{counted(result.steps, 'step')} in {result.seconds:,.0f} s; the encoder is in {out}", err=True
    )
    for change in result.changes:
        low, high = change.difference.low, change.difference.high
        click.echo(
            f"{change.after.name}: {change.before.figure:.4g} before, {change.after.figure:.4g} after "
            f"({low:+.3g} to {high:+.3g})"
        )
