"""Whether the values of a collection's declared fields are exactly what its documents' metadata says."""

import sqlalchemy as sa

from nearsay.indexer.catalogue.field_values import DeclaredField, declared, value_rows
from nearsay.indexer.catalogue.tables import collections, documents, field_values
from nearsay.indexer.filters.declaring import shown

__all__ = ["check_fields"]

_COMPARED = ("document", "place", "element", "kind", "text", "number")


def check_fields(connection: sa.Connection, collection_id: int) -> str | None:
    """Make the values of every declared field anew and compare them with those that are kept.

    None if they agree; else which field's are wrong, and the remedy. Nothing is written. It takes as long as
    declaring the fields does.
    """
    faults = {}
    for field in declared(connection, collection_id):
        lacking, stray = _differences(connection, collection_id, field)
        if lacking or stray:
            faults[shown(field.path)] = f"{lacking} lacking, {stray} that no document has"
    if not faults:
        return None
    named = sa.select(collections.c.name).where(collections.c.id == collection_id)
    name = connection.execute(named).scalar_one()
    said = "; ".join(f"values of '{field}': {fault}" for field, fault in faults.items())
    anew = " ".join(f"--forget '{field}' --declare '{field}'" for field in faults)
    return f"{said}. Enter them anew: nearsay documents fields {name} {anew}"


def _differences(connection: sa.Connection, collection_id: int, field: DeclaredField) -> tuple[int, int]:
    """How many values the documents have that are not kept, and how many are kept that they have not."""
    of_collection = documents.c.collection_id == collection_id
    made = (rows.subquery().c for rows in value_rows(field.path, connection.dialect.name, of_collection))
    wanted = sa.union_all(*(sa.select(*(columns[name] for name in _COMPARED)) for columns in made))
    kept = sa.select(*(field_values.c[name] for name in _COMPARED)).where(field_values.c.field == field.id)
    ways = ((wanted.subquery(), kept.subquery()), (kept.subquery(), wanted.subquery()))
    lacking, stray = (
        connection.execute(
            sa.select(sa.func.count()).select_from(sa.except_(sa.select(one), sa.select(other)).subquery())
        ).scalar_one()
        for one, other in ways
    )
    return int(lacking), int(stray)
