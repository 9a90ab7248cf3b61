"""Which document each passage belongs to, and passages in an order that their texts alone decide."""

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.number_lists import number_lists
from nearsay.indexer.catalogue.tables import documents, passages

__all__ = ["by_text", "document_ids", "documents_of", "whole_documents"]

_ROWS = 10_000  # fetched at a time
_SOME = 500  # values in one IN (…)


def documents_of(connection: sa.Connection, collection_id: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each passage's document; of one that was removed meanwhile a number of its own, below 0.

    ids: (n,) rising. 16 bytes a passage of the collection are held.
    """
    columns = (passages.c.number, passages.c.document)
    statement = sa.select(*columns).where(passages.c.collection_id == collection_id)
    numbers, owners = number_lists(connection, statement)
    if not numbers.size:
        return -ids
    order = np.argsort(numbers)
    numbers, owners = numbers[order], owners[order]
    at = np.minimum(np.searchsorted(numbers, ids), numbers.size - 1)
    return np.where(numbers[at] == ids, owners[at], -ids)


def whole_documents(
    connection: sa.Connection, collection_id: int, owners: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of some passages are of a document all of whose passages they are; owners: (n,) of each."""
    count = sa.func.count().label("held")
    statement = sa.select(passages.c.document, count).where(passages.c.collection_id == collection_id)
    numbers, held = number_lists(connection, statement.group_by(passages.c.document))
    there, row, found = np.unique(owners, return_inverse=True, return_counts=True)
    if not numbers.size:
        return np.zeros(owners.size, dtype=np.bool_)
    order = np.argsort(numbers)
    at = order[np.minimum(np.searchsorted(numbers, there, sorter=order), numbers.size - 1)]
    whole: NDArray[np.bool_] = ((numbers[at] == there) & (held[at] == found))[row]
    return whole


def document_ids(connection: sa.Connection, collection_id: int, numbers: NDArray[np.int64]) -> dict[int, str]:
    """The id of the document of each of the passages that are there."""
    same = (documents.c.collection_id == passages.c.collection_id) & (
        documents.c.number == passages.c.document
    )
    statement = sa.select(passages.c.number, documents.c.id).join(documents, same)
    statement = statement.where(passages.c.collection_id == collection_id)
    found: dict[int, str] = {}
    for begin in range(0, numbers.size, _SOME):
        some = passages.c.number.in_(numbers[begin : begin + _SOME].tolist())
        found |= {row[0]: row[1] for row in connection.execute(statement.where(some))}
    return found


def by_text(connection: sa.Connection, collection_id: int) -> Iterator[int]:
    """The numbers of all passages by the hashes of their texts: an order that knows nothing of the adding."""
    statement = (
        sa.select(passages.c.number)
        .where(passages.c.collection_id == collection_id)
        .order_by(passages.c.text_hash, passages.c.number)
    )
    yield from connection.execute(statement.execution_options(yield_per=_ROWS)).scalars()
