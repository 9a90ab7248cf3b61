"""The value of one field in each document, as it is counted by time."""

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.field_values import ValueKind, value_rows
from nearsay.indexer.catalogue.number_lists import number_list
from nearsay.indexer.catalogue.tables import documents

__all__ = ["added_moments", "added_since", "document_values"]

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
            yield number, int(value) if value == int(value) else float(value)
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
