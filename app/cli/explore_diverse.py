"""`nearsay explore diverse`: a few passages that show what there is."""

from typing import Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.passage_lines import print_passages
from nearsay.app.cli.printing import print_notes
from nearsay.app.cli.progress_bar import ProgressBar

__all__ = ["diverse"]


@click.command()
@click.argument("collection")
@click.option("--count", default=20, show_default=True, help="How many passages.")
@click.option("--query", metavar="TEXT", help="What they are to be about; everything if left out.")
@click.option(
    "--balance",
    default=0.5,
    show_default=True,
    help="1: the most relevant, however alike; 0: the most unlike each other.",
)
@where_option
@json_option
@library_options
def diverse(
    collection: str,
    count: int,
    *,
    query: str | None,
    balance: float,
    where: str | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Choose passages of COLLECTION from which to see quickly what is in it.

    One after the other, what is most relevant and least like what was chosen before: near to the query, or
    without one in the company of many. Each says how many passages it stands for.

    \b
    Example:
        nearsay explore diverse papers --count 10
        nearsay explore diverse papers --query "evaluation of translations"
    """
    with open_library(place) as library, ProgressBar("loading") as bar:
        found = library.collection(collection).explore.diverse(
            count, query=query, where=where, balance=balance, progress=bar
        )
    print_passages(found, lambda each: (f"stands for {each.stands_for:,}", ""), as_json=as_json)
    print_notes(found.notes)
