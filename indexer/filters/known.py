"""Columns of metadata fields used in filters, read from the catalogue once and updated afterwards.

The catalogue is authoritative: a column is read in a transaction that sees the collection in the same state,
first for all documents, then for added and changed ones. Columns that took a while to read are saved in the
catalogue for other processes; a compaction invalidates them. For a large collection another thread reads
columns, and large updates of them, and searches use SQL meanwhile; the process exits only after that thread.
Searches wait neither for it nor for the saving. Fields with too much text are left to SQL.
"""

import contextlib
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.data.threads import ThreadLock
from nearsay.indexer.catalogue.bulk import highest, number_list, number_lists, one_of
from nearsay.indexer.catalogue.columns import KeptColumn, keep_columns, kept_column, kept_paths
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.json_values import metadata_json
from nearsay.indexer.catalogue.store import now
from nearsay.indexer.catalogue.tables import (
    changed_documents,
    collections,
    documents,
    passages,
    removed_passages,
)
from nearsay.indexer.filters.column import Column, empty, packed, taken, unpacked, widened
from nearsay.indexer.filters.expression import (
    And,
    Expression,
    InClusters,
    Leaf,
    Not,
    Or,
    Path,
    gathered,
    leaves,
)
from nearsay.indexer.filters.sql import metadata_path, passages_in_clusters


class Known:
    """An LRU cache of results by query and state; thread-safe."""

    def __init__(self, most: int, most_bytes: int = sys.maxsize) -> None:
        """most, most_bytes: limits on entries and their total bytes; the latest entry always stays"""
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._lock = ThreadLock()

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - whatever was put
        """The cached result; None if there is none."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key, (None, 0))[0]

    def put(self, key: Hashable, found: object, nbytes: int = 0) -> None:
        """Cache a result, evicting the least recently used ones."""
        with self._lock:
            self._bytes += nbytes - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = found, nbytes
            while len(self._kept) > 1 and (len(self._kept) > self._most or self._bytes > self._most_bytes):
                self._bytes -= self._kept.popitem(last=False)[1][1]


_KNOWN: "weakref.WeakKeyDictionary[sa.Engine, dict[Callable[[], Any], Any]]" = weakref.WeakKeyDictionary()
_LOCK = ThreadLock()
T = TypeVar("T")


def known_of(connection: sa.Connection, make: Callable[[], T]) -> T:
    """A cached object of the connection's catalogue, created by `make` on first use."""
    with _LOCK:
        known = _KNOWN.setdefault(connection.engine, {})
        if make not in known:
            known[make] = make()
        found: T = known[make]
        return found


def counts() -> Known:
    """A cache of counts: with 10,000 values each, about 300 MB at most."""
    return Known(256)


@dataclass(frozen=True, slots=True)
class CollectionState:
    """A collection's state in a transaction; every committed change makes a new one."""

    collection_id: int
    version: int  # increases with every committed change
    compactions: int  # increases with every compaction


def state_of(connection: sa.Connection, collection_id: int) -> CollectionState:
    """The collection's state in this transaction."""
    columns = (collections.c.version, collections.c.compactions)
    found = connection.execute(sa.select(*columns).where(collections.c.id == collection_id)).one_or_none()
    return CollectionState(collection_id, *((0, 0) if found is None else found))


_BYTES = 2 * 2**30  # of a catalogue's cached columns
_MOST_CHARACTERS = 2**30  # of a column for searches
_READ_AT_ONCE = 50_000  # documents whose values are read while a search waits, in half a second
_OWNED_AT_ONCE = 20  # passages whose documents are read in the time of one of these values
_ROWS = 2_000  # documents whose values are read at a time
_LONG = 10_000  # characters; longer values are read one by one
_LISTED = 5_000_000  # passages that are read at a time
_NONE = np.zeros(0, dtype=np.int64)


def columnar(expression: Expression) -> bool:
    """Whether columns suffice for a filter: it uses only metadata and clusters."""
    return all(metadata_path(leaf.field) is not None for leaf in leaves(expression))


def passages_passing(
    connection: sa.Connection, expression: Expression, state: CollectionState, *, wait: bool
) -> NDArray[np.bool_] | None:
    """Whether each passage, by number, matches a columnar filter in this transaction.

    wait: read missing or stale columns here, which takes seconds for a million documents; otherwise return
          None and let another thread read them

    None, too, if the cached state is newer than the transaction's, and for a field with too much text.
    """
    columns = known_of(connection, _KnownColumns).at(connection, state, _fields_of(expression), wait=wait)
    return None if columns is None else columns.passing(connection, expression)


def column_of(
    connection: sa.Connection, state: CollectionState, path: Path, expression: Expression | None = None
) -> tuple[Column, NDArray[np.bool_]]:
    """A metadata field's column, and whether each document, by number, matches a columnar filter.

    Missing columns are read.
    """
    wanted = _fields_of(expression) | {path}
    columns = known_of(connection, _KnownColumns).at(connection, state, wanted, wait=True)
    if columns is None:  # the cached state is newer, or a column is too large to cache
        columns = _updated(connection, state, _initial(connection, state), _EVERYTHING)
        for each in wanted:
            columns = columns.with_column(connection, each, _EVERYTHING)
    return columns.by_path[path], columns.documents(connection, expression)


def documents_passing(
    connection: sa.Connection, state: CollectionState, leaf: Leaf
) -> NDArray[np.int64] | None:
    """The ascending numbers of the documents that match a comparison, including removed ones.

    None if the column is not loaded, stale, being read by another thread, or newer than the transaction.
    """
    path = None if isinstance(leaf, InClusters) else metadata_path(leaf.field)
    if path is None or path not in ready_fields(connection, state):
        return None
    columns = known_of(connection, _KnownColumns).at(connection, state, {path}, wait=False)
    return None if columns is None else np.flatnonzero(columns.by_path[path].documents(leaf))


def ready_fields(connection: sa.Connection, state: CollectionState) -> set[Path]:
    """The metadata fields whose columns are cached, here or in the catalogue."""
    return known_of(connection, _KnownColumns).ready(connection, state)


def _fields_of(expression: Expression | None) -> set[Path]:
    parts = () if expression is None else leaves(expression)
    fields = (leaf.field for leaf in parts if not isinstance(leaf, InClusters))
    return {path for each in fields if (path := metadata_path(each)) is not None}


_OWNERS: Path = ()  # under which the passages' documents are saved
_WORTH_KEEPING = 50_000  # documents or passages, whose reading takes a tenth of a second
_MOST_KEPT = 2**28  # bytes: databases limit the size of a value
_PATIENCE = 1.0  # seconds to wait for a writer; otherwise the next reader saves the column


class _Most(NamedTuple):
    documents: int  # of a new column, or of all cached ones; beyond, _FarBehindError
    characters: int  # of a column


_EVERYTHING = _Most(sys.maxsize, sys.maxsize)


class _FarBehindError(Exception):
    """More has to be read than a search waits for."""


@dataclass(frozen=True)
class _Columns:
    """A collection's columns in one state."""

    state: CollectionState
    owners: NDArray[np.int32]  # document number by passage number; 0: no passage
    by_path: dict[Path, Column]
    last_document: int  # highest document number read; it may have been removed since
    last_removal: int  # latest removal of a passage that was read
    last_change: int  # latest change of a document that was read
    unsaved: dict[Path, int]  # documents read since each column was saved; passages for the owners
    too_large: frozenset[Path] = frozenset()  # fields with too much text

    @property
    def nbytes(self) -> int:
        return self.owners.nbytes + sum(column.nbytes for column in self.by_path.values())

    def passing(self, connection: sa.Connection, expression: Expression) -> NDArray[np.bool_]:
        """Whether each passage matches; evaluated by document where possible."""
        if any(isinstance(leaf, InClusters) for leaf in leaves(expression)):
            passed = self._of(expression, lambda leaf: self._by_passage(connection, leaf)) & (self.owners > 0)
        else:
            by_document = self._of(expression, lambda leaf: self._by_document(connection, leaf))
            by_document = np.array(np.broadcast_to(by_document, (self.last_document + 1,)))
            by_document[0] = False  # the document of nonexistent passages
            passed = taken(by_document, self.owners)
        passed.flags.writeable = False
        return passed

    def documents(self, connection: sa.Connection, expression: Expression | None) -> NDArray[np.bool_]:
        """Whether each document exists and matches; it is in a cluster if any of its passages is."""
        there = np.zeros(self.last_document + 1, dtype=np.bool_)
        there[self.owners] = True
        there[0] = False  # the document of nonexistent passages
        if expression is None:
            return there
        return there & self._of(expression, lambda leaf: self._by_document(connection, leaf))

    def with_column(self, connection: sa.Connection, path: Path, most: _Most) -> "_Columns":
        """Add a column, from the saved one and later changes, or mark it as too large.

        Raises _FarBehindError if too much has to be read.
        """
        key, compactions = self.state.collection_id, self.state.compactions
        kept = kept_column(connection, key, compactions, path)
        column, changed = None if kept is None else Column.from_bytes(kept.content), _NONE
        if column is not None and kept is not None:
            # The last documents may have been removed since; numbers are not reused.
            column = replace(column, codes=column.codes[: self.last_document + 1])
            changed, _ = _changes(connection, key, kept.sequence)
        found, read = _widened(connection, key, path, column or empty(), self.last_document, changed, most)
        if found is None:
            return replace(self, too_large=self.too_large | {path})
        return replace(self, by_path=self.by_path | {path: found}, unsaved=self.unsaved | {path: read})

    def due(self) -> set[Path]:
        """The columns to save, as enough was read since they were last saved."""
        return {
            path
            for path, read in self.unsaved.items()
            if read >= max(_WORTH_KEEPING, (self.last_document if path else self.owners.size) // 16)
        }

    def to_save(self, due: Iterable[Path]) -> list[KeptColumn]:
        """The columns to save, except empty and too large ones."""
        return [kept for path in due if (kept := self._to_save(path)) is not None]

    def _to_save(self, path: Path) -> KeptColumn | None:
        if path:
            column = self.by_path[path]
            worth = column.codes.any() and column.characters <= _MOST_KEPT
            content, sequence = column.to_bytes() if worth else b"", self.last_change
        else:
            content, sequence = packed({"owners": self.owners}), self.last_removal
        kept = KeptColumn(path, self.state.compactions, sequence, content)
        return kept if 0 < len(content) <= _MOST_KEPT else None

    def _of(self, part: Expression | Leaf, leaf: Callable[[Leaf], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        if isinstance(part, Not):
            return ~self._of(part.operand, leaf)
        if isinstance(part, And | Or):
            join = np.logical_and if isinstance(part, And) else np.logical_or
            held = [self._of(each, leaf) for each in gathered(part)]
            return reduce(join, held) if held else np.array(isinstance(part, And))
        return leaf(part)

    def _by_document(self, connection: sa.Connection, leaf: Leaf) -> NDArray[np.bool_]:
        if not isinstance(leaf, InClusters):
            return self.by_path[metadata_path(leaf.field) or ()].documents(leaf)
        passed = np.zeros(self.last_document + 1, dtype=np.bool_)
        passed[self.owners[self._by_passage(connection, leaf)]] = True
        return passed

    def _by_passage(self, connection: sa.Connection, leaf: Leaf) -> NDArray[np.bool_]:
        """Whether each passage matches; clusters contain passages, not documents."""
        if not isinstance(leaf, InClusters):
            return taken(self._by_document(connection, leaf), self.owners)
        passed = np.zeros(self.owners.size, dtype=np.bool_)
        if leaf.numbers != ():
            inside = number_list(connection, passages_in_clusters(leaf))
            passed[inside[inside < passed.size]] = True
        return passed


@dataclass(slots=True)
class _KnownColumns:
    """The cached columns of all collections; thread-safe."""

    _kept: Known = field(default_factory=lambda: Known(1000, _BYTES))  # by collection
    _read_by: dict[int, ThreadLock] = field(default_factory=dict)  # held while a collection is read
    _readers: dict[int, threading.Thread] = field(default_factory=dict)  # in the background
    _lock: ThreadLock = field(default_factory=ThreadLock)

    def ready(self, connection: sa.Connection, state: CollectionState) -> set[Path]:
        """The fields whose columns are in memory or in the catalogue."""
        last: _Columns | None = self._kept.get(state.collection_id)
        here = last.by_path.keys() if last and last.state.compactions == state.compactions else set()
        return {*here, *kept_paths(connection, state.collection_id, state.compactions)} - {_OWNERS}

    def at(
        self, connection: sa.Connection, state: CollectionState, paths: set[Path], *, wait: bool
    ) -> _Columns | None:
        """A collection's columns in the transaction's state; None if a newer one is cached.

        None, too, if a field has too much text, and without `wait` while columns are not read or stale: a
        thread reads them.
        """
        key = state.collection_id
        last: _Columns | None = self._kept.get(key)
        if last is not None and last.state == state and paths <= last.by_path.keys():
            return last
        if last is not None and last.state.compactions == state.compactions and paths & last.too_large:
            return None
        if not wait and not paths <= self.ready(connection, state):
            self._read_in_background(connection.engine, key, paths)
            return None
        with self._lock:
            reading = self._read_by.setdefault(key, ThreadLock())
        if not reading.acquire(wait=wait):
            return None
        most = _Most(sys.maxsize if wait else _READ_AT_ONCE, _MOST_CHARACTERS)
        try:
            last = self._kept.get(key)
            if last is not None and last.state.version > state.version:
                return None
            if last is None or last.state.compactions != state.compactions:
                last = _initial(connection, state)
            found = _updated(connection, state, last, most)
            for path in sorted(paths - found.by_path.keys() - found.too_large):
                found = found.with_column(connection, path, most)
            due = found.due()
            read = found = replace(found, unsaved=found.unsaved | dict.fromkeys(due, 0))
            if found.nbytes > _BYTES:  # only the requested columns stay
                here = found.by_path
                found = replace(found, by_path={path: here[path] for path in paths & here.keys()})
            self._kept.put(key, found, found.nbytes)
        except _FarBehindError:
            self._read_in_background(connection.engine, key, paths)
            return None
        finally:
            reading.release()
        if due and wait:
            _save(connection.engine, read, due)
        elif due:
            self._start(_save, connection.engine, read, due)
        return None if paths & found.too_large else found

    def _read_in_background(self, engine: sa.Engine, key: int, paths: set[Path]) -> None:
        with self._lock:
            if key in self._readers and self._readers[key].is_alive():
                return
            self._readers[key] = self._start(self._read, engine, key, paths)

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        # Not a daemon: a command exits after saving the column, so that the next need not read it.
        thread = threading.Thread(target=work, args=arguments, name="nearsay-columns", daemon=False)
        thread.start()
        return thread

    def _read(self, engine: sa.Engine, key: int, paths: set[Path]) -> None:
        # The next search reports an error of the catalogue, or a deleted collection.
        suppressed = contextlib.suppress(sa.exc.SQLAlchemyError, NearsayError)
        with suppressed, Database(engine).reading() as connection:
            self.at(connection, state_of(connection, key), paths, wait=True)


def _save(engine: sa.Engine, columns: _Columns, due: Iterable[Path]) -> None:
    """Save columns in the catalogue, unless it is read-only or another writer holds it for long."""
    kept = columns.to_save(due)
    suppressed = contextlib.suppress(sa.exc.SQLAlchemyError, NearsayError)
    with suppressed, Database(engine).writing(patience=_PATIENCE) as connection:
        keep_columns(connection, columns.state.collection_id, kept, now())


def _initial(connection: sa.Connection, state: CollectionState) -> _Columns:
    """No columns, and the saved owners of passages."""
    owners, sequence = np.zeros(1, dtype=np.int32), 0
    kept = kept_column(connection, state.collection_id, state.compactions, _OWNERS)
    if kept is not None and (found := unpacked(kept.content, ["owners"])):
        owners, sequence = found[0], kept.sequence
    initial = replace(state, version=-1)  # older than any state
    return _Columns(initial, owners, {}, 0, sequence, 0, {_OWNERS: 0})


def _updated(connection: sa.Connection, state: CollectionState, before: _Columns, most: _Most) -> _Columns:
    """Add later additions and changes; _FarBehindError if there are too many."""
    if before.state == state:
        return before
    key = state.collection_id
    owners, last_removal = _owners(connection, key, before, _OWNED_AT_ONCE * most.documents)
    changed, last_change = _changes(connection, key, before.last_change)
    last_document = max(
        before.last_document, highest(connection, documents.c.number, documents.c.collection_id == key)
    )
    columns: dict[Path, Column] = {}
    unsaved = {_OWNERS: before.unsaved[_OWNERS] + owners.size - before.owners.size}
    too_large = set(before.too_large)
    most = most._replace(documents=most.documents // max(1, len(before.by_path)))
    for path, column in before.by_path.items():
        found, read = _widened(connection, key, path, column, last_document, changed, most)
        if found is None:
            too_large.add(path)
        else:
            columns[path], unsaved[path] = found, before.unsaved[path] + read
    return _Columns(
        state, owners, columns, last_document, last_removal, last_change, unsaved, frozenset(too_large)
    )


def _widened(
    connection: sa.Connection,
    key: int,
    path: Path,
    column: Column,
    through: int,
    changed: NDArray[np.int64],
    most: _Most,
) -> tuple[Column | None, int]:
    """A column updated with changed documents and those up to `through`; and the number of documents read.

    None for a column with too many characters; raises _FarBehindError if too many documents would be read.
    """
    read = max(0, through + 1 - column.codes.size) + changed.size
    if read > most.documents:
        raise _FarBehindError
    windows = _since(connection, key, path, column, through, changed)
    return widened(column, windows, through, most.characters), read


def _changes(connection: sa.Connection, key: int, since: int) -> tuple[NDArray[np.int64], int]:
    """The documents that were changed after a change, and the latest change."""
    news = sa.select(changed_documents.c.document, changed_documents.c.sequence).where(
        changed_documents.c.collection_id == key, changed_documents.c.sequence > since
    )
    changes, sequences = number_lists(connection, news)
    return np.unique(changes), int(sequences.max(initial=since))


def _owners(
    connection: sa.Connection, key: int, before: _Columns, most: int
) -> tuple[NDArray[np.int32], int]:
    """The document of each passage, and the latest removal; _FarBehindError if over `most` would be read."""
    begin, end = (
        before.owners.size,
        highest(connection, passages.c.number, passages.c.collection_id == key) + 1,
    )
    if end - begin > most:
        raise _FarBehindError
    owners = np.zeros(max(begin, end), dtype=np.int32)
    owners[:begin] = before.owners
    every = sa.select(passages.c.document, passages.c.number).where(passages.c.collection_id == key)
    for first in range(begin, end, _LISTED):
        some = every.where(passages.c.number.between(first, first + _LISTED - 1))
        owned, numbers = number_lists(connection, some)
        owners[numbers] = owned
    removals = sa.select(removed_passages.c.passage, removed_passages.c.sequence).where(
        removed_passages.c.collection_id == key, removed_passages.c.sequence > before.last_removal
    )
    removed, sequences = number_lists(connection, removals)
    owners[removed[removed < owners.size]] = 0
    return owners, int(sequences.max(initial=before.last_removal))


def _since(
    connection: sa.Connection, key: int, path: Path, column: Column, through: int, changed: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Sequence[str]]]:
    """The values of documents after the column's last, up to `through`, and of changed ones, in windows."""
    number = documents.c.number
    for begin in range(column.codes.size, through + 1, _ROWS):
        yield from _windows(connection, key, path, number.between(begin, begin + _ROWS - 1))
    for begin in range(0, changed.size, _ROWS):
        yield from _windows(connection, key, path, one_of(number, changed[begin : begin + _ROWS].tolist()))


def _windows(
    connection: sa.Connection, key: int, path: Path, chosen: sa.ColumnElement[bool]
) -> Iterator[tuple[NDArray[np.int64], Sequence[str]]]:
    """The values of documents, long ones one by one: databases limit the length of a value."""
    numbers, values = _values(connection, key, path, chosen, _LONG + 1)
    if max(map(len, values), default=0) <= _LONG:
        yield numbers, values
        return
    long = np.array([len(value) > _LONG for value in values], dtype=np.bool_)
    yield numbers[~long], [value for value in values if len(value) <= _LONG]
    for number in numbers[long].tolist():
        yield _values(connection, key, path, documents.c.number == number)


def _values(
    connection: sa.Connection,
    key: int,
    path: Path,
    chosen: sa.ColumnElement[bool],
    longest: int | None = None,
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Document numbers and their values as JSON, in one row: many rows would block other threads.

    longest: characters to read of each value; None = all

    Values are separated by line breaks, which JSON escapes.
    """
    value: sa.ColumnElement[str] = sa.func.coalesce(metadata_json(path, connection.dialect.name), "")
    if longest is not None:
        value = sa.func.substr(value, 1, longest)
    rows = sa.select(documents.c.number, value.label("value")).where(documents.c.collection_id == key, chosen)
    each = rows.subquery().c
    listed = sa.func.aggregate_strings(sa.cast(each.number, sa.Text), ",")
    numbers, values = connection.execute(sa.select(listed, sa.func.aggregate_strings(each.value, "\n"))).one()
    if not numbers:
        return _NONE, ()
    return np.array(numbers.split(","), dtype=np.int64), values.split("\n")
