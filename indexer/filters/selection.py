"""Which passages a filter and exclusions let through, and which documents are looked at for it.

Columns tell where a filter asks of metadata and clusters. Where it asks of ids, titles, texts or sources, and
until a large collection's columns are read, SQL does: few that an index finds are listed, candidates are
checked where many pass.
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

_MOST_LOOKED_AT = 32  # comparisons that are counted before one is taken


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Documents among which are all that a filter lets through."""

    documents: tuple[sa.Select[tuple[int]], ...]  # their numbers, from indexes; together
    count: int  # at most so many
    rest: Expression | None  # what they still have to pass; None: they are the ones

    def numbers(self) -> sa.Select[tuple[int]] | sa.CompoundSelect[tuple[int]]:
        """The numbers of the documents, as one statement."""
        return self.documents[0] if len(self.documents) == 1 else sa.union_all(*self.documents)


def narrowest(
    connection: sa.Connection, collection_id: int, expression: Expression, limit: int
) -> Narrowed | None:
    """The fewest documents to look at for a filter; None if they cannot be brought below the limit.

    By indexes over ids, sources and clusters, and by columns of the metadata that were read already. Only
    `limit` entries of an index are ever counted, so a comparison that lets half of everything through costs
    no more than one that lets few through.
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
        # A document may have passages in several clusters, so which of them is still to be asked.
        return Narrowed((statement,), count, _as_written(leaf) if isinstance(leaf, InClusters) else None)

    def _by_column(self, leaf: Leaf) -> sa.Select[tuple[int]] | None:
        """By a column of the metadata; not while writing: what is read then may never be committed."""
        if is_writing(self.connection):
            return None
        found = documents_passing(self.connection, state_of(self.connection, self.collection_id), leaf)
        if found is None or found.size > min(self.limit, _NARROW):
            return None
        of_collection = documents.c.collection_id == self.collection_id
        among = one_of(documents.c.number, found.tolist())
        return sa.select(documents.c.number).where(of_collection, among)

    def _by_name(self, leaf: Leaf) -> sa.Select[tuple[int]] | None:
        """By the document's id or source: the catalogue has indexes over them."""
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


_NARROW = 20_000  # documents: so few are looked up one by one


def passing_documents(
    connection: sa.Connection, collection_id: int, expression: Expression | None
) -> Condition:
    """The condition over the documents of a collection; it begins with those that indexes leave."""
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
    """The condition over the documents that a filter lets through; in a cluster is one of which a passage is.

    BadFilterError for a filter that means nothing.
    """
    return passing_documents(connection, collection_id, expression_of(connection, collection_id, where))


def count_documents(
    connection: sa.Connection, collection_id: int, expression: Expression | None, up_to: int | None = None
) -> int:
    """How many documents a filter lets through, counted no further than `up_to`.

    The whole count is remembered until something is committed.
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


LISTED = 20_000  # passages: so few are listed and scored one by one
_READ_AT_ONCE = 50_000  # passages: so few documents are read while a search waits, for half a second at most
_BYTES = 64 * 2**20  # of passage numbers that are kept for a catalogue
_FILTERS = 1000

Key = tuple[CollectionState, str]  # and the filter; its text tells true from 1, unlike the expression itself


@dataclass(frozen=True, slots=True)
class Selection:
    """What a filter and exclusions let through, as far as it was worked out."""

    without: frozenset[int]  # passage numbers that are not to be found
    expression: Expression | None = None
    key: Key | None = None  # of the filter alone, among those that are known
    # Over passages joined to their documents; None where there is no filter, or where it was worked out.
    condition: Condition | None = None
    numbers: NDArray[np.int64] | None = None  # rising, when few pass
    chosen: NDArray[np.bool_] | None = None  # by passage number, when many pass and columns tell which

    @property
    def everything(self) -> bool:
        """Whether nothing is kept out."""
        return self.expression is None and not self.without

    @property
    def allowed(self) -> Passages | None:
        """What may be found: rising numbers, or by passage number; None where it was not worked out."""
        return self.chosen if self.numbers is None else self.numbers


def select(
    connection: sa.Connection, snapshot: Snapshot, where: Where | None, without: frozenset[int]
) -> Selection:
    """What the filter lets through, in the state that the transaction sees; a known filter costs nothing."""
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
        return replace(selection, chosen=_left(found, without))
    return replace(selection, numbers=_set_aside(found.astype(np.int64, copy=False), without))


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
        return passed & (places_in(selection.numbers, ids) >= 0)
    if selection.chosen is not None:
        there = ids < selection.chosen.size
        there[there] = selection.chosen[ids[there]]
        return passed & there
    statement = _passages_of(connection, snapshot.collection.id, selection.expression)
    found = number_list(connection, statement.where(one_of(passages.c.number, ids[passed].tolist())))
    return passed & (places_in(np.sort(found), ids) >= 0)


def list_all(connection: sa.Connection, snapshot: Snapshot, selection: Selection) -> NDArray[np.int64]:
    """Every passage that the selection lets through, rising; remembered where it may take a while."""
    if selection.expression is None or selection.key is None:
        everything = snapshot.vectors.ids
        return everything if not selection.without else _set_aside(everything, selection.without)
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
    return _set_aside(numbers.astype(np.int64, copy=False), selection.without)


def by_number(found: Passages) -> TypeGuard[NDArray[np.bool_]]:
    """Whether it says of each passage number whether it passes, rather than which pass."""
    return found.dtype == np.bool_


def known_selections() -> Known:
    """What the latest filters let through: few as rising numbers, many as a bit for each passage."""
    return Known(_FILTERS, _BYTES)


def _remembered(connection: sa.Connection, key: Key) -> tuple[bool, Passages | None]:
    """Whether it is known, and what is known: numbers, which pass, or None for too many to list."""
    found = known_of(connection, known_selections).get(key)
    if found is None:
        return False, None
    kept, size = found
    bits = kept is not None and kept.dtype == np.uint8
    return True, np.unpackbits(kept, count=size).view(np.bool_) if bits else kept


def _remember(connection: sa.Connection, key: Key, found: Passages | None) -> None:
    """Keep what was worked out, unless it would drive out half of the others; it must not be changed."""
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
    """The numbers of the passages that a filter lets through; the documents are left alone where possible."""
    dialect = connection.dialect.name
    statement = sa.select(passages.c.number).where(passages.c.collection_id == collection_id)
    rest: Expression | None = expression
    if narrowed is not None:
        statement, rest = statement.where(passages.c.document.in_(narrowed.numbers())), narrowed.rest
    if rest is None:
        return statement
    joined = statement.join(documents, same_document())
    return joined.where(condition(rest, dialect, passages.c.number))


def _left(chosen: NDArray[np.bool_], without: frozenset[int]) -> NDArray[np.bool_]:
    if not without:
        return chosen
    left = chosen.copy()
    left[[number for number in without if number < left.size]] = False
    return left


def _set_aside(numbers: NDArray[np.int64], without: frozenset[int]) -> NDArray[np.int64]:
    if not without:
        return numbers
    return numbers[~np.isin(numbers, np.fromiter(without, dtype=np.int64))]
