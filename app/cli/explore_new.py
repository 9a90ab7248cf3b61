"""`nearsay explore new`: what came since a date."""

from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.passage_lines import near_line, print_passages
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.app.cli.progress_bar import ProgressBar
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.exploring.newest import News

__all__ = ["new"]


@click.command("new")
@click.argument("collection")
@click.option(
    "--since", required=True, metavar="DATE", help="As 2026-11-01, 2026-11 or 2026-11-01T08:00 (UTC)."
)
@click.option(
    "--field", metavar="FIELD", help="Of the metadata, with dates; when they were added if left out."
)
@click.option("--count", default=20, show_default=True, help="How many of the new passages to show.")
@where_option
@json_option
@library_options
def new(
    collection: str,
    *,
    since: str,
    field: str | None,
    count: int,
    where: str | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Show what is new in COLLECTION since a date, and unlike everything before.

    New passages come with the cosine to the older one that is nearest, the most unlike first. If there are
    clusters, those that the new passages fall into are counted.

    \b
    Example:
        nearsay explore new papers --since 2026-11-01
        nearsay explore new papers --since 2019 --field year
    """
    with open_library(place) as library, ProgressBar("comparing") as bar:
        found = library.collection(collection).explore.new_since(
            since, field, count=count, where=where, progress=bar
        )
    if as_json:
        print_json(found)
    else:
        _print(found)
    print_notes(found.notes)


def _print(found: "News") -> None:
    click.echo(
        f"since {found.since}: {counted(found.documents, 'document')}, {counted(found.passages, 'passage')}; "
        f"before: {counted(found.older_documents, 'document')}, {counted(found.older_passages, 'passage')}"
    )
    if found.clusters:
        click.echo()
        rows = [
            [
                "" if each.number is None else each.number,
                each.name,
                each.new,
                each.before,
                f"{100 * each.share_of_new:.1f} %",
                f"{100 * each.share_before:.1f} %",
            ]
            for each in found.clusters
        ]
        print_table(["", "cluster", "new", "before", "of the new", "of those before"], rows)
    if found.unlike:
        click.echo()
        print_passages(
            found.unlike,
            lambda each: ("cosine with the nearest older one", near_line(each.nearest, "nearest before")),
            as_json=False,
        )
