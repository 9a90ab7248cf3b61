"""Saved columns of metadata fields, so that other processes need not read them from the documents."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import columns


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A saved column; whatever was committed later has to be read in addition."""

    path: tuple[str, ...]  # names, outermost first; () = the documents of the passages
    compactions: int  # of the collection
    sequence: int  # the last change of a document or removal of a passage that it includes
    content: bytes


def kept_paths(connection: sa.Connection, collection_id: int, compactions: int) -> set[tuple[str, ...]]:
    """Fields with a saved column that can be updated; one from before a compaction cannot."""
    found = connection.execute(sa.select(columns.c.path).where(_of(collection_id, compactions)))
    return {tuple(json.loads(path)) for path in found.scalars()}


def kept_column(
    connection: sa.Connection, collection_id: int, compactions: int, path: Sequence[str]
) -> KeptColumn | None:
    """The saved column of a field; None without one, or if it cannot be updated."""
    wanted = sa.select(columns.c.sequence, columns.c.content).where(
        _of(collection_id, compactions), columns.c.path == _written(path)
    )
    row = connection.execute(wanted).one_or_none()
    return None if row is None else KeptColumn(tuple(path), compactions, row.sequence, bytes(row.content))


def keep_columns(
    connection: sa.Connection, collection_id: int, kept: Iterable[KeptColumn], moment: str
) -> None:
    """Save columns, replacing those of the same fields."""
    for column in kept:
        path = _written(column.path)
        of_it = (columns.c.collection_id == collection_id) & (columns.c.path == path)
        connection.execute(columns.delete().where(of_it))
        values = {
            "collection_id": collection_id,
            "path": path,
            "compactions": column.compactions,
            "sequence": column.sequence,
            "content": column.content,
            "created_at": moment,
        }
        connection.execute(columns.insert().values(values))


def forget_columns(connection: sa.Connection, collection_id: int) -> None:
    """Delete all saved columns of a collection."""
    connection.execute(columns.delete().where(columns.c.collection_id == collection_id))


def _of(collection_id: int, compactions: int) -> sa.ColumnElement[bool]:
    return (columns.c.collection_id == collection_id) & (columns.c.compactions == compactions)


def _written(path: Sequence[str]) -> str:
    return json.dumps(list(path), ensure_ascii=False)
