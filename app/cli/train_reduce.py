"""`nearsay train reduce`: the same encoder with shorter vectors."""

from pathlib import Path
from typing import Unpack

import click

from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes
from nearsay.app.cli.text_options import TextFields, read_options, text_options

__all__ = ["reduce"]


@click.command()
@click.argument("encoder")
@click.argument("sources", nargs=-1, metavar="[TEXT]…")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new encoder's folder.")
@click.option("--dimension", required=True, type=click.IntRange(1), help="Numbers of a vector.")
@click.option(
    "--method",
    type=click.Choice(["pca", "matryoshka"]),
    default="pca",
    show_default=True,
    help="pca: principal components of the texts' vectors. matryoshka: the first numbers, without texts.",
)
@text_options
@json_option
@device_options
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
    """Make an encoder that gives shorter vectors.

    ENCODER: its name or folder. TEXT: files, folders, globs in quotes, or - for standard input, some thousand
    texts like those that will be searched. Take matryoshka for an encoder that was trained with
    --matryoshka; any other keeps more by pca of texts of its own kind.

    \b
    Example:
        nearsay train reduce all-MiniLM-L6-v2 abstracts.txt --dimension 128 --out small-encoder
    """
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_texts import Texts
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.sentence.compression.reduction import reduce_encoder, truncate_encoder

    if (method == "pca") != bool(sources):
        raise click.UsageError("pca needs texts" if method == "pca" else "matryoshka takes no texts")
    if method == "matryoshka":
        report = truncate_encoder(encoder, out, dimension=dimension)
    else:
        texts = Texts(sources, read_options(fields))
        with ProgressBar("encoding", unit="texts") as bar:
            report = reduce_encoder(
                encoder,
                texts,
                out,
                dimension=dimension,
                device=device,
                precision=Precision(precision),
                progress=lambda done: bar(Progress(done, None)),
            )
        print_notes(texts.notes)
    if as_json:
        print_json(report)
        return
    held = "" if report.variance_kept is None else f", {100 * report.variance_kept:.1f} % of the variance"
    click.echo(f"{report.dimension} of {report.from_dimension} dimensions{held} in {out}", err=True)
