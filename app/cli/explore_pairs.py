"""`nearsay explore pairs`: what says nearly the same."""

import textwrap
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_json, print_notes, visible
from nearsay.app.cli.progress_bar import ProgressBar
from nearsay.data.document import beginning
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.duplicates.pairs import PairedPassage

__all__ = ["pairs", "passage_lines"]

_PREVIEW = 300  # characters of a passage shown to a person
_WIDTH = 100


@click.command()
@click.argument("collection")
@click.option("--top", type=int, metavar="N", help="How many; 100 if no --threshold is given, else all.")
@click.option("--threshold", type=float, metavar="COSINE", help="Only pairs at least so similar, as in: 0.9")
@click.option(
    "--with", "other", metavar="OTHER", help="Pairs of one passage of COLLECTION and one of this collection."
)
@where_option
@click.option("--with-where", "other_where", metavar="EXPR", help="The same for the other collection.")
@click.option("--same-document", is_flag=True, help="Passages of one document are pairs, too.")
@json_option
@library_options
def pairs(
    collection: str,
    *,
    top: int | None,
    threshold: float | None,
    other: str | None,
    where: str | None,
    other_where: str | None,
    same_document: bool,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Show the most similar pairs of passages of COLLECTION, or of it and another.

    Every two are compared; beyond some hundred thousand passages each with those that are likely to be near,
    which is said. Identical texts come first, with a cosine of 1.

    \b
    Example:
        nearsay explore pairs papers --top 20
        nearsay explore pairs papers --threshold 0.9 --with notes --json
    """
    if other_where is not None and other is None:
        raise click.UsageError("--with-where needs --with OTHER: it filters that collection.")
    with open_library(place) as library:
        with ProgressBar("comparing", unit="pairs") as bar:
            found = library.collection(collection).explore.pairs(
                top,
                threshold=threshold,
                where=where,
                other=None if other is None else library.collection(other),
                other_where=other_where,
                same_document=same_document,
                progress=bar,
            )
        for rank, pair in enumerate(found, 1):
            if as_json:
                print_json(pair)
                continue
            click.echo(f"{rank:3}. {pair.cosine:.4f}")
            for passage in (pair.first, pair.second):
                click.echo(passage_lines(passage))
    nothing = () if len(found) else (f"no pair: {counted(found.looked_at, 'passage')} looked at",)
    print_notes((*nothing, *found.notes))


def passage_lines(passage: "PairedPassage") -> str:
    """Its id and title, and the beginning of its text."""
    head = "  ".join(part for part in (visible(passage.id), visible(passage.title)) if part)
    text = beginning(visible(passage.text), _PREVIEW)
    body = textwrap.fill(text, _WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7)
    return f"     {click.style(head, bold=True)}\n{body}"
