"""The values of a metadata field, and the times of addition, per document."""

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.bulk import number_list
from nearsay.indexer.catalogue.json_values import metadata_value
from nearsay.indexer.catalogue.tables import documents

_ROWS = 10_000  # fetched at a time
_LONGEST = 500  # characters of a text: no date has more


def document_values(
    connection: sa.Connection, collection_id: int, path: tuple[str, ...]
) -> Iterator[tuple[int, object]]:
    """The number of each document with the metadata field, and its value.

    Numbers are int or float, and text is str; lists, objects and booleans are None.
    """
    value = metadata_value(path, connection.dialect.name)
    statement = sa.select(
        documents.c.number,
        sa.case((value.is_text, sa.func.substr(value.text, 1, _LONGEST)), else_=sa.null()),
        sa.case((value.is_number, value.number), else_=sa.null()),
    ).where(documents.c.collection_id == collection_id, value.is_there)
    for document, text, number in connection.execute(statement.execution_options(yield_per=_ROWS)):
        if text is not None or number is None:
            yield document, text
        else:
            whole = float(number).is_integer()  # SQLite has no larger ones than 1.8e308
            yield document, int(number) if whole else float(number)


def added_since(connection: sa.Connection, collection_id: int, since: str) -> NDArray[np.int64]:
    """The numbers of documents added at a moment (formatted as in the catalogue) or later."""
    chosen = (documents.c.collection_id == collection_id) & (documents.c.added_at >= since)
    return number_list(connection, sa.select(documents.c.number).where(chosen))


def added_moments(connection: sa.Connection, collection_id: int) -> Iterator[tuple[int, str]]:
    """Each document's number and the time of its addition, ISO 8601 in UTC."""
    columns = (documents.c.number, documents.c.added_at)
    statement = sa.select(*columns).where(documents.c.collection_id == collection_id)
    rows = connection.execute(statement.execution_options(yield_per=_ROWS))
    yield from ((row[0], row[1]) for row in rows)
