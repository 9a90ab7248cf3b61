"""`nearsay collections`: the collections of a library."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.command import GROUP, CommandGroup
from nearsay.app.cli.options import COLLECTION, JSON, PLOT, ROWS, Place, Removal
from nearsay.app.cli.printing import (
    in_the_library,
    indexed_words,
    print_json,
    print_reports,
    print_results,
    print_rows,
)
from nearsay.data.document import visible
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.catalogue.generations import GenerationRow
    from nearsay.indexer.writing.overview import CollectionOverview


@click.group(cls=CommandGroup)
def collections() -> None:
    """List, show and remove the collections of a library.

    \b
    Example:
        nearsay collections list
    """


@collections.command("list")
def list_(as_json: bool = ROWS, place: Place = GROUP) -> None:
    """List the collections with their sizes and encoders.

    \b
    Example:
        nearsay collections list
    """
    with place.open() as library:
        print_rows(
            [found.overview() for found in library.collections()],
            {
                "collection": "name",
                "documents": "documents",
                "passages": "passages",
                "encoder": lambda row: row.live and row.live.encoder.name,
                "stored as": lambda row: row.live and str(row.live.dtype),
            },
            as_json=as_json,
            to_json=lambda row: {
                "name": row.name,
                "documents": row.documents,
                "passages": row.passages,
                "encoder": row.live and row.live.encoder.name,
                "dtype": row.live and str(row.live.dtype),
            },
        )


@collections.command()
def show(
    collection: str = COLLECTION,
    plot: Path | None = PLOT(metavar="FILE"),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Show the sizes, fields, generations and index plans of COLLECTION.

    \b
    Example:
        nearsay collections show papers
    """
    from nearsay.indexer.plans.plan import Plan
    from nearsay.indexer.writing.report_plot import plot_report

    with place.open() as library:
        found = library.collection(collection).overview()
    if plot is not None:
        plan = Plan() if found.live is None else Plan.from_json(found.live.plan)
        plot_report(found.name, plan, plot)
        click.echo(f"plot written to {plot}", err=True)
    if as_json:
        print_json(found)
    else:
        _print_overview(found)


@collections.command()
def remove(
    collection: str = COLLECTION, removal: Removal = GROUP, as_json: bool = JSON, place: Place = GROUP
) -> None:
    """Remove COLLECTION with its documents, vectors and judgements.

    \b
    Example:
        nearsay collections remove papers --dry-run
        nearsay collections remove papers --yes
    """
    with place.open() as library:
        target = library.collection(collection)
        count = target.overview().documents
        judged = target.judgements.counts().judgements
        also = f" and {counted(judged, 'judgement')}" if judged else ""
        what = f"'{collection}' with its {counted(count, 'document')}{also}"
        if removal.may(what):
            target.delete()
    text = f"removed the collection '{collection}' with {counted(count, 'document')}"
    removal.print_done("collections", 1, text, as_json=as_json)


def _print_overview(found: "CollectionOverview") -> None:
    from nearsay.app.jobs.results import JobResults, generation_row

    documents, passages = counted(found.documents, "document"), counted(found.passages, "passage")
    click.echo(f"{found.name}: {documents}, {passages}, created {found.created_at}")
    click.echo(f"split by {found.chunking}; fields: {visible(', '.join(found.fields)) or 'none'}")
    if found.waiting:
        waiting = counted(found.waiting, "passage")
        click.echo(in_the_library(f"{waiting} without a vector yet: nearsay index rebuild {found.name}"))
    if found.live is not None:
        click.echo(indexed_words(found))
    if found.clusters is not None:
        more = f"; {counted(found.unclustered, 'newer passage')} not assigned" if found.unclustered else ""
        clusters = f"{counted(found.clusters, 'cluster')}{more}"
        click.echo(in_the_library(f"{clusters}: nearsay explore clusters {found.name}"))
    if found.removed:
        removed = counted(found.removed, "removed passage")
        click.echo(in_the_library(f"{removed} still take space: nearsay index compact {found.name}"))
    if found.gate is not None:
        gate = found.gate
        click.echo(f"near-duplicates with a cosine of at least {gate.threshold:g}: {gate.action}")
    if found.linked:
        linked = counted(found.linked, "linked near-duplicate")
        click.echo(in_the_library(f"{linked}: nearsay documents list {found.name} --near-duplicates"))
    click.echo()
    print_results(JobResults(tables=[[generation_row(row, found.segments) for row in found.generations]]))
    for row in found.generations:
        _print_plan(found.name, row)


def _print_plan(collection: str, row: "GenerationRow") -> None:
    from nearsay.indexer.plans.plan import Plan, TunedPlan

    plan = Plan.from_json(row.plan)
    if plan.report:
        click.echo(f"\ngeneration {row.number}:")
        print_reports([TunedPlan(collection, plan)], as_json=False)
    warning = plan.warning(collection)
    if warning is not None:
        click.echo(warning, err=True)
