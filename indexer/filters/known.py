"""The columns that filters were asked about, read from the catalogue once and brought up with it.

SQL is the truth: a column is read in a transaction that sees the collection in the same state, first for all
documents, then for those that were added or changed since. What took a while to read is kept in the catalogue
for other processes. A compaction makes all be read again. Of a large collection another thread reads it, and
what came since where that is much, and searches ask SQL until it has; a process ends when that thread has. No
search waits for a column that is read, nor until one is kept. A field of too much text is left to SQL.
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
    """The latest findings, by what was asked in which state; safe to share between threads."""

    def __init__(self, most: int, most_bytes: int = sys.maxsize) -> None:
        """most, most_bytes: findings, and bytes of them in all; the last one stays whatever it takes."""
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._lock = ThreadLock()

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - whatever was put
        """What was found; None if it is not known."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key, (None, 0))[0]

    def put(self, key: Hashable, found: object, nbytes: int = 0) -> None:
        """Keep what was found; what was asked longest ago gives way."""
        with self._lock:
            self._bytes += nbytes - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = found, nbytes
            while len(self._kept) > 1 and (len(self._kept) > self._most or self._bytes > self._most_bytes):
                self._bytes -= self._kept.popitem(last=False)[1][1]


_KNOWN: "weakref.WeakKeyDictionary[sa.Engine, dict[Callable[[], Any], Any]]" = weakref.WeakKeyDictionary()
_LOCK = ThreadLock()
T = TypeVar("T")


def known_of(connection: sa.Connection, make: Callable[[], T]) -> T:
    """What `make` made for the catalogue that the connection is to, when it was first asked for."""
    with _LOCK:
        known = _KNOWN.setdefault(connection.engine, {})
        if make not in known:
            known[make] = make()
        found: T = known[make]
        return found


def counts() -> Known:
    """Counts of a catalogue: of 10,000 values each, they take some 300 MB at the very worst."""
    return Known(256)


@dataclass(frozen=True, slots=True)
class CollectionState:
    """A collection as a transaction sees it; anything that is committed to it makes another."""

    collection_id: int
    version: int  # grows with every committed change
    compactions: int  # grows when removed passages are forgotten


def state_of(connection: sa.Connection, collection_id: int) -> CollectionState:
    """The state of a collection that the transaction sees."""
    columns = (collections.c.version, collections.c.compactions)
    found = connection.execute(sa.select(*columns).where(collections.c.id == collection_id)).one_or_none()
    return CollectionState(collection_id, *((0, 0) if found is None else found))


_BYTES = 2 * 2**30  # of columns that are kept for a catalogue
_MOST_CHARACTERS = 2**30  # of one that searches ask
_READ_AT_ONCE = 50_000  # documents: the values of so many are read while a search waits, in half a second
_OWNED_AT_ONCE = 20  # passages whose documents are read in the time of one of these values
_ROWS = 2_000  # documents whose values are read at a time
_LONG = 10_000  # characters of a value; longer ones are read one by one
_LISTED = 5_000_000  # passages that are read at a time
_NONE = np.zeros(0, dtype=np.int64)


def columnar(expression: Expression) -> bool:
    """Whether columns tell what a filter lets through: it asks of metadata and clusters alone."""
    return all(metadata_path(leaf.field) is not None for leaf in leaves(expression))


def passages_passing(
    connection: sa.Connection, expression: Expression, state: CollectionState, *, wait: bool
) -> NDArray[np.bool_] | None:
    """Which passages a columnar filter lets through, by passage number, as the transaction sees them.

    wait: whether columns are read here that nobody asked for before, or that are far behind, which takes
          seconds for a million documents; else None, and another thread reads them

    None, too, where a later state is known already than the transaction sees, and for a field of too much
    text.
    """
    columns = known_of(connection, _KnownColumns).at(connection, state, _asked(expression), wait=wait)
    return None if columns is None else columns.passing(connection, expression)


def column_of(
    connection: sa.Connection, state: CollectionState, path: Path, expression: Expression | None = None
) -> tuple[Column, NDArray[np.bool_]]:
    """A metadata field's column, and which documents a columnar filter lets through, by document number.

    What is not there yet is read.
    """
    wanted = _asked(expression) | {path}
    columns = known_of(connection, _KnownColumns).at(connection, state, wanted, wait=True)
    if columns is None:  # what is known is later than the transaction sees, or it is too much to be kept
        columns = _brought_up(connection, state, _begun(connection, state), _EVERYTHING)
        for each in wanted:
            columns = columns.with_column(connection, each, _EVERYTHING)
    return columns.by_path[path], columns.documents(connection, expression)


def documents_passing(
    connection: sa.Connection, state: CollectionState, leaf: Leaf
) -> NDArray[np.int64] | None:
    """The numbers of the documents that a comparison lets through, some of them removed; rising.

    None where its column is not read yet or far behind, or another thread is reading one, or a later state is
    known already than the transaction sees.
    """
    path = None if isinstance(leaf, InClusters) else metadata_path(leaf.field)
    if path is None or path not in ready_fields(connection, state):
        return None
    columns = known_of(connection, _KnownColumns).at(connection, state, {path}, wait=False)
    return None if columns is None else np.flatnonzero(columns.by_path[path].documents(leaf))


def ready_fields(connection: sa.Connection, state: CollectionState) -> set[Path]:
    """The metadata fields whose columns were read, by this process or another."""
    return known_of(connection, _KnownColumns).ready(connection, state)


def _asked(expression: Expression | None) -> set[Path]:
    """The metadata fields that a filter asks of."""
    parts = () if expression is None else leaves(expression)
    asked = (leaf.field for leaf in parts if not isinstance(leaf, InClusters))
    return {path for each in asked if (path := metadata_path(each)) is not None}


_OWNERS: Path = ()  # the path under which it is kept whose each passage is
_WORTH_KEEPING = 50_000  # documents, or passages: to read so many takes a tenth of a second
_MOST_KEPT = 2**28  # bytes: what a database takes as one value has an end
_PATIENCE = 1.0  # seconds that a writer is waited for: the next process that reads the column keeps it


class _Most(NamedTuple):
    """How much may be read."""

    documents: int  # of each column, or of all those that are known; _FarBehindError where there are more
    characters: int  # of a column


_EVERYTHING = _Most(sys.maxsize, sys.maxsize)


class _FarBehindError(Exception):
    """There is more to be read than a search waits for."""


@dataclass(frozen=True)
class _Columns:
    """A collection's columns in one state."""

    state: CollectionState
    owners: NDArray[np.int32]  # by passage number: its document; 0: there is none
    by_path: dict[Path, Column]
    last_document: int  # the last document number that was read; it may be removed since
    last_removal: int  # the last removal of a passage that was read
    last_change: int  # the last change of a document that was read
    unkept: dict[Path, int]  # documents that were read since a column was kept; of the owners, passages
    too_large: frozenset[Path] = frozenset()  # fields of too much text

    @property
    def nbytes(self) -> int:
        return self.owners.nbytes + sum(column.nbytes for column in self.by_path.values())

    def passing(self, connection: sa.Connection, expression: Expression) -> NDArray[np.bool_]:
        """By passage number; documents are asked where that is enough."""
        if any(isinstance(leaf, InClusters) for leaf in leaves(expression)):
            passed = self._of(expression, lambda leaf: self._by_passage(connection, leaf)) & (self.owners > 0)
        else:
            by_document = self._of(expression, lambda leaf: self._by_document(connection, leaf))
            by_document = np.array(np.broadcast_to(by_document, (self.last_document + 1,)))
            by_document[0] = False  # whose the passages are that are not there
            passed = taken(by_document, self.owners)
        passed.flags.writeable = False
        return passed

    def documents(self, connection: sa.Connection, expression: Expression | None) -> NDArray[np.bool_]:
        """By document number: those that are there and pass; in a cluster is one of which a passage is."""
        there = np.zeros(self.last_document + 1, dtype=np.bool_)
        there[self.owners] = True
        there[0] = False  # whose the passages are that are not there
        if expression is None:
            return there
        return there & self._of(expression, lambda leaf: self._by_document(connection, leaf))

    def with_column(self, connection: sa.Connection, path: Path, most: _Most) -> "_Columns":
        """With one more column: what was kept of it, and what came since; or with one more that is too large.

        _FarBehindError where it is.
        """
        key, compactions = self.state.collection_id, self.state.compactions
        kept = kept_column(connection, key, compactions, path)
        column, changed = None if kept is None else Column.from_bytes(kept.content), _NONE
        if column is not None and kept is not None:
            # The last documents may be removed since; those that come get other numbers.
            column = replace(column, codes=column.codes[: self.last_document + 1])
            changed, _ = _changes(connection, key, kept.sequence)
        found, read = _widened(connection, key, path, column or empty(), self.last_document, changed, most)
        if found is None:
            return replace(self, too_large=self.too_large | {path})
        return replace(self, by_path=self.by_path | {path: found}, unkept=self.unkept | {path: read})

    def due(self) -> set[Path]:
        """The columns of which enough was read since they were kept to keep them now."""
        return {
            path
            for path, read in self.unkept.items()
            if read >= max(_WORTH_KEEPING, (self.last_document if path else self.owners.size) // 16)
        }

    def to_keep(self, due: Iterable[Path]) -> list[KeptColumn]:
        """Columns as they are kept, without those of no values or of too many characters."""
        return [kept for path in due if (kept := self._to_keep(path)) is not None]

    def _to_keep(self, path: Path) -> KeptColumn | None:
        """None for one without values, or of too many characters."""
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
        """In a cluster is a passage, not its document."""
        if not isinstance(leaf, InClusters):
            return taken(self._by_document(connection, leaf), self.owners)
        passed = np.zeros(self.owners.size, dtype=np.bool_)
        if leaf.numbers != ():
            inside = number_list(connection, passages_in_clusters(leaf))
            passed[inside[inside < passed.size]] = True
        return passed


@dataclass(slots=True)
class _KnownColumns:
    """The columns of the collections that were filtered; safe to share between threads."""

    _kept: Known = field(default_factory=lambda: Known(1000, _BYTES))  # by collection
    _read_by: dict[int, ThreadLock] = field(default_factory=dict)  # held while a collection is read
    _readers: dict[int, threading.Thread] = field(default_factory=dict)  # that nobody waits for
    _lock: ThreadLock = field(default_factory=ThreadLock)

    def ready(self, connection: sa.Connection, state: CollectionState) -> set[Path]:
        """The fields whose columns are here or kept in the catalogue."""
        last: _Columns | None = self._kept.get(state.collection_id)
        here = last.by_path.keys() if last and last.state.compactions == state.compactions else set()
        return {*here, *kept_paths(connection, state.collection_id, state.compactions)} - {_OWNERS}

    def at(
        self, connection: sa.Connection, state: CollectionState, paths: set[Path], *, wait: bool
    ) -> _Columns | None:
        """A collection's columns in the state that the transaction sees; None if a later one is known.

        None, too, where one of them is of too much text, and without `wait` while some of them are not read,
        or far behind: a thread is at it.
        """
        key = state.collection_id
        last: _Columns | None = self._kept.get(key)
        if last is not None and last.state == state and paths <= last.by_path.keys():
            return last
        if last is not None and last.state.compactions == state.compactions and paths & last.too_large:
            return None
        if not wait and not paths <= self.ready(connection, state):
            self._read_meanwhile(connection.engine, key, paths)
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
                last = _begun(connection, state)
            found = _brought_up(connection, state, last, most)
            for path in sorted(paths - found.by_path.keys() - found.too_large):
                found = found.with_column(connection, path, most)
            due = found.due()
            read = found = replace(found, unkept=found.unkept | dict.fromkeys(due, 0))
            if found.nbytes > _BYTES:  # what was just asked stays
                here = found.by_path
                found = replace(found, by_path={path: here[path] for path in paths & here.keys()})
            self._kept.put(key, found, found.nbytes)
        except _FarBehindError:
            self._read_meanwhile(connection.engine, key, paths)
            return None
        finally:
            reading.release()
        if due and wait:
            _keep(connection.engine, read, due)
        elif due:
            self._start(_keep, connection.engine, read, due)
        return None if paths & found.too_large else found

    def _read_meanwhile(self, engine: sa.Engine, key: int, paths: set[Path]) -> None:
        with self._lock:
            if key in self._readers and self._readers[key].is_alive():
                return
            self._readers[key] = self._start(self._read, engine, key, paths)

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        # No daemon: a single command ends when the column is kept, so that the next need not read it.
        thread = threading.Thread(target=work, args=arguments, name="nearsay-columns", daemon=False)
        thread.start()
        return thread

    def _read(self, engine: sa.Engine, key: int, paths: set[Path]) -> None:
        # What is wrong with the catalogue, or that the collection is gone, the next search says.
        suppressed = contextlib.suppress(sa.exc.SQLAlchemyError, NearsayError)
        with suppressed, Database(engine).reading() as connection:
            self.at(connection, state_of(connection, key), paths, wait=True)


def _keep(engine: sa.Engine, columns: _Columns, due: Iterable[Path]) -> None:
    """Keep columns in the catalogue, unless it may only be read, or another writer is long at work."""
    kept = columns.to_keep(due)
    suppressed = contextlib.suppress(sa.exc.SQLAlchemyError, NearsayError)
    with suppressed, Database(engine).writing(patience=_PATIENCE) as connection:
        keep_columns(connection, columns.state.collection_id, kept, now())


def _begun(connection: sa.Connection, state: CollectionState) -> _Columns:
    """No columns, and what was kept of whose each passage is."""
    owners, sequence = np.zeros(1, dtype=np.int32), 0
    kept = kept_column(connection, state.collection_id, state.compactions, _OWNERS)
    if kept is not None and (found := unpacked(kept.content, ["owners"])):
        owners, sequence = found[0], kept.sequence
    begun = replace(state, version=-1)  # brought up by no matter what was committed
    return _Columns(begun, owners, {}, 0, sequence, 0, {_OWNERS: 0})


def _brought_up(connection: sa.Connection, state: CollectionState, before: _Columns, most: _Most) -> _Columns:
    """With what was added and changed since; _FarBehindError where that is too much."""
    if before.state == state:
        return before
    key = state.collection_id
    owners, last_removal = _owners(connection, key, before, _OWNED_AT_ONCE * most.documents)
    changed, last_change = _changes(connection, key, before.last_change)
    last_document = max(
        before.last_document, highest(connection, documents.c.number, documents.c.collection_id == key)
    )
    columns: dict[Path, Column] = {}
    unkept = {_OWNERS: before.unkept[_OWNERS] + owners.size - before.owners.size}
    too_large = set(before.too_large)
    most = most._replace(documents=most.documents // max(1, len(before.by_path)))
    for path, column in before.by_path.items():
        found, read = _widened(connection, key, path, column, last_document, changed, most)
        if found is None:
            too_large.add(path)
        else:
            columns[path], unkept[path] = found, before.unkept[path] + read
    return _Columns(
        state, owners, columns, last_document, last_removal, last_change, unkept, frozenset(too_large)
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
    """A column with the documents up to `through`, and with others that were changed; how many were read.

    None for one of too many characters; _FarBehindError where too many would be read.
    """
    read = max(0, through + 1 - column.codes.size) + changed.size
    if read > most.documents:
        raise _FarBehindError
    windows = _since(connection, key, path, column, through, changed)
    return widened(column, windows, through, most.characters), read


def _changes(connection: sa.Connection, key: int, since: int) -> tuple[NDArray[np.int64], int]:
    """The documents that were changed after a change, and the last of the changes."""
    news = sa.select(changed_documents.c.document, changed_documents.c.sequence).where(
        changed_documents.c.collection_id == key, changed_documents.c.sequence > since
    )
    changes, sequences = number_lists(connection, news)
    return np.unique(changes), int(sequences.max(initial=since))


def _owners(
    connection: sa.Connection, key: int, before: _Columns, most: int
) -> tuple[NDArray[np.int32], int]:
    """Whose each passage is, and the last removal; _FarBehindError where more than `most` would be read."""
    begin, end = (
        before.owners.size,
        highest(connection, passages.c.number, passages.c.collection_id == key) + 1,
    )
    if end - begin > most:
        raise _FarBehindError
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


def _since(
    connection: sa.Connection, key: int, path: Path, column: Column, through: int, changed: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Sequence[str]]]:
    """Windows of documents that the column does not hold yet, up to `through`, and of changed ones."""
    number = documents.c.number
    for begin in range(column.codes.size, through + 1, _ROWS):
        yield from _windows(connection, key, path, number.between(begin, begin + _ROWS - 1))
    for begin in range(0, changed.size, _ROWS):
        yield from _windows(connection, key, path, one_of(number, changed[begin : begin + _ROWS].tolist()))


def _windows(
    connection: sa.Connection, key: int, path: Path, chosen: sa.ColumnElement[bool]
) -> Iterator[tuple[NDArray[np.int64], Sequence[str]]]:
    """The values of documents, long ones each by itself: a database has no room for all in one value."""
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
    """Document numbers and their values as JSON, by one row: a row each would hold up other threads.

    longest: characters of each value that are read; None = all

    A line a value: JSON writes line breaks otherwise.
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
