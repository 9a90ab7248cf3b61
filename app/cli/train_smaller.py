"""`nearsay train average`, `distill`, `reduce` and `static`: encoders derived from other encoders."""

from itertools import chain, islice
from pathlib import Path
from typing import Literal

import click

from nearsay.app.cli.command import GROUP, argument, command, option
from nearsay.app.cli.options import (
    BATCH,
    COLUMNS,
    DEV,
    DIMENSION,
    ENCODER,
    EPOCHS,
    EVALUATE,
    JSON,
    LEARNING_RATE,
    MINUTES,
    OUT_ENCODER,
    SEED,
    STEPS,
    AtHand,
    Run,
    TextFields,
    TrainingRun,
    note,
    trains_encoder,
)
from nearsay.app.cli.printing import print_json, print_notes, print_reports


@command()
@trains_encoder
def average(
    encoders: tuple[str, ...] = argument("ENCODER…", required=True, type=ENCODER),
    out: Path = OUT_ENCODER,
    as_json: bool = JSON,
    _home: AtHand = GROUP,
) -> None:
    """Average the weights of several encoders that were trained from the same base.

    ENCODER is a folder of an encoder, as created by `nearsay train sentence --seeds 3`. The average is as
    fast as each of them and often better than all.

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


def _layers(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> int | tuple[int, ...] | None:
    """Parse the number of layers, "3", or their numbers, "0,2,4"."""
    if value is None:
        return None
    try:
        numbers = tuple(int(number) for number in value.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number or a list of them, as in 0,2,4") from error
    return numbers if "," in value else numbers[0]


@command()
@trains_encoder
def distill(
    files: tuple[str, ...] = argument("TEXTS…", required=True),
    teacher: str = option(
        "Name or folder of the encoder to learn from.", default="all-MiniLM-L6-v2", type=ENCODER
    ),
    out: Path = OUT_ENCODER,
    keep_layers: int | tuple[int, ...] | None = option(
        "Use this many layers of the teacher for the student, or the layers of these numbers, from 0.",
        metavar="N|N,N",
        type=str,
        callback=_layers,
    ),
    student: str | None = option(
        "Name or folder of another encoder or BERT to use as the student.", metavar="ENCODER", type=ENCODER
    ),
    columns: tuple[str, ...] | None = COLUMNS(metavar="FIELD,FIELD"),
    translations: bool = option(
        "Treat each row as a text in the teacher's language and its translations, in the order of "
        "--columns; all learn the teacher's vector of the first."
    ),
    dev: str | None = DEV,
    evaluate: tuple[str, ...] = EVALUATE,
    epochs: float = EPOCHS(1.0),
    steps: int | None = STEPS,
    minutes: float | None = MINUTES,
    batch: int = BATCH(32),
    learning_rate: float = LEARNING_RATE(2e-4),
    seed: int = SEED(0),
    resuming: TrainingRun = GROUP,
    as_json: bool = JSON,
    run: Run = GROUP,
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
    from nearsay.data.mapped import nearest_folder
    from nearsay.data.sentence_examples.conversion import require_translations
    from nearsay.data.sentence_examples.example_kind import ExampleKind
    from nearsay.data.sentence_examples.reading import read_sentence_examples
    from nearsay.training.evaluation.judged.reading import read_judged_sets
    from nearsay.training.run.run_folder import RunFolder
    from nearsay.training.sentence.source import find_encoder

    if (keep_layers is None) == (student is None):
        raise click.UsageError("choose the student with either --keep-layers or --student")
    RunFolder(out).check()
    folder = nearest_folder(out)
    texts = [read_sentence_examples(file, columns=columns, folder=folder) for file in files]
    for place, one in enumerate(texts):
        if one.kind is ExampleKind.CLASSES:  # labels are ignored, so texts without a class are used, too
            texts[place] = read_sentence_examples(
                files[place], kind=ExampleKind.TEXTS, columns=columns, folder=folder
            )
    print_notes([note for one in texts for note in one.notes])
    if translations:
        require_translations(texts)
    for encoder in (teacher, student or teacher):
        find_encoder(encoder)
    dev_sets, tests = (read_judged_sets(specs, note) for specs in ([dev] if dev else [], evaluate))
    from nearsay.training.evaluation.judged.reports import Trained
    from nearsay.training.sentence.compression.distillation import distil  # slow: after checking all files
    from nearsay.training.sentence.fine_tuning.settings import SentenceTraining

    options = SentenceTraining(
        epochs=epochs,
        steps=steps,
        minutes=minutes,
        batch=batch,
        learning_rate=learning_rate,
        seed=seed,
        precision=run.precision,
        exact_resume=not resuming.inexact_resume,
    )
    with resuming.watched() as watch:
        result = distil(
            texts,
            out,
            teacher=teacher,
            keep_layers=keep_layers,
            student=student,
            translations=translations,
            options=options,
            dev=next(iter(dev_sets), None),
            tests=tests,
            device=run.device,
            watch=watch,
        )
    if not result.finished:
        raise KeyboardInterrupt
    facts = {"steps": result.steps, "seconds": round(result.seconds, 1)}
    trained = Trained(str(out), facts, dev=result.dev, evaluations=tuple(result.changes))
    print_reports([trained], as_json=as_json)


@command()
@trains_encoder
def reduce(
    encoder: str = argument(type=ENCODER),
    sources: tuple[str, ...] = argument("[TEXT]…"),
    out: Path = OUT_ENCODER,
    dimension: int = DIMENSION(least=1),
    method: Literal["pca", "matryoshka"] = option(
        "How vectors are shortened: by principal components of the vectors of TEXT (pca), or to their first "
        "dimensions, without texts (matryoshka).",
        default="pca",
    ),
    fields: TextFields = GROUP,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Create an encoder with fewer dimensions.

    ENCODER is a name or folder. TEXT is a file, folder, quoted glob, or - for standard input with a few
    thousand texts like those to be searched. Use matryoshka for an encoder that was trained with
    --matryoshka; for others, pca on similar texts preserves more quality.

    \b
    Example:
        nearsay train reduce all-MiniLM-L6-v2 abstracts.txt --dimension 128 --out small-encoder
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.durable import require_new
    from nearsay.data.reading import read
    from nearsay.training.sentence.source import find_encoder

    if (method == "pca") != bool(sources):
        raise click.UsageError("pca needs texts" if method == "pca" else "matryoshka takes no texts")
    find_encoder(encoder)
    require_new(out)
    reading = read(sources, fields.reading()) if sources else None
    texts = reading.texts() if reading else iter(())
    first = [*islice(texts, 1)]  # raises now if no file can be used
    from nearsay.training.sentence.compression.reduction import reduce_encoder, truncate_encoder  # slow

    if reading is None:
        report = truncate_encoder(encoder, out, dimension=dimension)
    else:
        with ProgressBar("encoding", unit="texts") as bar:
            report = reduce_encoder(
                encoder,
                chain(first, texts),
                out,
                dimension=dimension,
                device=run.device,
                precision=run.precision,
                progress=bar.at,
            )
        print_notes(reading.notes)
    print_reports([report], as_json=as_json)


@command()
@trains_encoder
def static(
    encoder: str = argument(type=ENCODER),
    sources: tuple[str, ...] = argument("[TEXT]…"),
    out: Path = OUT_ENCODER,
    dimension: int = DIMENSION(256, least=1),
    rows: int = option(
        "Maximum number of items to compute from, drawn at random.", "--sample", default=50_000, least=1
    ),
    seed: int = SEED(0),
    fields: TextFields = GROUP,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Create a static encoder: one vector per token, and no transformer.

    Static encoders are many times faster and less accurate. ENCODER is the name or folder of the encoder to
    start from. TEXT is a file, folder, quoted glob, or - for standard input; a few thousand unlabelled texts
    like those to be searched improve the result a lot.

    \b
    Example:
        nearsay train static all-MiniLM-L6-v2 abstracts.txt --out quick-encoder
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.durable import require_new
    from nearsay.data.reading import read
    from nearsay.training.evaluation.text_sample import TextSample
    from nearsay.training.sentence.source import find_encoder

    find_encoder(encoder)
    require_new(out)  # before a large sample is read
    with ProgressBar("encoding", unit="tokens") as bar:
        reading = read(sources, fields.reading()) if sources else None
        sample = TextSample(reading.texts() if reading else (), rows, seed=seed)
        print_notes([*(reading.notes if reading else ()), *([sample.note] if sample.note else ())])
        from nearsay.training.sentence.compression.static_encoder import make_static_encoder  # takes seconds

        report = make_static_encoder(
            encoder,
            out,
            dimension=dimension,
            texts=sample,
            device=run.device,
            precision=run.precision,
            progress=lambda what, done, total: bar.at(done, total, unit=what),
        )
    print_reports([report], as_json=as_json)
