"""`nearsay explore time`: clusters through time."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_json, print_notes, print_table, visible

if TYPE_CHECKING:
    from nearsay.indexer.exploring.through_time import ClusterThroughTime, ThroughTime

__all__ = ["over_time"]

_BARS = " ▁▂▃▄▅▆▇█"
_WIDEST = 40  # periods in a row of bars


@click.command("time")
@click.argument("collection")
@click.option(
    "--field", metavar="FIELD", help="Of the metadata, with dates; when they were added if left out."
)
@click.option(
    "--by",
    type=click.Choice(["day", "week", "month", "year"]),
    help="How long a period is; by the span of the dates if left out.",
)
@click.option(
    "--level",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="0: the clusters themselves; 1: those that they belong to, and so on.",
)
@click.option(
    "--count",
    "counted",
    type=click.Choice(["documents", "passages"]),
    default="documents",
    show_default=True,
    help="What is counted; a document where most of its passages are.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write it: .png or .svg draw it, .csv or .jsonl hold every number.",
)
@click.option(
    "--top", type=click.IntRange(1, 24), default=8, show_default=True, help="Clusters in the picture."
)
@where_option
@json_option
@library_options
def over_time(
    collection: str,
    *,
    field: str | None,
    by: str | None,
    level: int,
    counted: str,
    out: Path | None,
    top: int,
    where: str | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Count the clusters of COLLECTION by the dates of their documents.

    Dates are ISO 8601 (2019, 2019-03, 2019-03-08, with a time), years as numbers, or seconds since 1970. A
    cluster grows or shrinks where its share does by more than chance (Cochran and Armitage, p < 0.001); from
    and to are its shares on the straight line through the periods.

    \b
    Example:
        nearsay explore time papers --field year --out trend.png
    """
    from nearsay.indexer.exploring.time_file import time_format, write_over_time

    if out is not None:
        time_format(out)  # refused now rather than after the work
    with open_library(place) as library:
        explorer = library.collection(collection).explore
        found = explorer.over_time(field, by, where, level=level, counted=counted)
    if out is not None:
        write_over_time(found, out, top=top)
    _print(found, as_json=as_json)


def _print(found: "ThroughTime", *, as_json: bool) -> None:
    everything = (*found.clusters, *((found.outside,) if found.outside.total else ()))
    if as_json:
        for line in found.to_json():
            print_json(line)
    else:
        span = f"{found.periods[0]} to {found.periods[-1]}"
        rows = [
            [
                "" if each.number is None else each.number,
                each.name,
                each.total,
                f"{100 * each.trend.first:.1f} %",
                f"{100 * each.trend.last:.1f} %",
                _word(each),
                _bars(found, each),
            ]
            for each in everything
        ]
        print_table(["", "cluster", str(found.counted), "from", "to", "", span], rows)
        for word, some in (("growing", found.growing), ("shrinking", found.shrinking)):
            if some:
                named = "; ".join(f"{each.number} {each.name}" for each in some[:5])
                click.echo(visible(f"{word} most: {named}"))
    print_notes(found.notes)


def _word(each: "ClusterThroughTime") -> str:
    return "grows" if each.trend.grows else "shrinks" if each.trend.shrinks else ""


def _bars(found: "ThroughTime", each: "ClusterThroughTime") -> str:
    """The shares as bars, the highest one full; neighbouring periods together where there are many."""
    some = -(-len(found.periods) // _WIDEST)
    spans = [slice(begin, begin + some) for begin in range(0, len(found.periods), some)]
    shares = [sum(each.counts[span]) / max(1, sum(found.totals[span])) for span in spans]
    highest = max(shares)
    return "".join(_BARS[math.ceil(8 * share / highest)] if highest else " " for share in shares)
