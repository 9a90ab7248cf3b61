"""`nearsay explore clusters`, `rename` and `time`: the topics of a collection, and how they change."""

import math
import textwrap
from dataclasses import asdict, dataclass
from dataclasses import replace as with_changed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from nearsay.app.cli.command import GROUP, NamedPath, argument, command, option
from nearsay.app.cli.options import (
    COLLECTION,
    DATE_FIELD,
    JSON,
    LIMIT,
    REPLACE,
    ROWS,
    SEED,
    UNIT,
    WHERE,
    Encoding,
    Place,
    ending,
)
from nearsay.app.cli.printing import (
    filled,
    print_json,
    print_notes,
    print_reports,
    print_table,
    rows_alone,
)
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.document import beginning, visible
from nearsay.data.picture import PICTURES
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.clusters.clustering import Cluster, Clustering
    from nearsay.indexer.exploring.explorer import Explorer
    from nearsay.indexer.exploring.through_time import ClusterThroughTime, ThroughTime

_WHAT_TO_FIND = {"method", "clusters", "resolution"}  # giving one of these discards the last settings


@dataclass(frozen=True)
class _How:
    """How clusters are found; without one of the first three options, defaults are the last clustering's."""

    method: Literal["graph", "kmeans"] | None = option(
        "Clustering algorithm.", shown="that of the last clustering, or graph; kmeans with --clusters"
    )
    clusters: int | None = option("Number of clusters, for kmeans.", metavar="K", least=1)
    resolution: float | None = option("Resolution, for graph: higher values give more and smaller clusters.")
    least_size: int | None = option(
        "Minimum number of passages in a cluster; passages of smaller ones become outliers.",
        metavar="N",
        least=1,
    )
    assign_outliers: bool = option(
        "Assign each outlier to its nearest cluster; later clusterings do so, too, until a method is named."
    )
    seed: int | None = SEED(shown="that of the last clustering, or a fixed one")


@command()
def clusters(
    collection: str = COLLECTION,
    how: _How = GROUP,
    where: str | None = WHERE,
    replace: bool = REPLACE,
    assign: bool = option("Assign passages that were added since to the existing clusters."),
    show: int | None = option(
        "Show only the cluster of this number, with its terms and central passages.", metavar="NUMBER"
    ),
    out: Path | None = option(
        "Also write each passage with its cluster to this file: .jsonl or .csv.",
        metavar="FILE",
        type=NamedPath(dir_okay=False),
        callback=ending("jsonl", "csv"),
    ),
    as_json: bool = ROWS,
    place: Encoding = GROUP,
) -> None:
    """Cluster COLLECTION, or show its clusters.

    Clusters are stored, and shown again until an option or --replace requests a new clustering. A cluster
    keeps its number and the name that you gave it across clusterings; --where "cluster = 12" restricts a
    search to it. With --where, only matching documents are clustered and nothing is stored.

    \b
    Example:
        nearsay explore clusters papers
        nearsay explore clusters papers --method kmeans --clusters 20 --out clusters.csv
    """
    with place.open() as library:
        explorer = library.collection(collection).explore
        found = _found(explorer, asdict(how), where, anew=replace, assign=assign)
        if out is not None:
            count = explorer.write_clusters(out, found)
            click.echo(f"{counted(count, 'passage')} written to {out}", err=True)
    print_clusters(found, as_json=as_json, show=show)


@command()
def rename(
    collection: str = COLLECTION,
    number: int = argument(),
    name: str = argument(),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Name the cluster with the number NUMBER of COLLECTION.

    The cluster keeps its name as long as later clusterings contain it.

    \b
    Example:
        nearsay explore rename papers 12 "holidays"
    """
    with place.open() as library:
        explorer = library.collection(collection).explore
        explorer.rename_cluster(number, name)
        if as_json:
            print_json(next(one for one in explorer.clusters().clusters if one.number == number))
        else:
            click.echo(f"cluster {number} of {collection} is now named: {visible(name)}")


def print_clusters(found: "Clustering", *, as_json: bool = False, show: int | None = None) -> None:
    """Print the clusters as a table, parents above their children, with movements below."""
    from nearsay.data.errors import BadInputError

    wanted = [each for each in found.clusters if show is None or each.number == show]
    if show is not None and not wanted:
        raise BadInputError(f"'{found.collection}' has no cluster {show}. Omit --show to see all")
    if show is not None and not as_json:
        _print_one(wanted[0])
        return
    beside = [found.report()] if show is None and not rows_alone() else []
    print_reports([*wanted, *beside], as_json=as_json)


def _found(
    explorer: "Explorer", chosen: dict[str, Any], where: str | None, *, anew: bool, assign: bool
) -> "Clustering":
    given = {name: value for name, value in chosen.items() if value is not None and value is not False}
    if assign and (anew or given or where is not None):
        raise click.UsageError("--assign keeps the existing clusters: omit options for a new clustering")
    if assign:
        with ProgressBar("assigning") as bar:
            done = explorer.assign_newer(progress=bar)
        click.echo(
            f"{counted(done.assigned, 'newer passage')} assigned, {counted(done.outliers, 'outlier')}",
            err=True,
        )
    elif anew or given or where is not None or not explorer.has_clusters():
        last = {} if _WHAT_TO_FIND & given.keys() else explorer.last_settings()
        with ProgressBar("clustering") as bar:
            return explorer.cluster(where=where, progress=bar, **{**last, **given})
    return explorer.clusters()


def _print_one(each: "Cluster") -> None:
    click.echo(
        f"{each.number}  {click.style(visible(each.name), bold=True)}: {counted(each.size, 'passage')}"
    )
    silhouette = "" if each.silhouette is None else f", silhouette {each.silhouette:.2f}"
    click.echo(f"cohesion {each.cohesion:.2f}{silhouette}")
    click.echo(f"terms: {visible(', '.join(each.terms))}")
    from nearsay.indexer.catalogue.passages import headline

    for one in each.central:
        text = filled(beginning(visible(one.text), 400), 95)
        click.echo(f"\n     {click.style(visible(headline(one.title, one.id, one.text)), bold=True)}")
        click.echo(textwrap.indent(text, "     "))


_BARS = " ▁▂▃▄▅▆▇█"
_WIDEST = 40  # periods in a row of bars


@command("time")
def over_time(
    collection: str = COLLECTION,
    field: str | None = DATE_FIELD,
    period: Literal["day", "week", "month", "year"] | None = option(
        "Length of a period.", shown="by the span of the dates"
    ),
    level: int = option(
        "Level in the hierarchy of clusters: 0 is the clusters themselves, 1 their parents.",
        default=0,
        least=0,
    ),
    unit: Literal["documents", "passages"] = UNIT,
    out: Path | None = option(
        "Also write the counts to this file: .png or .svg as a chart, .csv or .jsonl as data.",
        metavar="FILE",
        type=NamedPath(dir_okay=False),
        callback=ending(*PICTURES, "csv", "jsonl"),
    ),
    limit: int = LIMIT(8),
    where: str | None = WHERE,
    as_json: bool = ROWS,
    place: Place = GROUP,
) -> None:
    """Count the clusters of COLLECTION over time.

    Dates are ISO 8601 (2019, 2019-03, 2019-03-08, optionally with a time), years as numbers, or seconds since
    1970. A cluster is reported as growing or shrinking if its share has a significant trend (Cochran-Armitage
    test, p < 0.001); from and to are its shares on the regression line. A document belongs to the cluster of
    most of its passages.

    \b
    Example:
        nearsay explore time papers --field year --out trend.png
    """
    from nearsay.indexer.exploring.through_time import write_over_time

    with place.open() as library:
        explorer = library.collection(collection).explore
        found = explorer.over_time(field, period, where, level=level, counted=unit)
    if out is not None:
        write_over_time(found, out, top=limit)
    _print(found, limit, as_json=as_json)


def _print(found: "ThroughTime", limit: int, *, as_json: bool) -> None:
    """Print the largest clusters and the outliers; growing and shrinking ones are named among all."""
    shown = with_changed(found, clusters=found.clusters[:limit])
    if as_json:
        for line in shown.rows() if rows_alone() else [shown]:
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
            for each in shown.every
        ]
        print_table(["", "cluster", str(found.counted), "from", "to", "", span], rows)
        for word, some in (("growing", found.growing), ("shrinking", found.shrinking)):
            if some:
                named = "; ".join(f"{each.number} {each.name}" for each in some[:5])
                click.echo(visible(f"{word} most: {named}"))
    more = len(found.clusters) - len(shown.clusters)
    print_notes([*([f"{counted(more, 'more cluster')}, shown by a higher -n"] if more else []), *found.notes])


def _word(each: "ClusterThroughTime") -> str:
    return "grows" if each.trend.grows else "shrinks" if each.trend.shrinks else ""


def _bars(found: "ThroughTime", each: "ClusterThroughTime") -> str:
    """Return the shares as bars, the highest one full; if there are many periods, neighbours are merged."""
    some = -(-len(found.periods) // _WIDEST)
    spans = [slice(begin, begin + some) for begin in range(0, len(found.periods), some)]
    shares = [sum(each.counts[span]) / max(1, sum(found.totals[span])) for span in spans]
    highest = max(shares)
    return "".join(_BARS[math.ceil(8 * share / highest)] if highest else " " for share in shares)
