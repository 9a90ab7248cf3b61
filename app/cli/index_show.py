"""`nearsay index list` and `nearsay index show`."""

import itertools
import textwrap
from typing import Any, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_json, print_table, visible

__all__ = ["list_", "show"]


@click.command("list")
@click.argument("collection", required=False)
@where_option
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="The most documents to list."
)
@json_option
@library_options
def list_(
    collection: str | None, where: str | None, limit: int, as_json: bool, **place: Unpack[Place]
) -> None:
    """List the collections, or the documents of COLLECTION.

    \b
    Example:
        nearsay index list
        nearsay index list papers --where "year = 2019"
    """
    with open_library(place) as library:
        if collection is None:
            rows = [found.overview() for found in library.collections()]
            if as_json:
                for row in rows:
                    print_json({"name": row.name, "documents": row.documents, "passages": row.passages})
                return
            encoders = [row.live.encoder.name if row.live else "" for row in rows]
            print_table(
                ["collection", "documents", "passages", "encoder"],
                [
                    [row.name, row.documents, row.passages, name]
                    for row, name in zip(rows, encoders, strict=True)
                ],
            )
            return
        for document in itertools.islice(library.collection(collection).documents(where), limit):
            if as_json:
                print_json(document)
            else:
                head = textwrap.shorten(visible(document.title or document.text), 80, placeholder=" …")
                click.echo(f"{visible(document.id)}\t{head}")


@click.command()
@click.argument("collection")
@click.option("--id", "id_", metavar="ID", help="Show one document instead.")
@json_option
@library_options
def show(collection: str, id_: str | None, as_json: bool, **place: Unpack[Place]) -> None:
    """Show sizes, fields, generations and plans of COLLECTION.

    \b
    Example:
        nearsay index show papers
    """
    with open_library(place) as library:
        target = library.collection(collection)
        found = target.overview() if id_ is None else target.document(id_)
    if as_json:
        print_json(found)
    elif id_ is None:
        _print_overview(found)
    else:
        _print_document(found)


def _print_document(document: Any) -> None:  # noqa: ANN401 - StoredDocument, whose import is heavy
    facts = {"id": document.id, "title": document.title, **document.metadata, "source": document.source}
    facts |= {"added": document.added_at, "updated": document.updated_at, "passages": document.passages}
    print_table(
        ["field", "value"], [[visible(str(name)), visible(str(value))] for name, value in facts.items()]
    )
    click.echo(f"\n{visible(document.text)}")


def _print_overview(found: Any) -> None:  # noqa: ANN401 - CollectionOverview, whose import is heavy
    click.echo(
        f"{found.name}: {found.documents:,} documents, {found.passages:,} passages, made {found.created_at}"
    )
    click.echo(f"cut by {found.chunking}; fields: {visible(', '.join(found.fields)) or 'none'}")
    if found.waiting:
        click.echo(f"{found.waiting:,} passages have no vector yet: nearsay index rebuild {found.name}")
    if found.removed:
        click.echo(f"{found.removed:,} removed passages still take room: nearsay index compact {found.name}")
    click.echo()
    segments = {
        row.number: [s for s in found.segments if s.generation == row.number] for row in found.generations
    }
    print_table(
        ["generation", "state", "encoder", "numbers", "plan", "segments", "MB", "cut so far"],
        [
            [
                row.number,
                str(row.state),
                f"{row.encoder.name} ({row.encoder.fingerprint[:8]})",
                row.encoder.dimension,
                row.plan.get("kind", "exact"),
                len(segments[row.number]),
                f"{sum(s.bytes for s in segments[row.number]) / 1e6:.1f}",
                row.truncated,
            ]
            for row in found.generations
        ],
    )
    for row in found.generations:
        _print_plan(row)


def _print_plan(row: Any) -> None:  # noqa: ANN401 - GenerationRow, whose import is heavy
    from nearsay.indexer.plan import Plan

    plan = Plan.from_json(row.plan)
    if not plan.report:
        return
    click.echo(
        f"\ngeneration {row.number} was planned by measurement, recall target {plan.recall_target} at 10:"
    )
    print_table(
        ["candidate", "parameters", "recall@10", "ms a query"],
        [
            [
                str(m.kind),
                ", ".join(f"{name} {value}" for name, value in m.parameters.items()),
                f"{m.recall_at_10:.3f}",
                f"{m.milliseconds_a_query:.2f}",
            ]
            for m in plan.report
        ],
    )
    if plan.note:
        click.echo(plan.note)
