"""From what a user writes to a SQL condition in one collection."""

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import passages
from nearsay.indexer.filters.clusters import of_clusters
from nearsay.indexer.filters.comparison import Condition
from nearsay.indexer.filters.expression import Expression
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.filters.sql import condition

__all__ = ["documents_where", "expression_of", "passages_where"]


def expression_of(connection: sa.Connection, collection_id: int, where: Where) -> Expression:
    """What a filter says in a collection; BadFilterError if it cannot be understood there."""
    return of_clusters(connection, collection_id, parse(where))


def documents_where(connection: sa.Connection, collection_id: int, where: Where | None) -> Condition | None:
    """For `SELECT … FROM documents`; in a cluster is a document of which a passage is. None without one."""
    if where is None:
        return None
    return condition(expression_of(connection, collection_id, where), connection.dialect.name)


def passages_where(connection: sa.Connection, collection_id: int, where: Where | None) -> Condition | None:
    """For `SELECT … FROM passages JOIN documents …`; what is asked of clusters is asked of the passage."""
    if where is None:
        return None
    expression = expression_of(connection, collection_id, where)
    return condition(expression, connection.dialect.name, passage=passages.c.number)
