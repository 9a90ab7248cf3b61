"""`nearsay explore map`: the whole collection in one picture."""

from pathlib import Path
from typing import Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_json, print_notes, visible
from nearsay.app.cli.progress_bar import ProgressBar
from nearsay.data.quantity import counted, size_words

__all__ = ["map_"]


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
