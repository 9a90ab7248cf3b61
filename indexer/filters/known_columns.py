"""The columns that filters were asked about, read from the catalogue once and brought up with it.

SQL is the truth: a column is read in a transaction that sees the collection in the same state, first for all
documents, then for those that were added or changed since. A compaction makes all be read again. Of a large
collection another thread reads it, and searches ask SQL until it has.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue.json_values import metadata_json
from nearsay.indexer.catalogue.number_lists import number_list, number_lists
from nearsay.indexer.catalogue.tables import (
    changed_documents,
    collections,
    documents,
    passages,
    removed_passages,
)
from nearsay.indexer.filters.cluster_rows import passages_in_clusters
from nearsay.indexer.filters.columns import Column, empty, widened
from nearsay.indexer.filters.declared import metadata_path
from nearsay.indexer.filters.expression import And, Expression, InClusters, Leaf, Not, Or, Path, gathered
from nearsay.indexer.filters.known_selections import CollectionState, state_of

__all__ = ["columnar", "passages_passing"]

_BYTES = 2 * 2**30  # of columns that are kept for a catalogue
_ROWS = 2_000  # documents whose values are read at a time
_LISTED = 5_000_000  # passages that are read at a time
_SOME = 500  # values in one IN (…)
_NONE = np.zeros(0, dtype=np.int64)


def columnar(expression: Expression) -> bool:
    """Whether columns tell what a filter lets through: it asks of metadata and clusters alone."""
    return all(metadata_path(leaf.field) is not None for leaf in _leaves(expression))


def passages_passing(
    connection: sa.Connection, expression: Expression, state: CollectionState, *, wait: bool
) -> NDArray[np.bool_] | None:
    """Which passages a columnar filter lets through, by passage number, as the transaction sees them.

    wait: whether columns are read here that nobody asked for before, which takes seconds for a million
          documents; else None, and another thread reads them

    None, too, where a later state is known already than the transaction sees.
    """
    asked = (leaf.field for leaf in _leaves(expression) if not isinstance(leaf, InClusters))
    wanted = {path for each in asked if (path := metadata_path(each)) is not None}
    columns = _of(connection).at(connection, state, wanted, wait=wait)
    return None if columns is None else columns.passing(connection, expression)


def _leaves(expression: Expression) -> Iterator[Leaf]:
    if isinstance(expression, Not):
        yield from _leaves(expression.operand)
    elif isinstance(expression, And | Or):
        for part in expression.operands:
            yield from _leaves(part)
    else:
        yield expression


@dataclass(frozen=True)
class _Columns:
    """A collection's columns in one state."""

    state: CollectionState
    owners: NDArray[np.int32]  # by passage number: its document; 0: there is none
    by_path: dict[Path, Column]
    last_document: int  # the last document number that was read; it may be removed since
    last_removal: int  # the last removal of a passage that was read
    last_change: int  # the last change of a document that was read

    @property
    def nbytes(self) -> int:
        return self.owners.nbytes + sum(column.nbytes for column in self.by_path.values())

    def passing(self, connection: sa.Connection, expression: Expression) -> NDArray[np.bool_]:
        """By passage number; documents are asked where that is enough."""
        if any(isinstance(leaf, InClusters) for leaf in _leaves(expression)):
            passed = self._of(expression, lambda leaf: self._by_passage(connection, leaf)) & (self.owners > 0)
        else:
            by_document = self._of(expression, self._by_document)
            by_document = np.array(np.broadcast_to(by_document, (self.last_document + 1,)))
            by_document[0] = False  # whose the passages are that are not there
            passed = np.take(by_document, self.owners)
        passed.flags.writeable = False
        return passed

    def _of(self, part: Expression | Leaf, leaf: Callable[[Leaf], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        if isinstance(part, Not):
            return ~self._of(part.operand, leaf)
        if isinstance(part, And | Or):
            join = np.logical_and if isinstance(part, And) else np.logical_or
            held = [self._of(each, leaf) for each in gathered(part)]
            return reduce(join, held, np.array(isinstance(part, And)))
        return leaf(part)

    def _by_document(self, leaf: Leaf) -> NDArray[np.bool_]:
        return self.by_path[metadata_path(leaf.field) or ()].documents(leaf)

    def _by_passage(self, connection: sa.Connection, leaf: Leaf) -> NDArray[np.bool_]:
        """In a cluster is a passage, not its document."""
        if not isinstance(leaf, InClusters):
            return np.take(self._by_document(leaf), self.owners)
        passed = np.zeros(self.owners.size, dtype=np.bool_)
        if leaf.numbers != ():
            inside = number_list(connection, passages_in_clusters(leaf, connection.dialect.name))
            passed[inside[inside < passed.size]] = True
        return passed


@dataclass(slots=True)
class _KnownColumns:
    """The columns of the collections that were filtered; safe to share between threads."""

    _kept: dict[int, _Columns] = field(default_factory=dict)
    _read_by: dict[int, threading.Lock] = field(default_factory=dict)  # held while a collection is read
    _readers: dict[int, threading.Thread] = field(default_factory=dict)  # that nobody waits for
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(
        self, connection: sa.Connection, state: CollectionState, paths: set[Path], *, wait: bool
    ) -> _Columns | None:
        """A collection's columns in the state that the transaction sees; None if a later one is known.

        Without `wait` None, too, while some of the columns are not read: a thread is at it.
        """
        key = state.collection_id
        last = self._kept.get(key)
        if last is not None and last.state == state and paths <= last.by_path.keys():
            return last
        held = last.by_path.keys() if last and last.state.compactions == state.compactions else set()
        if not wait and not paths <= held:
            self._read_meanwhile(connection.engine, key, paths)
            return None
        with self._lock:
            reading = self._read_by.setdefault(key, threading.Lock())
        if not reading.acquire(blocking=wait or not paths):
            return None
        try:
            last = self._kept.get(key)
            if last is not None and last.state.version > state.version:
                return None
            if last is None or last.state.compactions != state.compactions:
                last = _Columns(state, np.zeros(1, dtype=np.int32), {}, 0, 0, 0)
            found = _brought_up(connection, state, last)
            for path in sorted(paths - found.by_path.keys()):
                column = empty()
                windows = _since(connection, key, path, column, found.last_document, _NONE)
                column = widened(column, windows, found.last_document)
                found = replace(found, by_path=found.by_path | {path: column})
            self._keep(found, paths, set(connection.execute(sa.select(collections.c.id)).scalars()))
            return found
        finally:
            reading.release()

    def _read_meanwhile(self, engine: sa.Engine, key: int, paths: set[Path]) -> None:
        with self._lock:
            if key in self._readers and self._readers[key].is_alive():
                return
            self._readers[key] = threading.Thread(
                target=self._read, args=(engine, key, paths), name="nearsay-columns", daemon=True
            )
            self._readers[key].start()

    def _read(self, engine: sa.Engine, key: int, paths: set[Path]) -> None:
        # What is wrong with the catalogue, or that the collection is gone, the next search says.
        suppressed = contextlib.suppress(sa.exc.SQLAlchemyError, NearsayError)
        with suppressed, engine.connect() as connection, connection.begin():
            self.at(connection, state_of(connection, key), paths, wait=True)

    def _keep(self, found: _Columns, paths: set[Path], there: set[int]) -> None:
        """What was just asked stays; the rest as long as there is room."""
        room = _BYTES - found.nbytes
        if room < 0:
            found = replace(found, by_path={path: found.by_path[path] for path in paths})
            room = max(0, _BYTES - found.nbytes)
        with self._lock:
            gone = self._kept.keys() - there
            kept = {key: each for key, each in self._kept.items() if key not in gone}
            for key in gone:
                self._read_by.pop(key, None)
                self._readers.pop(key, None)
            kept.pop(found.state.collection_id, None)
            while kept and sum(each.nbytes for each in kept.values()) > room:
                kept.pop(next(iter(kept)))
            self._kept = kept | {found.state.collection_id: found}


_KNOWN: "weakref.WeakKeyDictionary[sa.Engine, _KnownColumns]" = weakref.WeakKeyDictionary()
_KNOWN_LOCK = threading.Lock()


def _of(connection: sa.Connection) -> _KnownColumns:
    with _KNOWN_LOCK:
        return _KNOWN.setdefault(connection.engine, _KnownColumns())


def _brought_up(connection: sa.Connection, state: CollectionState, before: _Columns) -> _Columns:
    """What was added and changed since."""
    if before.state == state and before.owners.size > 1:
        return before
    key = state.collection_id
    owners, last_removal = _owners(connection, key, before)
    news = sa.select(changed_documents.c.document, changed_documents.c.sequence).where(
        changed_documents.c.collection_id == key, changed_documents.c.sequence > before.last_change
    )
    changes, sequences = number_lists(connection, news)
    changed = np.unique(changes)
    last_document = max(before.last_document, _last(connection, documents, key))
    columns = {
        path: widened(column, _since(connection, key, path, column, last_document, changed), last_document)
        for path, column in before.by_path.items()
    }
    last_change = int(sequences.max(initial=before.last_change))
    return _Columns(state, owners, columns, last_document, last_removal, last_change)


def _owners(connection: sa.Connection, key: int, before: _Columns) -> tuple[NDArray[np.int32], int]:
    """Whose each passage is, and the last removal."""
    begin, end = before.owners.size, _last(connection, passages, key) + 1
    owners = np.zeros(max(begin, end), dtype=np.int32)
    owners[:begin] = before.owners
    there = sa.select(passages.c.document, passages.c.number).where(passages.c.collection_id == key)
    for at in range(begin, end, _LISTED):
        owned, numbers = number_lists(
            connection, there.where(passages.c.number.between(at, at + _LISTED - 1))
        )
        owners[numbers] = owned
    removals = sa.select(removed_passages.c.passage, removed_passages.c.sequence).where(
        removed_passages.c.collection_id == key, removed_passages.c.sequence > before.last_removal
    )
    removed, sequences = number_lists(connection, removals)
    owners[removed[removed < owners.size]] = 0
    return owners, int(sequences.max(initial=before.last_removal))


def _last(connection: sa.Connection, table: sa.Table, key: int) -> int:
    last = sa.select(sa.func.max(table.c.number)).where(table.c.collection_id == key)
    return int(connection.execute(last).scalar_one() or 0)


def _since(
    connection: sa.Connection, key: int, path: Path, column: Column, through: int, changed: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Sequence[str]]]:
    """Windows of documents that the column does not hold yet, up to `through`, and of changed ones."""
    number = documents.c.number
    for begin in range(column.codes.size, through + 1, _ROWS):
        yield _values(connection, key, path, number.between(begin, begin + _ROWS - 1))
    for some in np.split(changed, range(_SOME, changed.size, _SOME)):
        yield _values(connection, key, path, number.in_(some.tolist()))


def _values(
    connection: sa.Connection, key: int, path: Path, chosen: sa.ColumnElement[bool]
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Document numbers and their values as JSON, by one row: a row each would hold up other threads.

    A line a value: JSON writes line breaks otherwise. They may take a gigabyte.
    """
    value = sa.func.coalesce(metadata_json(path, connection.dialect.name), "")
    rows = sa.select(documents.c.number, value.label("value")).where(documents.c.collection_id == key, chosen)
    each = rows.subquery().c
    listed = sa.func.aggregate_strings(sa.cast(each.number, sa.Text), ",")
    numbers, values = connection.execute(sa.select(listed, sa.func.aggregate_strings(each.value, "\n"))).one()
    if not numbers:
        return _NONE, ()
    return np.array(numbers.split(","), dtype=np.int64), values.split("\n")
