"""`nearsay explore outliers`: what is unlike everything else."""

from typing import Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.passage_lines import near_line, print_passages
from nearsay.app.cli.printing import print_notes
from nearsay.app.cli.progress_bar import ProgressBar

__all__ = ["outliers"]


@click.command()
@click.argument("collection")
@click.option("--count", default=20, show_default=True, help="How many passages.")
@where_option
@json_option
@library_options
def outliers(collection: str, count: int, where: str | None, as_json: bool, **place: Unpack[Place]) -> None:
    """Show the passages of COLLECTION that are least like any other.

    A score is the mean cosine to a passage's ten nearest of other documents; the lowest come first. With
    --where only what it lets through is compared.

    \b
    Example:
        nearsay explore outliers papers --count 10
    """
    with open_library(place) as library, ProgressBar("comparing") as bar:
        found = library.collection(collection).explore.outliers(count, where, progress=bar)
    print_passages(
        found,
        lambda each: ("mean cosine to the nearest", near_line(each.nearest, "nearest")),
        as_json=as_json,
    )
    print_notes(found.notes)
