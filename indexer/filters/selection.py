"""Which passages a filter and exclusions let through, worked out as far as it is cheap."""

from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue import field_values
from nearsay.indexer.catalogue.passages import same_document
from nearsay.indexer.catalogue.tables import documents, passages
from nearsay.indexer.filters.declared import Declared, covered
from nearsay.indexer.filters.expression import Expression
from nearsay.indexer.filters.known_selections import Key, known_selections, version_of
from nearsay.indexer.filters.narrowing import Narrowed, narrowest
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.filters.sql import condition
from nearsay.indexer.snapshot import Snapshot

__all__ = ["LISTED", "Selection", "declared_of", "list_all", "passing", "select"]

LISTED = 20_000  # passages: so few are listed and scored one by one


@dataclass(frozen=True, slots=True)
class Selection:
    """What a filter and exclusions let through, as far as it was worked out."""

    condition: ColumnElement[bool] | None  # over the documents table; None: no filter
    without: frozenset[int]  # passage numbers that are not to be found
    numbers: NDArray[np.int64] | None  # rising, when few pass; None: many pass, candidates are checked in SQL
    expression: Expression | None = None  # what the condition was made of
    declared: Declared = field(default_factory=dict)  # the collection's declared fields
    key: Key | None = None  # of the filter alone, among those that are known

    @property
    def everything(self) -> bool:
        """Whether nothing is kept out."""
        return self.condition is None and not self.without


def select(
    connection: sa.Connection, snapshot: Snapshot, where: Where | None, without: frozenset[int], dialect: str
) -> Selection:
    """What the filter lets through, in the state that the transaction sees; a known filter costs nothing.

    The passages are listed where indexes over declared fields leave few, or where the collection is small;
    else `numbers` is None.
    """
    if where is None:
        return Selection(None, without, None)
    expression = parse(where)
    collection_id = snapshot.collection.id
    key = Key(collection_id, version_of(connection, collection_id), repr(expression))
    declared = declared_of(connection, collection_id)
    known = known_selections(connection)
    is_known, numbers = known.get(key)
    if not is_known:
        numbers = _few(connection, snapshot, expression, declared)
        known.put(key, numbers)
    chosen = condition(expression, dialect, declared)
    return Selection(chosen, without, _without(numbers, without), expression, declared, key)


def passing(
    connection: sa.Connection, snapshot: Snapshot, ids: NDArray[np.int64], selection: Selection
) -> NDArray[np.bool_]:
    """Which of the passages (n,) the selection lets through, as the transaction sees them; (n,) bool."""
    passed = np.ones(ids.size, dtype=np.bool_)
    if selection.without:
        passed &= ~np.isin(ids, np.fromiter(selection.without, dtype=np.int64))
    if selection.expression is None or not ids.size:
        return passed
    if selection.numbers is not None:
        return passed & np.isin(ids, selection.numbers)
    some = passages.c.number.in_(ids[passed].tolist())
    statement = _passages_of(connection, snapshot.collection.id, selection.expression, selection.declared)
    return passed & np.isin(ids, _numbers(connection, statement.where(some)))


def list_all(connection: sa.Connection, snapshot: Snapshot, selection: Selection) -> NDArray[np.int64]:
    """Every passage that the selection lets through, rising; remembered, since it may take a while."""
    if selection.expression is None or selection.key is None:
        everything = snapshot.vectors.ids
        return everything if not selection.without else _set_aside(everything, selection.without)
    known = known_selections(connection)
    _, numbers = known.get(selection.key)
    if numbers is None:
        collection_id, declared = snapshot.collection.id, selection.declared
        narrowed = narrowest(connection, collection_id, selection.expression, declared, snapshot.searchable)
        numbers = _numbers(
            connection, _passages_among(connection, snapshot, selection.expression, declared, narrowed)
        )
        known.put(selection.key, numbers)
    return _set_aside(numbers, selection.without)


def declared_of(connection: sa.Connection, collection_id: int) -> dict[tuple[str, ...], int]:
    """The collection's declared fields by their path inside the metadata."""
    return {row.path: row.id for row in field_values.declared(connection, collection_id)}


def _few(
    connection: sa.Connection, snapshot: Snapshot, expression: Expression, declared: Declared
) -> NDArray[np.int64] | None:
    narrowed = narrowest(connection, snapshot.collection.id, expression, declared, LISTED)
    if narrowed is None and snapshot.searchable > LISTED:
        return None
    statement = _passages_among(connection, snapshot, expression, declared, narrowed)
    numbers = _numbers(connection, statement.limit(LISTED + 1))
    return numbers if numbers.size <= LISTED else None


def _passages_among(
    connection: sa.Connection,
    snapshot: Snapshot,
    expression: Expression,
    declared: Declared,
    narrowed: Narrowed | None,
) -> sa.Select[tuple[int]]:
    if narrowed is None:
        return _passages_of(connection, snapshot.collection.id, expression, declared)
    statement = _passages_of(connection, snapshot.collection.id, narrowed.rest, declared)
    return statement.where(passages.c.document.in_(narrowed.numbers()))


def _passages_of(
    connection: sa.Connection, collection_id: int, expression: Expression | None, declared: Declared
) -> sa.Select[tuple[int]]:
    """The numbers of the passages that a filter lets through; the documents are left alone where possible."""
    dialect = connection.dialect.name
    statement = sa.select(passages.c.number).where(passages.c.collection_id == collection_id)
    if expression is None:
        return statement
    if covered(expression, dialect, declared):
        return statement.where(condition(expression, dialect, declared, passages.c.document))
    joined = statement.join(documents, same_document())
    return joined.where(condition(expression, dialect, declared))


def _numbers(connection: sa.Connection, statement: sa.Select[tuple[int]]) -> NDArray[np.int64]:
    rows = connection.execute(statement)
    cursor = rows.cursor  # the driver's own: SQLAlchemy's rows take three times as long
    listed = [] if cursor is None else cursor.fetchall()
    rows.close()
    return np.sort(np.fromiter(chain.from_iterable(listed), dtype=np.int64, count=len(listed)))


def _without(numbers: NDArray[np.int64] | None, without: frozenset[int]) -> NDArray[np.int64] | None:
    return None if numbers is None else _set_aside(numbers, without)


def _set_aside(numbers: NDArray[np.int64], without: frozenset[int]) -> NDArray[np.int64]:
    if not without:
        return numbers
    return numbers[~np.isin(numbers, np.fromiter(without, dtype=np.int64))]
