"""Evaluate a filter and exclusions: by columns, by index look-ups, or by checking candidates.

Columns are used for filters on metadata and clusters. For filters on ids, titles, texts or sources, and until
a large collection's columns are loaded, SQL is used: a few passages found by an index are listed; if many
match, candidates are checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.bulk import count_of, number_list, one_of
from nearsay.indexer.catalogue.database import is_writing
from nearsay.indexer.catalogue.passages import same_document
from nearsay.indexer.catalogue.tables import documents, passages
from nearsay.indexer.filters.expression import (
    Among,
    And,
    Compare,
    Expression,
    InClusters,
    Kind,
    Leaf,
    Not,
    Operator,
    Or,
    Within,
    gathered,
)
from nearsay.indexer.filters.known import (
    CollectionState,
    Known,
    columnar,
    counts,
    documents_passing,
    known_of,
    passages_passing,
    state_of,
)
from nearsay.indexer.filters.parse import Where, expression_of
from nearsay.indexer.filters.sql import Condition, among, condition, documents_in_clusters, metadata_path
from nearsay.indexer.snapshots.snapshot import Passages, Snapshot
from nearsay.indexer.vectors.vector_store import places_in

_MOST_LOOKED_AT = 32  # comparisons to count before one is chosen


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A superset of the documents that match a filter."""

    documents: tuple[sa.Select[tuple[int]], ...]  # their numbers, from indexes; a union
    count: int  # upper bound of their number
    rest: Expression | None  # a condition still to be checked; None: all match

    def numbers(self) -> sa.Select[tuple[int]] | sa.CompoundSelect[tuple[int]]:
        """The document numbers as one statement."""
        return self.documents[0] if len(self.documents) == 1 else sa.union_all(*self.documents)


def narrowest(
    connection: sa.Connection, collection_id: int, expression: Expression, limit: int
) -> Narrowed | None:
    """The smallest superset of a filter's documents; None if all exceed the limit.

    From indexes on ids, sources and clusters, and loaded columns of metadata. At most `limit` entries of an
    index are counted, so that unselective comparisons cost no more than selective ones.
    """
    return _Search(connection, collection_id, limit).of(expression)


@dataclass(slots=True)
class _Search:
    connection: sa.Connection
    collection_id: int
    limit: int
    left: int = _MOST_LOOKED_AT

    def of(self, part: Expression | Among | Within) -> Narrowed | None:
        if isinstance(part, Not):
            return None
        if isinstance(part, And):
            return self._any_of(gathered(part))
        if isinstance(part, Or):
            return self._all_of(part)
        return self._leaf(part)

    def _any_of(self, parts: Sequence[Expression | Among | Within]) -> Narrowed | None:
        found = {at: narrowed for at, part in enumerate(parts) if (narrowed := self.of(part)) is not None}
        if not found:
            return None
        best = min(found, key=lambda at: found[at].count)
        others = [_as_written(part) for at, part in enumerate(parts) if at != best]
        rest = found[best].rest
        left = others if rest is None else [*others, rest]
        return replace(found[best], rest=And(tuple(left)) if left else None)

    def _all_of(self, expression: Or) -> Narrowed | None:
        found: list[Narrowed] = []
        for part in gathered(expression):
            narrowed = self.of(part)
            if narrowed is None:
                return None
            found.append(narrowed)
        count = sum(narrowed.count for narrowed in found)
        if not found or count > self.limit:
            return None
        rest = expression if any(narrowed.rest is not None for narrowed in found) else None
        return Narrowed(tuple(each for narrowed in found for each in narrowed.documents), count, rest)

    def _leaf(self, leaf: Leaf) -> Narrowed | None:
        if not self.left:
            return None
        if isinstance(leaf, InClusters):
            some_only = leaf.numbers is not None
            statement = documents_in_clusters(leaf, self.collection_id) if some_only else None
        else:
            statement = self._by_name(leaf) if metadata_path(leaf.field) is None else self._by_column(leaf)
        if statement is None:
            return None
        self.left -= 1
        some = statement.limit(self.limit + 1).subquery()
        count = count_of(self.connection, some)
        if count > self.limit:
            return None
        # A document may have passages in several clusters, so each passage is still checked.
        return Narrowed((statement,), count, _as_written(leaf) if isinstance(leaf, InClusters) else None)

    def _by_column(self, leaf: Leaf) -> sa.Select[tuple[int]] | None:
        """By a loaded metadata column; not while writing, as it would include uncommitted changes."""
        if is_writing(self.connection):
            return None
        found = documents_passing(self.connection, state_of(self.connection, self.collection_id), leaf)
        if found is None or found.size > min(self.limit, _NARROW):
            return None
        of_collection = documents.c.collection_id == self.collection_id
        among = one_of(documents.c.number, found.tolist())
        return sa.select(documents.c.number).where(of_collection, among)

    def _by_name(self, leaf: Leaf) -> sa.Select[tuple[int]] | None:
        """By the catalogue's indexes on the document's id and source."""
        if leaf.field not in (("id",), ("source",)):
            return None
        column = documents.c[leaf.field[0]]
        found = sa.select(documents.c.number).where(documents.c.collection_id == self.collection_id)
        if isinstance(leaf, Among) and leaf.kind is Kind.TEXT:
            return found.where(among(leaf.values, leaf.kind, self.connection.dialect.name).holds(column))
        if isinstance(leaf, Compare) and leaf.operator is Operator.EQUAL and isinstance(leaf.value, str):
            return found.where(column == leaf.value)
        return None


def _as_written(part: Expression | Among | Within) -> Expression:
    if isinstance(part, Among):
        return Or(tuple(Compare(part.field, Operator.EQUAL, value) for value in part.values))
    return And(part.bounds) if isinstance(part, Within) else part


_NARROW = 20_000  # documents to look up one by one


def passing_documents(
    connection: sa.Connection, collection_id: int, expression: Expression | None
) -> Condition:
    """The condition that selects a collection's matching documents, starting from indexes."""
    of_collection = documents.c.collection_id == collection_id
    if expression is None:
        return of_collection
    dialect = connection.dialect.name
    narrowed = narrowest(connection, collection_id, expression, _NARROW)
    if narrowed is None:
        return sa.and_(of_collection, condition(expression, dialect))
    inside = narrowed.numbers().subquery()
    (number,) = inside.c
    among = sa.and_(of_collection, documents.c.number.in_(sa.select(number)))
    if narrowed.rest is None:
        return among
    return sa.and_(among, condition(narrowed.rest, dialect))


def documents_where(connection: sa.Connection, collection_id: int, where: Where | None) -> Condition:
    """The condition that selects a filter's documents; a document is in a cluster if a passage of it is.

    Raises BadFilterError for an invalid filter.
    """
    return passing_documents(connection, collection_id, expression_of(connection, collection_id, where))


def count_documents(
    connection: sa.Connection, collection_id: int, expression: Expression | None, up_to: int | None = None
) -> int:
    """Count the documents that match a filter, up to `up_to`.

    A complete count is cached until the collection changes.
    """
    known, key = known_of(connection, counts), (state_of(connection, collection_id), repr(expression))
    found: int | None = known.get(key)
    if found is None:
        passing = passing_documents(connection, collection_id, expression)
        some = sa.select(documents.c.number).where(passing).limit(up_to).subquery()
        found = count_of(connection, some)
        if up_to is None or found < up_to:
            known.put(key, found)
    return found if up_to is None else min(found, up_to)


LISTED = 20_000  # passages to list and score one by one
_READ_AT_ONCE = 50_000  # passages whose documents are read while a search waits, in at most half a second
_BYTES = 64 * 2**20  # of a catalogue's cached selections
_FILTERS = 1000

Key = tuple[CollectionState, str]  # and the filter's repr, which distinguishes true from 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The passages that match a filter and exclusions, as far as evaluated."""

    without: frozenset[int]  # excluded passage numbers
    expression: Expression | None = None
    key: Key | None = None  # of the filter alone, in the cache
    # Over passages joined to their documents; None without a filter, or if it is evaluated.
    condition: Condition | None = None
    numbers: NDArray[np.int64] | None = None  # ascending, if few match
    chosen: NDArray[np.bool_] | None = None  # by passage number, if many match and columns were used

    @property
    def everything(self) -> bool:
        """Whether there are neither a filter nor exclusions."""
        return self.expression is None and not self.without

    @property
    def allowed(self) -> Passages | None:
        """The matching passages: ascending numbers, or flags by number; None if not evaluated."""
        return self.chosen if self.numbers is None else self.numbers


def select(
    connection: sa.Connection, snapshot: Snapshot, where: Where | None, without: frozenset[int]
) -> Selection:
    """Evaluate a filter in the transaction's state, using the cache."""
    collection_id = snapshot.collection.id
    expression = expression_of(connection, collection_id, where)
    if expression is None:
        return Selection(without)
    key = state_of(connection, collection_id), repr(expression)
    is_known, found = _remembered(connection, key)
    if found is None and columnar(expression):
        wait = snapshot.searchable <= _READ_AT_ONCE
        found = passages_passing(connection, expression, key[0], wait=wait)
        if found is not None:
            found = np.flatnonzero(found) if np.count_nonzero(found) <= LISTED else found
            _remember(connection, key, found)
    if found is None and not is_known:
        found = _few(connection, snapshot, expression)
        _remember(connection, key, found)
    selection = Selection(without, expression, key)
    if found is None:
        checked = condition(expression, connection.dialect.name, passages.c.number)
        return replace(selection, condition=checked)
    if by_number(found):
        return replace(selection, chosen=_without_flags(found, without))
    return replace(selection, numbers=_without_numbers(found.astype(np.int64, copy=False), without))


def passing(
    connection: sa.Connection, snapshot: Snapshot, ids: NDArray[np.int64], selection: Selection
) -> NDArray[np.bool_]:
    """Whether each of the passages (n,) is selected in the transaction's state; (n,) bool."""
    passed = np.ones(ids.size, dtype=np.bool_)
    if selection.without:
        passed &= ~np.isin(ids, np.fromiter(selection.without, dtype=np.int64))
    if selection.expression is None or not ids.size:
        return passed
    if selection.numbers is not None:
        return passed & (places_in(selection.numbers, ids) >= 0)
    if selection.chosen is not None:
        there = ids < selection.chosen.size
        there[there] = selection.chosen[ids[there]]
        return passed & there
    statement = _passages_of(connection, snapshot.collection.id, selection.expression)
    found = number_list(connection, statement.where(one_of(passages.c.number, ids[passed].tolist())))
    return passed & (places_in(np.sort(found), ids) >= 0)


def list_all(connection: sa.Connection, snapshot: Snapshot, selection: Selection) -> NDArray[np.int64]:
    """All selected passages, ascending; cached if it may take a while."""
    if selection.expression is None or selection.key is None:
        everything = snapshot.vectors.ids
        return everything if not selection.without else _without_numbers(everything, selection.without)
    if selection.numbers is not None:
        return selection.numbers
    if selection.chosen is not None:
        return np.flatnonzero(selection.chosen)
    _, numbers = _remembered(connection, selection.key)
    if numbers is None:
        collection_id = snapshot.collection.id
        narrowed = narrowest(connection, collection_id, selection.expression, snapshot.searchable)
        statement = _passages_of(connection, collection_id, selection.expression, narrowed)
        numbers = np.sort(number_list(connection, statement))
        _remember(connection, selection.key, numbers)
    return _without_numbers(numbers.astype(np.int64, copy=False), selection.without)


def by_number(found: Passages) -> TypeGuard[NDArray[np.bool_]]:
    """Whether these are flags by passage number rather than numbers."""
    return found.dtype == np.bool_


def known_selections() -> Known:
    """A cache of selections: few passages as ascending numbers, many as a bit for each passage."""
    return Known(_FILTERS, _BYTES)


def _remembered(connection: sa.Connection, key: Key) -> tuple[bool, Passages | None]:
    """Whether a filter is cached, and its numbers or flags, or None for too many to list."""
    found = known_of(connection, known_selections).get(key)
    if found is None:
        return False, None
    kept, size = found
    bits = kept is not None and kept.dtype == np.uint8
    return True, np.unpackbits(kept, count=size).view(np.bool_) if bits else kept


def _remember(connection: sa.Connection, key: Key, found: Passages | None) -> None:
    """Cache a result, unless it would take half of the cache; it must not be modified."""
    kept = np.packbits(found) if found is not None and by_number(found) else found
    nbytes = 0 if kept is None else kept.nbytes
    if 2 * nbytes <= _BYTES:
        known_of(connection, known_selections).put(key, (kept, 0 if found is None else found.size), nbytes)


def _few(connection: sa.Connection, snapshot: Snapshot, expression: Expression) -> NDArray[np.int64] | None:
    narrowed = narrowest(connection, snapshot.collection.id, expression, LISTED)
    if narrowed is None and snapshot.searchable > LISTED:
        return None
    statement = _passages_of(connection, snapshot.collection.id, expression, narrowed)
    numbers = np.sort(number_list(connection, statement.limit(LISTED + 1)))
    return numbers if numbers.size <= LISTED else None


def _passages_of(
    connection: sa.Connection,
    collection_id: int,
    expression: Expression,
    narrowed: Narrowed | None = None,
) -> sa.Select[tuple[int]]:
    """The numbers of a filter's passages, without joining documents if possible."""
    dialect = connection.dialect.name
    statement = sa.select(passages.c.number).where(passages.c.collection_id == collection_id)
    rest: Expression | None = expression
    if narrowed is not None:
        statement, rest = statement.where(passages.c.document.in_(narrowed.numbers())), narrowed.rest
    if rest is None:
        return statement
    joined = statement.join(documents, same_document())
    return joined.where(condition(rest, dialect, passages.c.number))


def _without_flags(chosen: NDArray[np.bool_], without: frozenset[int]) -> NDArray[np.bool_]:
    if not without:
        return chosen
    left = chosen.copy()
    left[[number for number in without if number < left.size]] = False
    return left


def _without_numbers(numbers: NDArray[np.int64], without: frozenset[int]) -> NDArray[np.int64]:
    if not without:
        return numbers
    return numbers[~np.isin(numbers, np.fromiter(without, dtype=np.int64))]
