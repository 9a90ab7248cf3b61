"""Passages in the catalogue, as the encoder and the searches need them."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue.bulk import number_list, number_lists, one_of
from nearsay.indexer.catalogue.passage import PassageWindow, encoded_text
from nearsay.indexer.catalogue.tables import documents, passages

__all__ = [
    "PassageRow",
    "awaiting",
    "by_text",
    "document_ids",
    "documents_of",
    "encoded_texts",
    "passage_numbers",
    "passage_numbers_of",
    "piece",
    "read_passages",
    "same_document",
    "whole_documents",
]


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
    statement = sa.select(passages.c.number, documents.c.id).join(documents, same_document())
    statement = statement.where(passages.c.collection_id == collection_id)
    rows = connection.execute(statement.where(one_of(passages.c.number, numbers.tolist())))
    return {row[0]: row[1] for row in rows}


def by_text(connection: sa.Connection, collection_id: int) -> Iterator[int]:
    """The numbers of all passages by the hashes of their texts: an order that knows nothing of the adding."""
    statement = (
        sa.select(passages.c.number)
        .where(passages.c.collection_id == collection_id)
        .order_by(passages.c.text_hash, passages.c.number)
    )
    yield from connection.execute(statement.execution_options(yield_per=_ROWS)).scalars()


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage with its document, as a search fetches it."""

    number: int
    document_id: str
    title: str
    text: str
    metadata: Mapping[str, JsonValue]
    source: str | None
    ordinal: int
    start: int
    end: int


def awaiting(
    connection: sa.Connection, collection_id: int, after: int, limit: int, through: int | None = None
) -> PassageWindow:
    """The next passages numbered above `after` (and at most `through`), with the texts to encode."""
    statement = (
        sa.select(passages.c.number, documents.c.title, piece())
        .join(documents, same_document())
        .where(passages.c.collection_id == collection_id, passages.c.number > after)
        .order_by(passages.c.number)
        .limit(limit)
    )
    if through is not None:
        statement = statement.where(passages.c.number <= through)
    rows = connection.execute(statement).all()
    return PassageWindow([row[0] for row in rows], [encoded_text(row[1], row[2]) for row in rows])


def encoded_texts(connection: sa.Connection, collection_id: int, numbers: Sequence[int]) -> dict[int, str]:
    """What was encoded for each of the passages that are there."""
    statement = (
        sa.select(passages.c.number, documents.c.title, piece())
        .join(documents, same_document())
        .where(passages.c.collection_id == collection_id)
        .where(one_of(passages.c.number, numbers))
    )
    return {row[0]: encoded_text(row[1], row[2]) for row in connection.execute(statement)}


def passage_numbers(
    connection: sa.Connection,
    collection_id: int,
    *,
    after: int = 0,
    through: int | None = None,
) -> NDArray[np.int64]:
    """The numbers (n,) of the passages above `after` and up to `through`, rising."""
    statement = sa.select(passages.c.number).where(
        passages.c.collection_id == collection_id, passages.c.number > after
    )
    if through is not None:
        statement = statement.where(passages.c.number <= through)
    return np.sort(number_list(connection, statement))


def passage_numbers_of(connection: sa.Connection, collection_id: int, id_: str) -> list[int] | None:
    """The numbers of one document's passages, in the order of its text; None if there is no such document."""
    where = (documents.c.collection_id == collection_id) & (documents.c.id == id_)
    number = connection.execute(sa.select(documents.c.number).where(where)).scalar_one_or_none()
    if number is None:
        return None
    # An index has the numbers of a document's passages: asked for their order with them, SQLite would read
    # every passage of the collection.
    inside = passages.alias("inside")
    of_it = (inside.c.collection_id == collection_id) & (inside.c.document == number)
    numbers = passages.c.number.in_(sa.select(inside.c.number).where(of_it))
    statement = sa.select(passages.c.number).where(passages.c.collection_id == collection_id, numbers)
    return list(connection.execute(statement.order_by(passages.c.ordinal)).scalars())


def read_passages(
    connection: sa.Connection,
    collection_id: int,
    numbers: Sequence[int],
    condition: ColumnElement[bool] | None = None,
    *,
    longest: int | None = None,
) -> dict[int, PassageRow]:
    """Those of the passages that are there and whose document the condition holds for.

    longest: characters of each passage's text that are read; None = all
    """
    statement = _rows(cut=longest is not None)
    if condition is not None:
        statement = statement.where(condition)
    values: dict[str, Any] = {"collection": collection_id, "numbers": list(numbers)}
    if longest is not None:
        values["longest"] = longest
    return {row[0]: PassageRow(*row) for row in connection.execute(statement, values)}


@functools.cache
def _rows(*, cut: bool) -> sa.Select[Any]:
    """The statement of `read_passages`: putting it together takes longer than running it."""
    text = sa.func.substr(piece(), 1, sa.bindparam("longest", type_=sa.Integer())) if cut else piece()
    columns = (
        passages.c.number,
        documents.c.id,
        documents.c.title,
        text,
        documents.c.metadata,
        documents.c.source,
        passages.c.ordinal,
        passages.c.start,
        passages.c.end,
    )
    return (
        sa.select(*columns)
        .join(documents, same_document())
        .where(passages.c.collection_id == sa.bindparam("collection"))
        .where(one_of(passages.c.number, "numbers"))
    )


def piece() -> ColumnElement[str]:
    """A passage's text, out of its document's."""
    return sa.func.substr(documents.c.text, passages.c.start + 1, passages.c.end - passages.c.start)


def same_document() -> ColumnElement[bool]:
    """The condition that joins a passage to its document."""
    return sa.and_(
        documents.c.collection_id == passages.c.collection_id, documents.c.number == passages.c.document
    )
