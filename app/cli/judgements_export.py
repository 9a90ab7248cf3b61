"""`nearsay judgements export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json, print_notes
from nearsay.app.cli.progress_bar import ProgressBar
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.judgements.export import JudgementExport

__all__ = ["export"]


@click.command()
@click.argument("collection")
@click.option(
    "--as",
    "form",
    type=click.Choice(["evaluation", "training", "triplets", "labelled", "pairs", "csv", "lines"]),
    default="lines",
    show_default=True,
    help="What is written.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PATH",
    help="The .jsonl or .csv to write; for evaluation a folder that is not there yet.",
)
@click.option(
    "--part",
    type=click.Choice(["train", "test"]),
    help="Only the queries to learn from, or the fifth to measure on; all if left out.",
)
@click.option(
    "--judged-only",
    is_flag=True,
    help="An evaluation searches the judged passages alone: quick, and its figures are higher.",
)
@json_option
@library_options
def export(
    collection: str,
    *,
    form: str,
    out: Path,
    part: str | None,
    judged_only: bool,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Write judgements for evaluation, for training, or as they are.

    evaluation is a folder for `nearsay evaluate retrieval`: every passage of the collection, the queries, and
    what was said; passages that nobody judged count as not relevant. training is a file for `nearsay train
    sentence`: triplets (query, relevant passage, one that is not) where a query has both; else labelled
    (query, passage, 1 or 0); else pairs (query, relevant passage). Each can be asked for by its name. csv
    is a table that `nearsay judgements import` reads; lines has everything that is known of each judgement.

    \b
    Example:
        nearsay judgements export notes --as training --part train --out judged.jsonl
        nearsay train sentence judged.jsonl --out my-encoder
        nearsay judgements export notes --as evaluation --part test --out judged
        nearsay evaluate retrieval judged --encoder my-encoder
    """
    with open_library(place) as library, ProgressBar("writing") as bar:
        judged = library.collection(collection).judgements
        written = judged.export(out, form, part=part, judged_only=judged_only, progress=bar)
    if as_json:
        print_json(written)
    else:
        click.echo(_said(written))
        print_notes(written.notes)


def _said(written: "JudgementExport") -> str:
    among = "" if written.passages is None else f" among {counted(written.passages, 'passage')}"
    kinds = {"evaluation": "judgement", "lines": "judgement", "csv": "judgement", "labelled": "labelled pair"}
    rows = counted(written.rows, kinds.get(written.form, written.form.removesuffix("s")))
    queries = counted(written.queries, "query", "queries")
    return f"{rows} of {queries}{among} written to {written.out}"
