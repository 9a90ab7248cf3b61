"""Collections in the catalogue."""

import functools
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from nearsay.indexer.catalogue import columns, judgements, lexical_rows
from nearsay.indexer.catalogue.bulk import count_of
from nearsay.indexer.catalogue.explored import leave_collection
from nearsay.indexer.catalogue.tables import (
    changed_documents,
    collections,
    documents,
    embedded_ranges,
    generations,
    passages,
    plan_queries,
    refinements,
    removed_passages,
    segments,
)


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection in the catalogue at one moment."""

    id: int
    name: str
    chunking: str
    version: int
    compactions: int
    created_at: str


@dataclass(frozen=True, slots=True)
class WriterRow:
    """The last holder of a collection's writer lock."""

    host: str
    process: int
    work: str
    since: float  # seconds since the epoch, by its host's clock


def find(connection: sa.Connection, name: str) -> CollectionRow | None:
    """The collection of that name, or None."""
    row = connection.execute(_by_name(), {"wanted": name}).one_or_none()
    return None if row is None else CollectionRow(*row)


@functools.cache
def _by_name() -> sa.Select[Any]:
    """The statement of `find`, cached because every search runs it and composing it takes long."""
    columns = [collections.c[name] for name in CollectionRow.__slots__]
    return sa.select(*columns).where(collections.c.name == sa.bindparam("wanted"))


def name_of(connection: sa.Connection, collection_id: int) -> str:
    """The name of an existing collection."""
    statement = sa.select(collections.c.name).where(collections.c.id == collection_id)
    return str(connection.execute(statement).scalar_one())


def names(connection: sa.Connection) -> list[str]:
    """The names of all collections by code point, because PostgreSQL's own order depends on a language."""
    return sorted(connection.execute(sa.select(collections.c.name)).scalars())


def ids(connection: sa.Connection) -> list[int]:
    """The catalogue numbers of all collections."""
    return list(connection.execute(sa.select(collections.c.id)).scalars())


def create(connection: sa.Connection, name: str, chunking: str, created_at: str) -> CollectionRow:
    """Create an empty collection."""
    values = {
        "name": name,
        "chunking": chunking,
        "version": 1,
        "compactions": 0,
        "next_document": 1,
        "next_passage": 1,
        "created_at": created_at,
    }
    statement = collections.insert().values(values).returning(collections.c.id)
    key = connection.execute(statement).scalar_one()
    lexical_rows.create_table(connection, key)
    return CollectionRow(key, name, chunking, 1, 0, created_at)


def delete(connection: sa.Connection, collection_id: int) -> None:
    """Delete a collection with all its rows."""
    judgements.forget(connection, collection_id)
    lexical_rows.drop_table(connection, collection_id)
    columns.forget_columns(connection, collection_id)
    leave_collection(connection, collection_id)
    of_generations = plan_queries, refinements, segments, embedded_ranges
    for table in (*of_generations, generations, changed_documents, removed_passages, passages, documents):
        connection.execute(table.delete().where(table.c.collection_id == collection_id))
    connection.execute(collections.delete().where(collections.c.id == collection_id))


def changed(connection: sa.Connection, collection_id: int, *, compacted: bool = False) -> None:
    """Tell readers to read the collection again."""
    values: dict[str, object] = {"version": collections.c.version + 1}
    if compacted:
        values["compactions"] = collections.c.compactions + 1
    connection.execute(collections.update().where(collections.c.id == collection_id).values(values))


def take_fence(connection: sa.Connection, collection_id: int, writer: WriterRow) -> int | None:
    """Register a writer that took the lock. Returns its token, higher than all before, or None."""
    statement = (
        collections.update()
        .where(collections.c.id == collection_id)
        .values(fence=collections.c.fence + 1, writer=asdict(writer))
        .returning(collections.c.fence)
    )
    return connection.execute(statement).scalar_one_or_none()


def fence(connection: sa.Connection, collection_id: int) -> int | None:
    """The newest writer's token; None without a collection. It cannot change during a writing transaction.

    PostgreSQL locks the row until the transaction ends; in SQLite there is only one writing transaction.
    """
    statement = sa.select(collections.c.fence).where(collections.c.id == collection_id)
    return connection.execute(statement.with_for_update(key_share=True)).scalar_one_or_none()


def last_writer(connection: sa.Connection, collection_id: int) -> WriterRow | None:
    """The last holder of the writer lock, or None."""
    statement = sa.select(collections.c.writer).where(collections.c.id == collection_id)
    found = connection.execute(statement).scalar_one_or_none()
    return None if found is None else WriterRow(**found)


def take_numbers(
    connection: sa.Connection, collection_id: int, documents: int, passages: int
) -> tuple[int, int]:
    """Reserve numbers for new documents and passages. Returns the first of each. None is used twice."""
    statement = (
        collections.update()
        .where(collections.c.id == collection_id)
        .values(
            next_document=collections.c.next_document + documents,
            next_passage=collections.c.next_passage + passages,
        )
        .returning(collections.c.next_document, collections.c.next_passage)
    )
    row = connection.execute(statement).one()
    return row.next_document - documents, row.next_passage - passages


def size(connection: sa.Connection, collection_id: int) -> tuple[int, int]:
    """Number of documents and of passages."""
    of_it = (
        count_of(connection, each, each.c.collection_id == collection_id) for each in (documents, passages)
    )
    document_count, passage_count = of_it
    return document_count, passage_count
