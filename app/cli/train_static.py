"""`nearsay train static`: an encoder that looks its tokens up in a table."""

from pathlib import Path
from typing import Unpack

import click

from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes
from nearsay.app.cli.text_options import TextFields, read_options, text_options
from nearsay.data.quantity import counted

__all__ = ["static"]


@click.command()
@click.argument("encoder")
@click.argument("sources", nargs=-1, metavar="[TEXT]…")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new encoder's folder.")
@click.option(
    "--dimension", default=256, show_default=True, type=click.IntRange(1), help="Numbers of a vector."
)
@click.option(
    "--rows",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    help="Most texts that are learned from, drawn by chance.",
)
@click.option("--seed", default=0, show_default=True, help="Of the drawing.")
@text_options
@json_option
@device_options
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
    """Make a static encoder: a vector for each token, and no transformer.

    Many times quicker and less exact. ENCODER: name or folder of the encoder that it is made from. TEXT:
    files, folders, globs in quotes, or - for standard input. With some thousand texts like those that will be
    searched it becomes much better; they need no labels.

    \b
    Example:
        nearsay train static all-MiniLM-L6-v2 abstracts.txt --out quick-encoder
    """
    from contextlib import ExitStack

    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_texts import Texts
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.evaluation.text_sample import TextSample
    from nearsay.training.sentence.compression.static_encoder import make_static_encoder

    with ExitStack() as stack:
        bars = {what: stack.enter_context(ProgressBar("encoding", unit=what)) for what in ("tokens", "texts")}
        read = Texts(sources, read_options(fields)) if sources else None
        sample = stack.enter_context(TextSample(read or (), rows, seed=seed))
        print_notes([*(read.notes if read else ()), *([sample.note] if sample.note else ())])
        report = make_static_encoder(
            encoder,
            out,
            dimension=dimension,
            texts=sample,
            device=device,
            precision=Precision(precision),
            progress=lambda what, done, total: bars[what](Progress(done, total)),
        )
    if as_json:
        print_json(report)
    else:
        click.echo(f"{counted(report.tokens, 'token')} of {report.dimension} numbers in {out}", err=True)
