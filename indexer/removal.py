"""Removing documents from a collection."""

from collections.abc import Sequence

from nearsay.indexer.catalogue import collections, documents
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.tables import documents as document_table
from nearsay.indexer.errors import UnknownDocumentError
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.filters.where import documents_where
from nearsay.indexer.store import Store

__all__ = ["remove_documents"]

_SOME = 500  # values in one IN (…)


def remove_documents(store: Store, collection: CollectionRow, ids: Sequence[str], where: Where | None) -> int:
    """Remove documents by id, and those that a filter lets through, in one transaction; how many.

    UnknownDocumentError if an id is not there; then nothing is removed. The caller holds the writer lock.
    """
    with store.database.writing() as connection:
        chosen = documents_where(connection, collection.id, where)
        missing = sorted(set(ids) - set(documents.known(connection, collection.id, ids)))
        if missing:
            raise UnknownDocumentError(
                f"collection '{collection.name}' has no document '{missing[0]}'"
                + (f" (nor {len(missing) - 1} more of those named)" if missing[1:] else "")
                + f". See which there are: nearsay index list {collection.name}"
            )
        removed = 0
        for begin in range(0, len(ids), _SOME):
            some = document_table.c.id.in_(ids[begin : begin + _SOME])
            removed += documents.remove(connection, collection.id, some)
        if chosen is not None:
            removed += documents.remove(connection, collection.id, chosen)
        if removed:
            collections.changed(connection, collection.id)
    return removed
