"""Leaving behind what was explored, when that which it was explored in goes."""

import sqlalchemy as sa

from nearsay.indexer.catalogue.bulk import one_of
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


def leave_clustering(connection: sa.Connection, clustering: int) -> None:
    """Forget one clustering."""
    _leave(connection, clusterings, clusterings.c.id == clustering)


def leave_generation(connection: sa.Connection, collection_id: int, generation: int) -> None:
    """Forget a generation's clustering and map."""
    for table in (clusterings, maps):
        of_it = (table.c.collection_id == collection_id) & (table.c.generation == generation)
        _leave(connection, table, of_it)


def leave_collection(connection: sa.Connection, collection_id: int) -> None:
    """Forget a collection's clusterings, maps, gate, near-duplicates and samples of tokens."""
    for table in (clusterings, maps, gates, near_duplicates, token_samples):
        _leave(connection, table, table.c.collection_id == collection_id)


def leave_documents(connection: sa.Connection, collection_id: int, numbers: list[int]) -> None:
    """Forget of what documents are near-duplicates, and which are theirs, before they are removed."""
    for column in (near_duplicates.c.document, near_duplicates.c.original):
        # One at a time: SQLite would read all links of the collection for "either".
        of_them = (near_duplicates.c.collection_id == collection_id) & one_of(column, numbers)
        _leave(connection, near_duplicates, of_them)


def _leave(connection: sa.Connection, table: sa.Table, where: sa.ColumnElement[bool]) -> None:
    if table is clusterings:
        gone = sa.select(clusterings.c.id).where(where)
        for part in (cluster_members, clusters):
            connection.execute(part.delete().where(part.c.clustering.in_(gone)))
    connection.execute(table.delete().where(where))
