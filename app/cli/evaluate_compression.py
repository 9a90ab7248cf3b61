"""`nearsay evaluate compression`: what shorter and coarser vectors cost."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table

if TYPE_CHECKING:
    from nearsay.training.sentence.compression.comparison import CompressionRow

__all__ = ["compression"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def _numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """The numbers of "256,128"."""
    try:
        return tuple(int(number) for number in value.split(",") if number)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not numbers with commas between") from error


@click.command()
@click.option(
    "--encoder", default="all-MiniLM-L6-v2", show_default=True, help="Name or folder of the encoder."
)
@click.option("--sts", type=_FILE, help="Scored pairs: tsv, csv or jsonl, as for `nearsay evaluate sts`.")
@click.option("--retrieval", type=_FOLDER, help="A judged corpus, as for `nearsay evaluate retrieval`.")
@click.option("--split", default="test", show_default=True, help="With --retrieval: qrels/SPLIT.tsv.")
@click.option("--dimensions", callback=_numbers, default="", metavar="N,N", help="First numbers to keep.")
@json_option
@device_options
def compression(
    *,
    encoder: str,
    sts: Path | None,
    retrieval: Path | None,
    split: str,
    dimensions: tuple[int, ...],
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Measure an encoder's vectors with fewer bits and fewer dimensions.

    Spearman's correlation (times 100) on scored pairs, nDCG@10 and the time of one exact search on a judged
    corpus, and what each loses against float32. Encoders that are smaller themselves are compared by
    `nearsay evaluate compare`.

    \b
    Example:
        nearsay evaluate compression --sts stsb/test.tsv --retrieval scifact/ --dimensions 256,128
    """
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.sentence.compression.comparison import compare_compressions
    from nearsay.training.sentence.encoder import Encoder

    if not sts and not retrieval:
        raise click.UsageError("say what to measure on: --sts FILE, --retrieval FOLDER or both")
    judged = read_retrieval_set(retrieval, split) if retrieval else None
    print_notes(judged.notes if judged else ())
    with ProgressBar("encoding", unit="texts") as bar:
        rows = compare_compressions(
            Encoder.load(encoder, device=device, precision=Precision(precision)),
            pairs=read_scored_pairs(sts) if sts else (),
            retrieval=judged,
            dimensions=dimensions,
            progress=lambda done, total: bar(Progress(done, total)),
        )
    if as_json:
        for row in rows:
            print_json(row)
    else:
        _print_table(rows)


def _print_table(rows: "list[CompressionRow]") -> None:
    table = [
        [
            row.variant,
            row.dimension,
            row.bytes_per_vector,
            _shown(row.spearman, 2),
            _shown(row.spearman_lost, 2),
            _shown(row.ndcg_at_10, 4),
            _shown(row.ndcg_lost, 4),
            _shown(row.milliseconds, 3),
        ]
        for row in rows
    ]
    headers = ["vectors", "dimension", "bytes", "Spearman", "lost", "nDCG@10", "lost", "ms a query"]
    measured = [i for i in range(len(headers)) if i < 3 or any(row[i] for row in table)]
    print_table([headers[i] for i in measured], [[row[i] for i in measured] for row in table])


def _shown(figure: float | None, decimals: int) -> str:
    return "" if figure is None else f"{figure:.{decimals}f}"
