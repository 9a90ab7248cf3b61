"""Which documents are still what they were at a moment."""

from collections.abc import Sequence

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import documents

__all__ = ["untouched"]

_SOME = 500  # values in one IN (…)
_SECOND = 19  # characters of a moment up to its second: 2026-11-21T18:45:00


def untouched(connection: sa.Connection, collection_id: int, ids: Sequence[str], since: str) -> set[str]:
    """Those of the ids that are there and were neither added nor changed since a moment.

    since: ISO 8601 in UTC; what was written within the same second counts as changed
    """
    moment = since[:_SECOND]
    found: set[str] = set()
    for begin in range(0, len(ids), _SOME):
        statement = sa.select(documents.c.id).where(
            documents.c.collection_id == collection_id,
            documents.c.id.in_(ids[begin : begin + _SOME]),
            documents.c.updated_at < moment,
        )
        found.update(connection.execute(statement).scalars())
    return found
