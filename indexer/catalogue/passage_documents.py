"""Which document each passage belongs to, and passages in an order that their texts alone decide."""

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.tables import passages
from nearsay.indexer.filters.number_lists import number_lists

__all__ = ["by_text", "documents_of"]

_ROWS = 10_000  # fetched at a time


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


def by_text(connection: sa.Connection, collection_id: int) -> Iterator[int]:
    """The numbers of all passages by the hashes of their texts: an order that knows nothing of the adding."""
    statement = (
        sa.select(passages.c.number)
        .where(passages.c.collection_id == collection_id)
        .order_by(passages.c.text_hash, passages.c.number)
    )
    yield from connection.execute(statement.execution_options(yield_per=_ROWS)).scalars()
