"""`nearsay facets`: counts by value."""

from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer import Collection

__all__ = ["facets"]


@click.command()
@click.argument("collection")
@click.argument("field")
@where_option
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="The most values to list."
)
@json_option
@library_options
def facets(
    collection: str, field: str, where: str | None, limit: int, as_json: bool, **place: Unpack[Place]
) -> None:
    """Count the documents of COLLECTION by the values of FIELD.

    A list counts each of its elements. Quick for declared fields: see nearsay index fields.

    \b
    Example:
        nearsay facets papers venue --where "year >= 2019"
    """
    with open_library(place) as library:
        target = library.collection(collection)
        found = target.facets(field, where=where, limit=limit)
        if found.documents and found.missing == found.documents:
            _require(target, field)
    if as_json:
        print_json(found.to_json())
        return
    print_table([field, "documents"], [[each.value, each.documents] for each in found.values])
    more = found.different - len(found.values)
    rest = [f"{counted(more, 'more value')}: {found.other:,}"] if more else []
    print_notes([*rest, f"without {field}: {found.missing:,} of {counted(found.documents, 'document')}"])


def _require(target: "Collection", field: str) -> None:
    """BadInputError if no document of the collection has the field, whatever a filter lets through."""
    from nearsay.data.errors import BadInputError
    from nearsay.indexer.filters.declared import metadata_path

    if metadata_path((field,)) is None:  # every document may have it, whatever its metadata
        return
    of_all = target.facets(field, limit=1)
    if of_all.missing == of_all.documents:
        if field == "cluster":
            raise BadInputError(
                f"collection '{target.name}' has no clusters. "
                f"Make them: nearsay explore clusters {target.name}"
            )
        there = ", ".join(target.overview().fields) or "none"
        raise BadInputError(f"no document has a field '{field}'; there are: {there}. Name one of these")
