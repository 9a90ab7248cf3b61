"""Integrity checks of the catalogue: its file, the types of its values, and the hashes of texts.

A flipped bit in a SQLite file goes unnoticed by SQLite as long as the file's structure stays valid. Values
without a hash or a copy in an index (a time, a cosine, a name) can only be checked for being readable.
PostgreSQL has its own checksums (initdb --data-checksums); there only hashes are compared.
"""

import itertools
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.document import Document
from nearsay.indexer.catalogue.bulk import highest
from nearsay.indexer.catalogue.passages import encoded_text, prepare, same_document, text_hash
from nearsay.indexer.catalogue.tables import (
    collections,
    documents,
    embedded_ranges,
    generations,
    metadata,
    passages,
    removed_passages,
)

_ROWS = 1_000  # fetched at a time
# In what SQLite says from 3.44 on of a table of words, which can be recreated: `check_words` looks at these.
_OF_WORDS = "FTS5 table"
_STEPS = 10_000  # of SQLite's virtual machine between two looks at the clock
_KINDS: dict[type[sa.types.TypeEngine[Any]], tuple[str, ...]] = {
    sa.JSON: ("text",),
    sa.Integer: ("integer",),
    sa.Double: ("real", "integer"),
    sa.Numeric: ("real", "integer"),
    sa.LargeBinary: ("blob",),
    sa.Boolean: ("integer",),
    sa.String: ("text",),
}


def file_fault(connection: sa.Connection, *, full: bool, seconds: float | None = None) -> str | None:
    """What is wrong with the database file and its values; None if nothing is. PostgreSQL: always None.

    full:    also compare every index with its table, and check the type of every value and all foreign keys
    seconds: stop after this time as if nothing were wrong
    """
    if connection.dialect.name != "sqlite":
        return None
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - what SQLAlchemy's SQLite is made of
    if seconds is not None:
        until = time.monotonic() + seconds
        driver.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        statement = "PRAGMA integrity_check" if full else "PRAGMA quick_check"
        for said in connection.exec_driver_sql(statement).scalars():
            if said != "ok" and _OF_WORDS not in said:
                return str(said).splitlines()[-1]
        if not full:
            return None
        for table, _, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            return f"a row of {table} belongs to one of {parent} that is not there"
        return next(_wrong_values(connection), None)
    except sa.exc.OperationalError as error:
        if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    finally:
        driver.set_progress_handler(None, 0)


def wrong_numbers(connection: sa.Connection, collection_id: int) -> str | None:
    """A number of the collection that is used twice or hides passages; None if there is none."""
    row = connection.execute(
        sa.select(
            collections.c.next_document, collections.c.next_passage, collections.c.next_generation
        ).where(collections.c.id == collection_id)
    ).one()
    for table, following in (
        (documents, row.next_document),
        (passages, row.next_passage),
        (generations, row.next_generation),
    ):
        if highest(connection, table.c.number, table.c.collection_id == collection_id) >= following:
            return f"the next of the {table.name} would be number {following}, which was given already"
    marks = sa.select(generations.c.number, generations.c.embedded_through.label("through")).where(
        generations.c.collection_id == collection_id
    )
    ends = sa.select(embedded_ranges.c.generation, embedded_ranges.c.last_passage).where(
        embedded_ranges.c.collection_id == collection_id
    )
    every = sa.union_all(marks, ends).subquery()
    for number, through in connection.execute(sa.select(every).where(every.c.through >= row.next_passage)):
        return f"generation {number} is embedded through passage {through}, which is not there yet"
    both = (passages.c.collection_id == collection_id, removed_passages.c.collection_id == collection_id)
    hidden = sa.select(passages.c.number).where(*both, passages.c.number == removed_passages.c.passage)
    for (number,) in connection.execute(hidden.limit(1)):
        return f"passage {number} is there and counts as removed, so that no search finds it"
    return None


def differing_texts(connection: sa.Connection, collection_id: int) -> Iterator[str]:
    """The ids of documents whose text does not match their hash or those of their passages."""
    yield from _differing_documents(connection, collection_id)
    statement = (
        sa.select(documents.c.id, documents.c.title, documents.c.text)
        .add_columns(passages.c.ordinal, passages.c.start, passages.c.end, passages.c.text_hash)
        .join(documents, same_document())
        .where(passages.c.collection_id == collection_id)
        .order_by(passages.c.document, passages.c.ordinal)
        .execution_options(yield_per=_ROWS)
    )
    for id_, of_it in itertools.groupby(connection.execute(statement), key=lambda row: row.id):
        for place, row in enumerate(of_it):
            text = encoded_text(row.title, row.text[row.start : row.end])
            if row.ordinal != place or text_hash(text) != row.text_hash:
                yield id_
                break


def _differing_documents(connection: sa.Connection, collection_id: int) -> Iterator[str]:
    columns = ("id", "title", "text", "metadata", "source", "content_hash", "row_hash")
    statement = sa.select(*(documents.c[name] for name in columns)).where(
        documents.c.collection_id == collection_id
    )
    whole = connection.dialect.name == "sqlite"  # PostgreSQL writes some numbers in another way
    for row in connection.execute(statement.execution_options(yield_per=_ROWS)):
        document = Document(row.text, row.id, row.title, row.metadata, row.source)
        made = prepare(document)
        if made.content_hash != row.content_hash or (whole and made.row_hash != row.row_hash):
            yield row.id


def _wrong_values(connection: sa.Connection) -> Iterator[str]:
    for table in metadata.tables.values():
        sound = [_sound(column) for column in table.c]
        counts = [sa.func.count().filter(~sa.func.coalesce(each, sa.false())) for each in sound]
        found: Sequence[int] = connection.execute(sa.select(*counts).select_from(table)).one()
        for column, count in zip(table.c, found, strict=True):
            if count:
                yield f"{count} values in {table.name}.{column.name} are not of its kind"


def _sound(column: sa.Column[object]) -> ColumnElement[bool]:
    kinds = next(kinds for kind, kinds in _KINDS.items() if isinstance(column.type, kind))
    sound: ColumnElement[bool] = sa.func.typeof(column).in_(kinds)
    if isinstance(column.type, sa.JSON):
        kind = sa.func.json_type(sa.type_coerce(column, sa.Text))
        valid = sa.func.json_valid(sa.type_coerce(column, sa.Text))
        kept = ("object",) if column is documents.c.metadata else ("object", "array")
        sound &= sa.case((valid == 1, kind.in_(kept)), else_=sa.false())
    if column.name.endswith("_at"):
        sound &= sa.func.datetime(column).is_not(None)
    return sa.or_(column.is_(sa.null()), sound) if column.nullable else sound
