"""Declaring metadata fields, so that filters and counts over them stay quick in a large collection."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import collections, field_values, tables
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.field_values import DeclaredField, declared, value_rows
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.tables import field_values as value_table
from nearsay.indexer.filters.expression import Path
from nearsay.indexer.filters.parse import parse_field
from nearsay.indexer.filters.sql import metadata_path

__all__ = ["DeclareReport", "check_fields", "declare_fields", "declared_names", "forget_fields"]


@dataclass(frozen=True, slots=True)
class DeclareReport:
    """What declaring fields did."""

    declared: tuple[str, ...]  # anew
    already: tuple[str, ...]  # were declared before; nothing was done
    documents: int  # whose values were entered
    values: int  # that were entered; elements of lists count
    seconds: float
    notes: tuple[str, ...]  # fields that no document has


def declare_fields(store: Store, row: CollectionRow, names: Iterable[str]) -> DeclareReport:
    """Declare metadata fields, a transaction each; the caller holds the writer lock.

    So other collections' writers wait for no more than one field. What stops it leaves the fields declared
    that were done. BadInputError for the document's own columns, which need no declaring.
    """
    wanted = _wanted(names)
    begin = time.perf_counter()
    with store.database.reading() as connection:
        known = {field.path for field in field_values.declared(connection, row.id)}
    fresh = [path for path in wanted if path not in known]
    entered: dict[Path, int] = {}
    documents = 0
    for path in fresh:
        with store.database.writing() as connection:
            field = field_values.declare(connection, row.id, path, now())
            count = sa.select(sa.func.count()).where(value_table.c.field == field.id)
            entered[path] = connection.execute(count).scalar_one()
            documents, _ = collections.size(connection, row.id)
            collections.changed(connection, row.id)
    return DeclareReport(
        declared=tuple(shown(path) for path in fresh),
        already=tuple(shown(path) for path in wanted if path in known),
        documents=documents,
        values=sum(entered.values()),
        seconds=round(time.perf_counter() - begin, 3),
        notes=tuple(f"no document has a field '{shown(path)}' yet" for path in fresh if not entered[path]),
    )


def forget_fields(store: Store, row: CollectionRow, names: Iterable[str]) -> tuple[str, ...]:
    """Take declared fields back, a transaction each; their names. Filters over them work on, more slowly.

    BadInputError if one was not declared; then none is taken back. The caller holds the writer lock.
    """
    wanted = _wanted(names)
    with store.database.reading() as connection:
        known = {field.path: field for field in field_values.declared(connection, row.id)}
        strange = [shown(path) for path in wanted if path not in known]
        if strange:
            there = ", ".join(shown(path) for path in known) or "none"
            raise BadInputError(
                f"'{strange[0]}' is not a declared field of '{row.name}'; declared are: {there}. "
                f"See them: nearsay documents fields {row.name}"
            )
    for path in wanted:
        with store.database.writing() as connection:
            field_values.forget(connection, [known[path]])
            collections.changed(connection, row.id)
    return tuple(shown(path) for path in wanted)


def declared_names(store: Store, row: CollectionRow) -> tuple[str, ...]:
    """The collection's declared fields, as a filter writes them."""
    with store.database.reading() as connection:
        return tuple(shown(field.path) for field in field_values.declared(connection, row.id))


def shown(path: Path) -> str:
    """A field as a filter writes it."""
    return f"`{path[0]}`" if len(path) == 1 and "." in path[0] else ".".join(path)


def _wanted(names: Iterable[str]) -> list[Path]:
    if isinstance(names, str):
        raise BadInputError(f"'{names}' is one name, not a list of names. Put it in a list: ['{names}']")
    wanted: dict[Path, None] = {}
    for name in names:
        path = metadata_path(parse_field(name))
        if path is None:
            raise BadInputError(
                f"'{name}' is a document's own, not a field of its metadata. Only those can be declared"
            )
        wanted[path] = None
    return list(wanted)


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
    name = collections.name_of(connection, collection_id)
    said = "; ".join(f"values of '{field}': {fault}" for field, fault in faults.items())
    anew = " ".join(f"--forget '{field}' --declare '{field}'" for field in faults)
    return f"{said}. Enter them anew: nearsay documents fields {name} {anew}"


def _differences(connection: sa.Connection, collection_id: int, field: DeclaredField) -> tuple[int, int]:
    """How many values the documents have that are not kept, and how many are kept that they have not."""
    of_collection = tables.documents.c.collection_id == collection_id
    made = (rows.subquery().c for rows in value_rows(field.path, connection.dialect.name, of_collection))
    wanted = sa.union_all(*(sa.select(*(columns[name] for name in _COMPARED)) for columns in made))
    kept = sa.select(*(tables.field_values.c[name] for name in _COMPARED)).where(
        tables.field_values.c.field == field.id
    )
    ways = ((wanted.subquery(), kept.subquery()), (kept.subquery(), wanted.subquery()))
    lacking, stray = (
        connection.execute(
            sa.select(sa.func.count()).select_from(sa.except_(sa.select(one), sa.select(other)).subquery())
        ).scalar_one()
        for one, other in ways
    )
    return int(lacking), int(stray)
