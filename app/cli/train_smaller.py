"""`nearsay train average`, `distill`, `reduce` and `static`: encoders made of other encoders."""

from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from nearsay.app.cli.options import (
    ENCODER,
    TextFields,
    device_options,
    json_option,
    library_at_hand,
    read_options,
    text_options,
    training_run_options,
    trains_encoder,
)
from nearsay.app.cli.printing import print_changes, print_json, print_notes, print_reports
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.training.sentence.fine_tuning.settings import SentenceResult, SentenceTraining

__all__ = ["average", "distill", "reduce", "static"]


@click.command()
@click.argument("encoders", nargs=-1, required=True, type=ENCODER, metavar="ENCODER…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the new encoder to."
)
@json_option
@library_at_hand
@trains_encoder
def average(encoders: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Average the weights of several encoders that were trained from the same base.

    ENCODER is a folder of an encoder, as made by `nearsay train sentence --seeds 3`. The average is as fast
    as each of them and often better than all.

    \b
    Example:
        nearsay train average my-encoders/seed-0 my-encoders/seed-1 --out my-average
    """
    from nearsay.training.evaluation.judged.reports import Trained
    from nearsay.training.sentence.compression.averaging import average_encoders

    folder = average_encoders(encoders, out)
    if as_json:
        print_json(Trained(str(folder), {"averaged": list(encoders)}))
    else:
        click.echo(f"the average of {len(encoders)} encoders is in {folder}")


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
    log_to: tuple[str, ...]


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
    "--teacher",
    type=ENCODER,
    default="all-MiniLM-L6-v2",
    show_default=True,
    help="Name or folder of the encoder to learn from.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the new encoder to."
)
@click.option(
    "--keep-layers",
    callback=_layers,
    metavar="N|N,N",
    help=(
        "Make the student from this many layers of the teacher, or from the layers of these numbers, from 0."
    ),
)
@click.option(
    "--student",
    type=ENCODER,
    metavar="ENCODER",
    help="Name or folder of another encoder or BERT to use as the student.",
)
@click.option(
    "--columns",
    metavar="FIELD,FIELD",
    help="Fields that hold the texts, separated by commas.",
    show_default="guessed",
)
@click.option(
    "--translations",
    is_flag=True,
    help=(
        "Treat each row as a text in the teacher's language and its translations, in the "
        "order of --columns; all learn the teacher's vector of the first."
    ),
)
@click.option(
    "--dev",
    metavar="SET",
    help=(
        "Judged set to measure on during the training, as in sts:dev.tsv or "
        "sts:dev.tsv:left,right,score. The best checkpoint is kept."
    ),
)
@click.option(
    "--evaluate",
    multiple=True,
    metavar="SET",
    help="Judged set to measure on before and after, as in sts:test.tsv. Can be repeated.",
)
@click.option("--epochs", default=1.0, show_default=True, help="Number of passes over the training data.")
@click.option("--steps", type=int, help="Number of training steps.")
@click.option("--minutes", type=float, help="Length of the training in minutes.")
@click.option("--batch", default=32, show_default=True, help="Number of rows in a training step.")
@click.option("--learning-rate", default=2e-4, show_default=True, help="Peak learning rate.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random number generator.")
@training_run_options
@json_option
@device_options
@trains_encoder
def distill(
    *,
    files: tuple[str, ...],
    teacher: str,
    out: Path,
    keep_layers: int | tuple[int, ...] | None,
    student: str | None,
    columns: str | None,
    translations: bool,
    dev: str | None,
    evaluate: tuple[str, ...],
    as_json: bool,
    device: str | None,
    **training: Unpack[_Training],
) -> None:
    """Train a smaller encoder to reproduce the vectors of a larger one.

    TEXTS is a tsv, csv, jsonl, parquet (also .gz) or txt with one text per line; every distinct text is used,
    and labels are ignored. Choose the student with --keep-layers or --student. With --translations, the
    student learns languages that the teacher does not know. If the command is interrupted, running it again
    resumes it.

    \b
    Example:
        nearsay train distill texts.txt --teacher all-MiniLM-L6-v2 --keep-layers 3 --out small-encoder
        nearsay train distill talks.tsv --columns english,german --translations --student my-bert --out both
    """
    from nearsay.app.cli.progress import TrainingLine, stoppable
    from nearsay.data.sentence_examples.conversion import require_translations
    from nearsay.data.sentence_examples.reading import read_sentence_examples
    from nearsay.training.evaluation.judged.reading import read_judged_set
    from nearsay.training.run.training_progress import Watch
    from nearsay.training.sentence.source import find_encoder

    if (keep_layers is None) == (student is None):
        raise click.UsageError("name the student: either --keep-layers or --student")
    texts = [read_sentence_examples(file, columns=columns.split(",") if columns else None) for file in files]
    print_notes([note for one in texts for note in one.notes])
    if translations:
        require_translations(texts)
    for encoder in (teacher, student or teacher):
        find_encoder(encoder)
    dev_set = None if dev is None else read_judged_set(dev)
    tests = [read_judged_set(spec) for spec in evaluate]
    from nearsay.training.sentence.compression.distillation import distil  # seconds: after all files

    with TrainingLine() as line, stoppable() as stop:
        result = distil(
            texts,
            out,
            teacher=teacher,
            keep_layers=keep_layers,
            student=student,
            translations=translations,
            options=_options(training),
            dev=dev_set,
            tests=tests,
            device=device,
            watch=Watch(
                listener=line,
                report=lambda note: print_notes([note]),
                stop=stop,
                log_to=training["log_to"],
            ),
        )
    if not result.finished:
        raise KeyboardInterrupt
    _print(result, out, as_json=as_json)


def _options(training: _Training) -> "SentenceTraining":
    from nearsay.training.encoder.hardware import Precision
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
    from nearsay.training.evaluation.judged.reports import Trained

    if as_json:
        facts = {"steps": result.steps, "seconds": round(result.seconds, 1)}
        print_json(Trained(str(out), facts, dev=result.dev, evaluations=tuple(result.changes)))
        return
    click.echo(
        f"{counted(result.steps, 'step')} in {result.seconds:,.0f} s; the encoder is in {out}", err=True
    )
    print_changes(result.changes)


@click.command()
@click.argument("encoder", type=ENCODER)
@click.argument("sources", nargs=-1, metavar="[TEXT]…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the new encoder to."
)
@click.option(
    "--dimension", required=True, type=click.IntRange(1), help="Number of dimensions of the vectors."
)
@click.option(
    "--method",
    type=click.Choice(["pca", "matryoshka"]),
    default="pca",
    show_default=True,
    help=(
        "How vectors are shortened: by principal components of the vectors of TEXT (pca), "
        "or to their first dimensions, without texts (matryoshka)."
    ),
)
@text_options
@json_option
@device_options
@trains_encoder
def reduce(
    *,
    encoder: str,
    sources: tuple[str, ...],
    out: Path,
    dimension: int,
    method: str,
    as_json: bool,
    device: str | None,
    precision: str,
    **fields: Unpack[TextFields],
) -> None:
    """Make an encoder with fewer dimensions.

    ENCODER is a name or folder. TEXT is a file, folder, quoted glob, or - for standard input with a few
    thousand texts like those to be searched. Use matryoshka for an encoder that was trained with
    --matryoshka; for others, pca on similar texts preserves more quality.

    \b
    Example:
        nearsay train reduce all-MiniLM-L6-v2 abstracts.txt --dimension 128 --out small-encoder
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_texts import Texts
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.sentence.source import find_encoder

    if (method == "pca") != bool(sources):
        raise click.UsageError("pca needs texts" if method == "pca" else "matryoshka takes no texts")
    find_encoder(encoder)
    texts = Texts(sources, read_options(fields)) if sources else None
    read = iter(texts or ())
    first = [*islice(read, 1)]  # or the error of a file of which nothing can be used
    from nearsay.training.sentence.compression.reduction import reduce_encoder, truncate_encoder  # seconds

    if texts is None:
        report = truncate_encoder(encoder, out, dimension=dimension)
    else:
        with ProgressBar("encoding", unit="texts") as bar:
            report = reduce_encoder(
                encoder,
                chain(first, read),
                out,
                dimension=dimension,
                device=device,
                precision=Precision(precision),
                progress=lambda done: bar(Progress(done, None)),
            )
        print_notes(texts.notes)
    print_reports([report], as_json=as_json)


@click.command()
@click.argument("encoder", type=ENCODER)
@click.argument("sources", nargs=-1, metavar="[TEXT]…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the new encoder to."
)
@click.option(
    "--dimension",
    default=256,
    show_default=True,
    type=click.IntRange(1),
    help="Number of dimensions of the vectors.",
)
@click.option(
    "--sample",
    "rows",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of items to compute from, drawn at random.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random number generator.")
@text_options
@json_option
@device_options
@trains_encoder
def static(
    *,
    encoder: str,
    sources: tuple[str, ...],
    out: Path,
    dimension: int,
    rows: int,
    seed: int,
    as_json: bool,
    device: str | None,
    precision: str,
    **fields: Unpack[TextFields],
) -> None:
    """Make a static encoder: one vector per token, and no transformer.

    Static encoders are many times faster and less accurate. ENCODER is the name or folder of the encoder to
    start from. TEXT is a file, folder, quoted glob, or - for standard input; a few thousand unlabelled texts
    like those to be searched improve the result a lot.

    \b
    Example:
        nearsay train static all-MiniLM-L6-v2 abstracts.txt --out quick-encoder
    """
    from contextlib import ExitStack

    from nearsay.app.cli.progress import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_texts import Texts
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.evaluation.text_sample import TextSample
    from nearsay.training.sentence.source import find_encoder

    find_encoder(encoder)
    with ExitStack() as stack:
        bars = {what: stack.enter_context(ProgressBar("encoding", unit=what)) for what in ("tokens", "texts")}
        read = Texts(sources, read_options(fields)) if sources else None
        sample = stack.enter_context(TextSample(read or (), rows, seed=seed))
        print_notes([*(read.notes if read else ()), *([sample.note] if sample.note else ())])
        from nearsay.training.sentence.compression.static_encoder import make_static_encoder  # seconds

        report = make_static_encoder(
            encoder,
            out,
            dimension=dimension,
            texts=sample,
            device=device,
            precision=Precision(precision),
            progress=lambda what, done, total: bars[what](Progress(done, total)),
        )
    print_reports([report], as_json=as_json)
