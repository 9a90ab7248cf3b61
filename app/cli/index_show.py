"""`nearsay index list` and `nearsay index show`."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.plan_table import print_plan
from nearsay.app.cli.printing import print_json, print_table, visible
from nearsay.data.document import beginning
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.catalogue.near_duplicates import NearDuplicate

__all__ = ["list_", "show"]


@click.command("list")
@click.argument("collection", required=False)
@where_option
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="The most documents to list."
)
@click.option("--near-duplicates", is_flag=True, help="List the documents that are linked to an earlier one.")
@json_option
@library_options
def list_(
    collection: str | None,
    where: str | None,
    limit: int,
    near_duplicates: bool,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """List the collections, or the documents of COLLECTION.

    \b
    Example:
        nearsay index list
        nearsay index list papers --where "year = 2019"
    """
    if near_duplicates and (collection is None or where is not None):
        raise click.UsageError("--near-duplicates goes with a COLLECTION and without --where")
    with open_library(place) as library:
        if collection is None:
            rows = [found.overview() for found in library.collections()]
            if as_json:
                for row in rows:
                    print_json({"name": row.name, "documents": row.documents, "passages": row.passages})
                return
            encoders = [row.live.encoder.name if row.live else "" for row in rows]
            print_table(
                ["collection", "documents", "passages", "encoder", "stored as"],
                [
                    [row.name, row.documents, row.passages, name, str(row.live.dtype) if row.live else ""]
                    for row, name in zip(rows, encoders, strict=True)
                ],
            )
            return
        if near_duplicates:
            _print_links(library.collection(collection).near_duplicates()[:limit], as_json=as_json)
            return
        for document in itertools.islice(library.collection(collection).documents(where), limit):
            if as_json:
                print_json(document)
            else:
                head = beginning(visible(document.title or document.text), 80)
                click.echo(f"{visible(document.id)}\t{head}")


def _print_links(links: "list[NearDuplicate]", *, as_json: bool) -> None:
    if as_json:
        for link in links:
            print_json(link)
        return
    print_table(
        ["document", "says nearly what this one says", "cosine"],
        [[visible(link.id), visible(link.original), f"{link.cosine:.3f}"] for link in links],
    )


@click.command()
@click.argument("collection")
@click.option("--id", "id_", metavar="ID", help="Show one document instead.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw how the live plan was chosen: .png or .svg.",
)
@json_option
@library_options
def show(collection: str, id_: str | None, plot: Path | None, as_json: bool, **place: Unpack[Place]) -> None:
    """Show sizes, fields, generations and plans of COLLECTION.

    \b
    Example:
        nearsay index show papers
    """
    from nearsay.indexer.writing.report_plot import plot_live, report_plots

    with open_library(place) as library:
        target = library.collection(collection)
        if plot is not None:
            plot_live(target.overview(), plot)
            click.echo(f"drawn: {plot}", err=True)
        pictures = report_plots(library.store, target.overview())
        found = target.overview() if id_ is None else target.document(id_)
    if as_json:
        print_json(found)
    elif id_ is None:
        _print_overview(found, pictures)
    else:
        _print_document(found)


def _print_document(document: Any) -> None:  # noqa: ANN401 - StoredDocument, whose import is heavy
    facts = {"id": document.id, "title": document.title, **document.metadata, "source": document.source}
    facts |= {"added": document.added_at, "updated": document.updated_at, "passages": document.passages}
    print_table(
        ["field", "value"], [[visible(str(name)), visible(str(value))] for name, value in facts.items()]
    )
    click.echo(f"\n{visible(document.text)}")


def _print_overview(found: Any, pictures: dict[int, Path]) -> None:  # noqa: ANN401 - CollectionOverview, whose import is heavy
    documents, passages = counted(found.documents, "document"), counted(found.passages, "passage")
    click.echo(f"{found.name}: {documents}, {passages}, made {found.created_at}")
    click.echo(f"cut by {found.chunking}; fields: {visible(', '.join(found.fields)) or 'none'}")
    if found.waiting:
        click.echo(
            f"{counted(found.waiting, 'passage')} without a vector yet: nearsay index rebuild {found.name}"
        )
    if found.clusters is not None:
        more = f"; {counted(found.unclustered, 'newer passage')} in none" if found.unclustered else ""
        click.echo(f"{counted(found.clusters, 'cluster')}{more}: nearsay explore clusters {found.name}")
    if found.removed:
        removed = counted(found.removed, "removed passage")
        click.echo(f"{removed} still there, taking room: nearsay index compact {found.name}")
    if found.gate is not None:
        gate = found.gate
        click.echo(f"near-duplicates of a cosine of {gate.threshold:g} and above: {gate.action}")
    if found.linked:
        linked = counted(found.linked, "linked near-duplicate")
        click.echo(f"{linked}: nearsay index list {found.name} --near-duplicates")
    click.echo()
    segments = {
        row.number: [s for s in found.segments if s.generation == row.number] for row in found.generations
    }
    print_table(
        ["generation", "state", "encoder", "numbers", "stored as", "plan", "segments", "MB", "cut so far"],
        [
            [
                row.number,
                str(row.state),
                f"{row.encoder.name} ({row.encoder.fingerprint[:8]})",
                row.encoder.dimension,
                str(row.dtype),
                row.plan.get("kind", "exact"),
                len(segments[row.number]),
                f"{sum(s.bytes for s in segments[row.number]) / 1e6:.1f}",
                row.truncated,
            ]
            for row in found.generations
        ],
    )
    for row in found.generations:
        _print_plan(found.name, row, pictures.get(row.number))


def _print_plan(collection: str, row: Any, picture: Path | None) -> None:  # noqa: ANN401 - GenerationRow
    from nearsay.indexer.plans.plan import Plan

    plan = Plan.from_json(row.plan)
    if plan.report:
        click.echo(f"\ngeneration {row.number}: ", nl=False)
        print_plan(plan)
    if picture is not None:
        click.echo(f"drawn: {picture}")
    warning = plan.warning(collection)
    if warning is not None:
        click.echo(warning, err=True)
