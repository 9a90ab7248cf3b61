"""The near-duplicate gate of a collection, and the near-duplicates that it linked."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.bulk import insert_columns
from nearsay.indexer.catalogue.explored import leave_documents
from nearsay.indexer.catalogue.tables import documents, gates, near_duplicates, passages


class GateAction(StrEnum):
    """What happens to a near-duplicate."""

    REPORT = "report"  # it is told of
    SKIP = "skip"  # it is removed again
    LINK = "link"  # it is kept, and what it is a near-duplicate of is remembered


@dataclass(frozen=True, slots=True)
class GateRow:
    """A collection's check of new documents for near-duplicates."""

    action: GateAction
    threshold: float  # cosine
    checked_through: int  # all passages up to this number were checked


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """A document that is nearly the same as an earlier one."""

    id: str
    original: str  # id of the earlier document
    cosine: float  # mean of the cosines to the nearest passage of the other, both ways; 1: copies


def gate_of(connection: sa.Connection, collection_id: int) -> GateRow | None:
    """The collection's gate, or None."""
    columns = (gates.c.action, gates.c.threshold, gates.c.checked_through)
    row = connection.execute(sa.select(*columns).where(gates.c.collection_id == collection_id)).one_or_none()
    return None if row is None else GateRow(GateAction(row.action), row.threshold, row.checked_through)


def set_gate(connection: sa.Connection, collection_id: int, gate: GateRow) -> None:
    """Replace the collection's gate."""
    close_gate(connection, collection_id)
    connection.execute(gates.insert().values(collection_id=collection_id, **asdict(gate)))


def close_gate(connection: sa.Connection, collection_id: int) -> None:
    """Delete the collection's gate; existing links stay."""
    connection.execute(gates.delete().where(gates.c.collection_id == collection_id))


def passed(connection: sa.Connection, collection_id: int, through: int) -> None:
    """Record that all passages up to a number were checked."""
    of_it = gates.c.collection_id == collection_id
    connection.execute(gates.update().where(of_it).values(checked_through=through))


def link(
    connection: sa.Connection,
    collection_id: int,
    looked_at: Sequence[int],
    found: Sequence[tuple[int, int, float]],
    moment: str,
) -> None:
    """Save the near-duplicates found among documents, replacing what was known of these.

    looked_at: numbers of the checked documents; found: numbers of near-duplicate and original, and their
               cosine
    """
    leave_documents(connection, collection_id, list(looked_at))
    if found:
        of_found, originals, cosines = zip(*found, strict=True)
        columns: dict[str, Sequence[object]] = {
            "collection_id": [collection_id] * len(found),
            "document": of_found,
            "original": originals,
            "cosine": cosines,
            "created_at": [moment] * len(found),
        }
        insert_columns(connection, near_duplicates, columns)


def leave_newer(connection: sa.Connection, collection_id: int, through: int) -> None:
    """Delete the links from and to documents with a passage numbered above `through`."""
    newer = (passages.c.collection_id == collection_id) & (passages.c.number > through)
    numbers = connection.execute(sa.select(passages.c.document).where(newer).distinct()).scalars()
    leave_documents(connection, collection_id, list(numbers))


def linked_numbers(connection: sa.Connection, collection_id: int) -> NDArray[np.int64]:
    """The document numbers (m, 2) of near-duplicates and their originals."""
    columns = (near_duplicates.c.document, near_duplicates.c.original)
    statement = sa.select(*columns).where(near_duplicates.c.collection_id == collection_id)
    rows = connection.execute(statement.order_by(near_duplicates.c.document)).all()
    return np.array([tuple(row) for row in rows], dtype=np.int64).reshape(-1, 2)


def linked(connection: sa.Connection, collection_id: int) -> list[NearDuplicate]:
    """The linked near-duplicates in order of addition."""
    original = documents.alias("original")
    statement = (
        sa.select(documents.c.id, original.c.id, near_duplicates.c.cosine)
        .join(
            documents,
            (documents.c.collection_id == near_duplicates.c.collection_id)
            & (documents.c.number == near_duplicates.c.document),
        )
        .join(
            original,
            (original.c.collection_id == near_duplicates.c.collection_id)
            & (original.c.number == near_duplicates.c.original),
        )
        .where(near_duplicates.c.collection_id == collection_id)
        .order_by(near_duplicates.c.document)
    )
    return [NearDuplicate(*row) for row in connection.execute(statement)]
