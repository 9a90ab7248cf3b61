"""Leaving behind what was explored, when that which it was explored in goes."""

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import (
    cluster_members,
    clusterings,
    clusters,
    gates,
    maps,
    near_duplicates,
    token_samples,
)

__all__ = ["leave_clustering", "leave_collection", "leave_documents", "leave_generation"]

_SOME = 500  # values in one IN (…)


def leave_clustering(connection: sa.Connection, clustering: int) -> None:
    """Forget one clustering."""
    for part in (cluster_members, clusters):
        connection.execute(part.delete().where(part.c.clustering == clustering))
    connection.execute(clusterings.delete().where(clusterings.c.id == clustering))


def leave_generation(connection: sa.Connection, collection_id: int, generation: int) -> None:
    """Forget a generation's clustering and map."""
    for table in (clusterings, maps):
        _leave(connection, table, collection_id, table.c.generation == generation)


def leave_collection(connection: sa.Connection, collection_id: int) -> None:
    """Forget a collection's clusterings, maps, gate, near-duplicates and samples of tokens."""
    for table in (clusterings, maps, gates, near_duplicates, token_samples):
        _leave(connection, table, collection_id, sa.true())


def leave_documents(connection: sa.Connection, collection_id: int, numbers: list[int]) -> None:
    """Forget of what documents are near-duplicates, and which are theirs, before they are removed."""
    for begin in range(0, len(numbers), _SOME):
        some = numbers[begin : begin + _SOME]
        for column in (near_duplicates.c.document, near_duplicates.c.original):
            # One at a time: SQLite would read all links of the collection for "either".
            _leave(connection, near_duplicates, collection_id, column.in_(some))


def _leave(
    connection: sa.Connection, table: sa.Table, collection_id: int, condition: sa.ColumnElement[bool]
) -> None:
    where = sa.and_(table.c.collection_id == collection_id, condition)
    if table is clusterings:
        gone = sa.select(clusterings.c.id).where(where)
        for part in (cluster_members, clusters):
            connection.execute(part.delete().where(part.c.clustering.in_(gone)))
    connection.execute(table.delete().where(where))
