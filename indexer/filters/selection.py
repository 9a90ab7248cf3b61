"""Which passages a filter and exclusions let through, worked out as far as it is cheap."""

from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue import field_values
from nearsay.indexer.catalogue.number_lists import number_list
from nearsay.indexer.catalogue.passages import same_document
from nearsay.indexer.catalogue.tables import documents, passages
from nearsay.indexer.filters.cluster_rows import passages_in_clusters
from nearsay.indexer.filters.declared import Declared, covered
from nearsay.indexer.filters.expression import And, Expression, InClusters
from nearsay.indexer.filters.intersection import intersection
from nearsay.indexer.filters.known_selections import CollectionState, Key, known_selections, state_of
from nearsay.indexer.filters.narrowing import Narrowed, narrowest
from nearsay.indexer.filters.numbering import numbering, rising
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.filters.sql import condition
from nearsay.indexer.filters.where import expression_of
from nearsay.indexer.snapshots.snapshot import Snapshot

__all__ = [
    "LISTED",
    "Selection",
    "declared_of",
    "list_again",
    "list_all",
    "listed_quickly",
    "passing",
    "select",
]

LISTED = 20_000  # passages: so few are listed and scored one by one
_WORTH_NUMBERING = 500  # documents: joining fewer to their passages in SQL costs nothing
_MOST_NUMBERED = 5_000_000  # passages: which document each belongs to is not kept in memory for more
_ASKED_AT_ONCE = 5_000  # passages: SQLite takes 32,766 parameters, PostgreSQL 65,535
_SHARE_WORTH_LISTING = 0.2  # of the passages: comparisons that let more through are not intersected


@dataclass(frozen=True, slots=True)
class Selection:
    """What a filter and exclusions let through, as far as it was worked out."""

    # Over passages joined to their documents; None where there is no filter, or where `numbers` say it all.
    condition: ColumnElement[bool] | None
    without: frozenset[int]  # passage numbers that are not to be found
    # Rising, when few pass, or those of clusters; None: many pass, candidates are checked in SQL.
    numbers: NDArray[np.int64] | None
    expression: Expression | None = None  # what the condition was made of
    declared: Declared = field(default_factory=dict)  # the collection's declared fields
    key: Key | None = None  # of the filter alone, among those that are known
    repeated: bool = False  # whether the filter was asked before in this state

    @property
    def everything(self) -> bool:
        """Whether nothing is kept out."""
        return self.expression is None and not self.without


def select(
    connection: sa.Connection, snapshot: Snapshot, where: Where | None, without: frozenset[int], dialect: str
) -> Selection:
    """What the filter lets through, in the state that the transaction sees; a known filter costs nothing.

    The passages are listed where indexes over declared fields leave few, or where the collection is small;
    else `numbers` is None.
    """
    if where is None:
        return Selection(None, without, None)
    collection_id = snapshot.collection.id
    expression = expression_of(connection, collection_id, where)
    key = Key(state_of(connection, collection_id), repr(expression))
    declared = declared_of(connection, collection_id)
    known = known_selections(connection)
    is_known, numbers = known.get(key)
    if not is_known:
        numbers = _few(connection, snapshot, expression, declared, key.state)
        known.put(key, numbers)
    # Putting it together takes as long as a small search, and what is listed was read in this very state.
    checked = (
        None if numbers is not None else condition(expression, dialect, declared, passage=passages.c.number)
    )
    return Selection(checked, without, _without(numbers, without), expression, declared, key, is_known)


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
        return passed & _among(ids, selection.numbers)
    wanted = np.sort(ids[passed])  # so that those of one slice stand together in the table
    statement = _passages_of(connection, snapshot.collection.id, selection.expression, selection.declared)
    found = [
        _numbers(connection, statement.where(passages.c.number.in_(some.tolist())))
        for some in np.split(wanted, range(_ASKED_AT_ONCE, wanted.size, _ASKED_AT_ONCE))
    ]
    return passed & _among(ids, np.concatenate(found))


def listed_quickly(snapshot: Snapshot, selection: Selection, dialect: str) -> bool:
    """Whether indexes alone tell everything that the selection lets through."""
    if selection.expression is None or snapshot.searchable > _MOST_NUMBERED:
        return False
    return covered(selection.expression, dialect, selection.declared)


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
        numbers = _by_document(connection, snapshot, declared, selection.key.state, narrowed)
        if numbers is None:
            statement = _passages_among(connection, snapshot, selection.expression, declared, narrowed)
            numbers = _numbers(connection, statement)
        known.put(selection.key, numbers)
    return _set_aside(numbers, selection.without)


def list_again(
    connection: sa.Connection, snapshot: Snapshot, selection: Selection
) -> NDArray[np.int64] | None:
    """Every passage that a filter lets through which is asked again; None where it is not worth it.

    It is where indexes alone tell, of no more than a fifth of the collection. That takes as long as drawing
    candidates twice, and then the filter costs next to nothing.
    """
    if selection.numbers is not None:
        return selection.numbers
    dialect = connection.dialect.name
    expression, key = selection.expression, selection.key
    if not selection.repeated or not listed_quickly(snapshot, selection, dialect):
        return None
    if expression is None or key is None:
        return None
    known = known_selections(connection)
    refused = Key(key.state, f"too many to list of {key.filter}")
    if known.get(refused)[0]:
        return None
    most = int(_SHARE_WORTH_LISTING * snapshot.searchable)
    narrowed = narrowest(connection, snapshot.collection.id, expression, selection.declared, most)
    if narrowed is None:
        known.put(refused, None)
        return None
    return list_all(connection, snapshot, selection)


def declared_of(connection: sa.Connection, collection_id: int) -> dict[tuple[str, ...], int]:
    """The collection's declared fields by their path inside the metadata."""
    return {row.path: row.id for row in field_values.declared(connection, collection_id)}


def _few(
    connection: sa.Connection,
    snapshot: Snapshot,
    expression: Expression,
    declared: Declared,
    state: CollectionState,
) -> NDArray[np.int64] | None:
    inside = _of_clusters(connection, snapshot, expression, declared)
    if inside is not None:
        return inside
    narrowed = narrowest(connection, snapshot.collection.id, expression, declared, LISTED)
    if narrowed is None and snapshot.searchable > LISTED:
        return _few_of_many(connection, snapshot, expression, declared, state)
    numbers = _by_document(connection, snapshot, declared, state, narrowed)
    if numbers is None:
        statement = _passages_among(connection, snapshot, expression, declared, narrowed)
        numbers = _numbers(connection, statement.limit(LISTED + 1))
    return numbers if numbers.size <= LISTED else None


def _of_clusters(
    connection: sa.Connection, snapshot: Snapshot, expression: Expression, declared: Declared
) -> NDArray[np.int64] | None:
    """The passages of clusters, however many, as an index lists them; under other conditions, of few.

    None where the filter does not ask for clusters. Removed passages may be among them.
    """
    parts = expression.operands if isinstance(expression, And) else (expression,)
    asked = next((part for part in parts if isinstance(part, InClusters) and part.numbers), None)
    if asked is None:
        return None
    inside = rising(number_list(connection, passages_in_clusters(asked, connection.dialect.name)))
    rest = tuple(part for part in parts if part is not asked)
    if not rest:
        return inside
    if inside.size > LISTED:
        return None
    others = Selection(sa.true(), frozenset(), None, And(rest), declared)
    return inside[passing(connection, snapshot, inside, others)]


def _few_of_many(
    connection: sa.Connection,
    snapshot: Snapshot,
    expression: Expression,
    declared: Declared,
    state: CollectionState,
) -> NDArray[np.int64] | None:
    if snapshot.searchable > _MOST_NUMBERED:
        return None
    most = int(_SHARE_WORTH_LISTING * snapshot.searchable)
    found = intersection(connection, expression, declared, state, most)
    known = None if found is None or found.size > LISTED else numbering(connection, state)
    if known is None or found is None:
        return None
    numbers = known.passages_of(found)
    return numbers if numbers.size <= LISTED else None


def _by_document(
    connection: sa.Connection,
    snapshot: Snapshot,
    declared: Declared,
    state: CollectionState,
    narrowed: Narrowed | None,
) -> NDArray[np.int64] | None:
    """The passages of the documents that declared values alone tell of; None where it does not pay."""
    few = narrowed is None or narrowed.count < _WORTH_NUMBERING
    if narrowed is None or few or snapshot.searchable > _MOST_NUMBERED:
        return None
    dialect = connection.dialect.name
    (document,) = narrowed.numbers().subquery().c
    statement = sa.select(document)
    if narrowed.rest is not None:
        if not covered(narrowed.rest, dialect, declared):
            return None
        statement = statement.where(condition(narrowed.rest, dialect, declared, document))
    known = numbering(connection, state)
    return None if known is None else known.passages_of(number_list(connection, statement))


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
    return joined.where(condition(expression, dialect, declared, passage=passages.c.number))


def _numbers(connection: sa.Connection, statement: sa.Select[tuple[int]]) -> NDArray[np.int64]:
    rows = connection.execute(statement)
    # The driver's own cursor, row by row: SQLAlchemy's rows take three times as long, and a list of thousands
    # of rows sets Python's collector going.
    listed = iter(()) if rows.cursor is None else iter(rows.cursor.fetchone, None)
    numbers = np.fromiter(chain.from_iterable(listed), dtype=np.int64)
    rows.close()
    return np.sort(numbers)


def _among(ids: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which ids are among rising numbers; numpy's isin would sort those anew."""
    if not numbers.size:
        return np.zeros(ids.size, dtype=np.bool_)
    found: NDArray[np.bool_] = numbers[np.minimum(np.searchsorted(numbers, ids), numbers.size - 1)] == ids
    return found


def _without(numbers: NDArray[np.int64] | None, without: frozenset[int]) -> NDArray[np.int64] | None:
    return None if numbers is None else _set_aside(numbers, without)


def _set_aside(numbers: NDArray[np.int64], without: frozenset[int]) -> NDArray[np.int64]:
    if not without:
        return numbers
    return numbers[~np.isin(numbers, np.fromiter(without, dtype=np.int64))]
