"""Declared fields and the rows that hold their values, kept in the transactions that change the documents.

The rows are made from the documents' metadata inside the database, so what a declared field holds is what a
filter over the metadata would see.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue.bulk import number_list, one_of
from nearsay.indexer.catalogue.json_values import SqlValue, elements, metadata_value
from nearsay.indexer.catalogue.tables import declared_fields, documents, field_values

__all__ = [
    "LONGEST",
    "NEITHER_TEXT_NOR_NUMBER",
    "DeclaredField",
    "ValueKind",
    "added_moments",
    "added_since",
    "declare",
    "declared",
    "document_values",
    "enter",
    "enter_anew",
    "forget",
    "leave",
    "value_rows",
]


LONGEST = 500  # characters of a text that are kept: PostgreSQL's indexes take no more than 2,700 bytes


class ValueKind(StrEnum):
    """What a value is."""

    TEXT = "text"
    NUMBER = "number"
    TRUE = "true"
    FALSE = "false"
    OTHER = "other"  # a list or an object


# Said as the index over the kinds says it, so that the index serves.
NEITHER_TEXT_NOR_NUMBER = sa.text("field_values.kind IN ('true', 'false', 'other')")


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """A metadata field that has its values in a table of their own."""

    id: int
    path: tuple[str, ...]  # names, from the metadata inwards
    declared_at: str


def declared(connection: sa.Connection, collection_id: int) -> list[DeclaredField]:
    """The collection's declared fields, oldest first."""
    columns = (declared_fields.c.id, declared_fields.c.path, declared_fields.c.declared_at)
    chosen = declared_fields.c.collection_id == collection_id
    rows = connection.execute(sa.select(*columns).where(chosen).order_by(declared_fields.c.id))
    return [DeclaredField(key, tuple(json.loads(path)), moment) for key, path, moment in rows]


def declare(connection: sa.Connection, collection_id: int, path: Sequence[str], moment: str) -> DeclaredField:
    """Declare a field that is not declared yet, and enter every document's value."""
    kept = json.dumps(list(path), ensure_ascii=False)
    values = {"collection_id": collection_id, "path": kept, "declared_at": moment}
    statement = declared_fields.insert().values(values).returning(declared_fields.c.id)
    field = DeclaredField(connection.execute(statement).scalar_one(), tuple(path), moment)
    _fill(connection, collection_id, field, sa.true())
    if connection.dialect.name == "postgresql":  # its planner goes by statistics
        connection.execute(sa.text("ANALYZE field_values"))
    return field


def forget(connection: sa.Connection, fields: Sequence[DeclaredField]) -> None:
    """Take declared fields back, with their values."""
    for field in fields:
        connection.execute(field_values.delete().where(field_values.c.field == field.id))
        connection.execute(declared_fields.delete().where(declared_fields.c.id == field.id))


def enter(connection: sa.Connection, collection_id: int, first: int, last: int) -> None:
    """Enter the values of new documents, numbered from `first` to `last`."""
    for field in declared(connection, collection_id):
        _fill(connection, collection_id, field, documents.c.number.between(first, last))


def enter_anew(connection: sa.Connection, collection_id: int, numbers: Sequence[int]) -> None:
    """Enter the values of documents that were changed."""
    if not numbers:
        return
    fields = declared(connection, collection_id)
    _leave(connection, fields, numbers)
    for field in fields:
        _fill(connection, collection_id, field, one_of(documents.c.number, numbers))


def leave(connection: sa.Connection, collection_id: int, numbers: Sequence[int]) -> None:
    """Remove the values of documents that are removed."""
    _leave(connection, declared(connection, collection_id), numbers)


def _leave(connection: sa.Connection, fields: Sequence[DeclaredField], numbers: Sequence[int]) -> None:
    of_them = one_of(field_values.c.document, numbers)
    for field in fields:
        connection.execute(field_values.delete().where(field_values.c.field == field.id, of_them))


def value_rows(
    path: Sequence[str], dialect: str, chosen: ColumnElement[bool]
) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """What a metadata field holds in the chosen documents: the values, and the different elements of lists.

    Both give the columns document, place, element, kind, text and number.
    """
    whole = metadata_value(path, dialect)
    itself = sa.select(
        documents.c.number.label("document"),
        sa.literal(0).label("place"),
        sa.false().label("element"),
        *_columns(whole),
    ).where(chosen, whole.is_there)
    source, element, place = elements(path, dialect)
    each = (
        sa.select(documents.c.number.label("document"), place.label("at"), *_columns(element))
        .select_from(documents)
        .join(source, sa.true())
        .where(chosen, whole.is_list, element.is_there)
        .subquery()
    )
    different = (each.c.kind, each.c.text, each.c.number)
    first = sa.func.min(each.c.at) + 1
    listed = (
        sa.select(each.c.document, first.label("place"), sa.true().label("element"), *different)
        .where(each.c.kind != ValueKind.OTHER)
        .group_by(each.c.document, *different)
    )
    return itself, listed


def _fill(
    connection: sa.Connection, collection_id: int, field: DeclaredField, chosen: ColumnElement[bool]
) -> None:
    of_collection = sa.and_(documents.c.collection_id == collection_id, chosen)
    for rows in value_rows(field.path, connection.dialect.name, of_collection):
        found = rows.subquery()
        values = sa.select(sa.literal(field.id), *found.c)
        connection.execute(field_values.insert().from_select(["field", *found.c.keys()], values))


def _columns(value: SqlValue) -> tuple[ColumnElement[Any], ...]:
    kind = sa.case(
        (value.is_text, ValueKind.TEXT.value),
        (value.is_number, ValueKind.NUMBER.value),
        (value.is_true, ValueKind.TRUE.value),
        (value.is_false, ValueKind.FALSE.value),
        else_=ValueKind.OTHER.value,
    )
    beginning = sa.func.substr(value.text, 1, LONGEST)
    return (
        kind.label("kind"),
        sa.case((value.is_text, beginning), else_=sa.null()).label("text"),
        sa.case((value.is_number, value.number), else_=sa.null()).label("number"),
    )


_ROWS = 10_000  # fetched at a time


def document_values(
    connection: sa.Connection, collection_id: int, path: tuple[str, ...]
) -> Iterator[tuple[int, object]]:
    """The number of each document that has the metadata field, and its value.

    A number is an int or a float, text of digits alone too; a list, an object, true and false are None.
    """
    wanted = documents.c.collection_id == collection_id
    itself, _ = value_rows(path, connection.dialect.name, wanted)
    found = itself.subquery()
    statement = sa.select(found.c.document, found.c.kind, found.c.text, found.c.number)
    for number, kind, text, value in connection.execute(statement.execution_options(yield_per=_ROWS)):
        if text is not None:
            yield number, text
        elif kind == ValueKind.NUMBER:
            whole = float(value).is_integer()  # SQLite has no larger ones than 1.8e308
            yield number, int(value) if whole else float(value)
        else:
            yield number, None


def added_since(connection: sa.Connection, collection_id: int, since: str) -> NDArray[np.int64]:
    """The numbers of the documents that were added at a moment, as the catalogue writes it, or later."""
    chosen = (documents.c.collection_id == collection_id) & (documents.c.added_at >= since)
    return number_list(connection, sa.select(documents.c.number).where(chosen))


def added_moments(connection: sa.Connection, collection_id: int) -> Iterator[tuple[int, str]]:
    """Each document's number and when it was added, ISO 8601 in UTC."""
    columns = (documents.c.number, documents.c.added_at)
    statement = sa.select(*columns).where(documents.c.collection_id == collection_id)
    rows = connection.execute(statement.execution_options(yield_per=_ROWS))
    yield from ((row[0], row[1]) for row in rows)
