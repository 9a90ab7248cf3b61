"""`nearsay explore`: what a collection says of itself without a query."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.explore_clusters import clusters, over_time, rename
from nearsay.app.cli.explore_duplicates import duplicates, pairs
from nearsay.app.cli.options import (
    CommandGroup,
    Place,
    device_option,
    encoding_options,
    json_option,
    library_options,
    open_library,
    where_option,
)
from nearsay.app.cli.printing import near_line, print_json, print_notes, print_passages, print_table, visible
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.quantity import counted, size_words

if TYPE_CHECKING:
    from nearsay.indexer.exploring.newest import News

__all__ = ["explore"]


@click.command()
@click.argument("collection")
@click.option("--count", default=20, show_default=True, help="How many passages.")
@where_option
@json_option
@library_options
@device_option
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
@encoding_options
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
@device_option
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


@click.command("map")
@click.argument("collection")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="map.html",
    show_default=True,
    metavar="FILE",
    help="Where to: .html (a page to move about in), .png, .svg, .parquet, .csv or .jsonl.",
)
@click.option("--no-file", is_flag=True, help="Only make the map, or bring it up to date, and keep it.")
@click.option(
    "--colour-by",
    metavar="FIELD",
    help="'cluster' or a metadata field; by clusters where there are any if left out.",
)
@click.option("--anew", is_flag=True, help="Lay it out from nothing; the map that is kept is replaced.")
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Of the layout: another one, another picture."
)
@where_option
@json_option
@library_options
@device_option
def map_(
    collection: str,
    out: Path,
    *,
    no_file: bool,
    colour_by: str | None,
    anew: bool,
    seed: int | None,
    where: str | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Draw COLLECTION as a map on which passages that say nearly the same lie together.

    The map is kept: passages that are added later are put among the others, which stay, unless the map was
    of a handful. A new encoder's map begins from the old one and is turned to lie on it. --where says what
    is drawn.

    \b
    Example:
        nearsay explore map papers --out papers.html
        nearsay explore map papers --out papers.png --colour-by year --where "year >= 2015"
    """
    with open_library(place) as library, ProgressBar("mapping") as bar:
        explorer = library.collection(collection).explore
        file = None if no_file else out
        report = explorer.draw_map(file, where=where, colour_by=colour_by, anew=anew, seed=seed, progress=bar)
    if as_json:
        print_json(report)
    elif report.out is None:
        click.echo(f"the map of {counted(report.mapped, 'passage')} is kept")
    else:
        click.echo(visible(f"{report.out}: {counted(report.drawn, 'passage')}, {size_words(report.bytes)}"))
    print_notes(report.notes)


@click.group(cls=CommandGroup)
def explore() -> None:
    """Look around in a collection: pairs, duplicates, clusters, maps, samples.

    \b
    Example:
        nearsay explore pairs papers --top 20
    """


explore.add_command(clusters)
explore.add_command(rename)
explore.add_command(outliers)
explore.add_command(diverse)
explore.add_command(over_time)
explore.add_command(new)
explore.add_command(map_)
explore.add_command(pairs)
explore.add_command(duplicates)
