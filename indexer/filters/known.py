"""The columns that filters were asked about, read from the catalogue once and brought up with it.

SQL is the truth: a column is read in a transaction that sees the collection in the same state, first for all
documents, then for those that were added or changed since. A compaction makes all be read again. Of a large
collection another thread reads it, and searches ask SQL until it has.
"""

import contextlib
import json
import re
import sys
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue.bulk import highest, number_list, number_lists, one_of
from nearsay.indexer.catalogue.json_values import metadata_json
from nearsay.indexer.catalogue.tables import (
    changed_documents,
    collections,
    documents,
    passages,
    removed_passages,
)
from nearsay.indexer.filters.expression import (
    Among,
    And,
    Compare,
    Contains,
    Expression,
    InClusters,
    Kind,
    Leaf,
    Moment,
    Not,
    Operator,
    Or,
    Path,
    Present,
    Scalar,
    Within,
    gathered,
    kind_of,
    leaves,
)
from nearsay.indexer.filters.sql import metadata_path, passages_in_clusters

__all__ = [
    "DIGITS",
    "MISSING",
    "Codes",
    "CollectionState",
    "Known",
    "Numbers",
    "Texts",
    "column_of",
    "columnar",
    "counts",
    "known_of",
    "passages_passing",
    "state_of",
]


class Known:
    """The latest findings, by what was asked in which state; safe to share between threads."""

    def __init__(self, most: int, most_bytes: int = sys.maxsize) -> None:
        """most, most_bytes: findings, and bytes of them in all; the last one stays whatever it takes."""
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._lock = threading.Lock()

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
_LOCK = threading.Lock()
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


# What a metadata field holds, as a column: a code for each document, and the different values in order.
#
# A comparison is asked of the different values alone, so it costs a search in a sorted list and one look at
# each document's code. A value is what SQL would compare: see expression.py.


MISSING, _TRUE, _FALSE, _OBJECT, _FIRST = range(5)  # codes; the first of the values that are numbered
DIGITS = re.compile("[0-9]{1,18}")  # such a text counts as a number
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EXACT = 2**53  # whole numbers up to it are exact as floats

_KNOWN_ELEMENTS = 50_000  # values whose code is looked up; others get a code each time they are read
_AT_ONCE = 250_000  # different values read before they are put in order

Codes = NDArray[np.int32]
Texts = list[str]
Numbers = list[int | float] | NDArray[np.float64]


@dataclass(frozen=True)
class _Sorted:
    """Values of single kinds in order, each with the code of what holds it; some values several times."""

    texts: Texts  # by code point
    text_codes: Codes
    dated: NDArray[np.bool_]  # which texts begin with a day
    numbers: Numbers  # texts of digits among them
    number_codes: Codes
    true_codes: Codes
    false_codes: Codes

    @property
    def nbytes(self) -> int:
        """Bytes that it holds, about: a text takes some 100."""
        return 100 * len(self.texts) + 12 * len(self.numbers)

    def standing(self, operator: Operator, value: Scalar) -> Codes:
        """The codes of the values that stand so to a literal."""
        if isinstance(value, Moment):
            return self._moment(operator, value)
        kind = kind_of(value)
        if kind is Kind.TEXT:
            return self.text_codes[_range(self.texts, operator, value)]
        if kind is Kind.NUMBER:
            return self.number_codes[_range(self.numbers, operator, value)]
        return self.true_codes if kind is Kind.TRUE else self.false_codes

    def having(self, piece: str) -> Codes:
        """The codes of the texts that hold a piece."""
        found = np.fromiter((piece in text for text in self.texts), dtype=np.bool_, count=len(self.texts))
        return self.text_codes[found]

    def _moment(self, operator: Operator, moment: Moment) -> Codes:
        places = range(len(self.texts))
        each = [places[_range(self.texts, *bound)] for bound in moment.bounds(operator)]
        here = slice(max(some.start for some in each), min(some.stop for some in each))
        return self.text_codes[here][self.dated[here]]

    def with_more(self, more: Iterable[tuple[Any, int]]) -> "_Sorted":
        """With more values and their codes; null, lists and objects among them count for nothing."""
        texts: list[tuple[str, int]] = []
        numbers: list[tuple[int | float, int]] = []
        truths: list[int] = []
        falsehoods: list[int] = []
        for value, code in more:
            if isinstance(value, bool):
                (truths if value else falsehoods).append(code)
            elif isinstance(value, str):
                texts.append((value, code))
                if DIGITS.fullmatch(value):
                    numbers.append((int(value), code))
            elif isinstance(value, int | float):
                numbers.append((value, code))
        text_places, all_texts, text_codes = _merged(self.texts, self.text_codes, texts)
        _, all_numbers, number_codes = _merged(self.numbers, self.number_codes, numbers)
        days = [_DAY.fullmatch(text[:10]) is not None for text, _ in texts]
        return _Sorted(
            all_texts,
            text_codes,
            np.insert(self.dated, text_places, days),
            all_numbers,
            number_codes,
            np.append(self.true_codes, np.array(truths, dtype=np.int32)),
            np.append(self.false_codes, np.array(falsehoods, dtype=np.int32)),
        )


def _range(values: Texts | Numbers, operator: Operator, value: Any) -> slice:  # noqa: ANN401
    # Python's own numbers are compared exactly, whole ones with fractions, too; NumPy's would be rounded.
    key: Any = float if isinstance(values, np.ndarray) else None
    begin = bisect_left(values, value, key=key)
    end = bisect_right(values, value, key=key)
    return {
        Operator.EQUAL: slice(begin, end),
        Operator.LESS: slice(0, begin),
        Operator.LESS_OR_EQUAL: slice(0, end),
        Operator.GREATER: slice(end, None),
        Operator.GREATER_OR_EQUAL: slice(begin, None),
    }[operator]


def _merged(values: Any, codes: Codes, more: list[Any]) -> tuple[NDArray[np.int64], Any, Codes]:  # noqa: ANN401
    """Puts pairs of value and code in order; where they go among the values, and all values and codes."""
    more.sort(key=itemgetter(0))
    added = [value for value, _ in more]
    if isinstance(values, np.ndarray):  # a quarter of a list's memory, as long as nothing is lost by it
        if all(isinstance(number, float) or abs(number) <= _EXACT for number in added):
            packed = np.array(added, dtype=np.float64)
            places = np.searchsorted(values, packed, side="right")
            return places, np.insert(values, places, packed), _inserted(codes, places, more)
        values = values.tolist()
    places = np.array([bisect_right(values, value) for value in added], dtype=np.int64)
    merged, last = [], 0
    for value, place in zip(added, places.tolist(), strict=True):
        merged += values[last:place]
        merged.append(value)
        last = place
    return places, merged + values[last:], _inserted(codes, places, more)


def _inserted(codes: Codes, places: NDArray[np.int64], more: list[Any]) -> Codes:
    return np.insert(codes, places, np.array([code for _, code in more], dtype=np.int32))


@dataclass(frozen=True)
class Column:
    """A metadata field of a collection's documents; 4 bytes a document, and the different values."""

    codes: Codes  # by document number; of numbers that no document has: missing
    size: int  # codes there are; a value may have several
    own: _Sorted  # the values themselves
    elements: _Sorted  # of the lists, with the lists' codes
    known: dict[str, int]  # the codes of the first different values by their JSON

    @property
    def nbytes(self) -> int:
        """Bytes that it holds, about."""
        return self.codes.nbytes + self.own.nbytes + self.elements.nbytes + 200 * len(self.known)

    def documents(self, leaf: Leaf) -> NDArray[np.bool_]:
        """Which documents a comparison lets through, by their number."""
        held = self._held(leaf)
        return np.take(held, self.codes)

    def _held(self, leaf: Leaf) -> NDArray[np.bool_]:
        """By code."""
        held = np.zeros(self.size, dtype=np.bool_)
        if isinstance(leaf, Present):
            held[1:] = True
        elif isinstance(leaf, Contains):
            if isinstance(leaf.value, str):
                held[self.own.having(leaf.value)] = True
            held[self.elements.standing(Operator.EQUAL, leaf.value)] = True
        elif isinstance(leaf, Among):
            for value in leaf.values:
                self._equal(held, value)
        elif isinstance(leaf, Within):
            held[:] = True
            for bound in leaf.bounds:
                within = np.zeros(self.size, dtype=np.bool_)
                within[self.own.standing(bound.operator, bound.value)] = True
                held &= within
        elif isinstance(leaf, Compare):
            if leaf.operator is Operator.EQUAL:
                self._equal(held, leaf.value)
            else:
                held[self.own.standing(leaf.operator, leaf.value)] = True
        return held

    def _equal(self, held: NDArray[np.bool_], value: Scalar) -> None:
        for values in (self.own, self.elements):
            held[values.standing(Operator.EQUAL, value)] = True


def empty() -> Column:
    """Of no documents."""
    none = np.zeros(0, dtype=np.int32)
    true, false = (np.array([code], dtype=np.int32) for code in (_TRUE, _FALSE))
    of_none = _Sorted([], none, none.astype(np.bool_), none.astype(np.float64), none, none, none)
    own = replace(of_none, true_codes=true, false_codes=false)
    return Column(np.zeros(1, dtype=np.int32), _FIRST, own, of_none, {"": MISSING})


def widened(
    column: Column, windows: Iterable[tuple[NDArray[np.int64], Sequence[str]]], through: int
) -> Column:
    """With the values of documents that are new, or have others now.

    windows: document numbers (n,) and their values, each the first of a JSON list; "": no value
    through: the last document number that the column has to answer for
    """
    codes = np.zeros(max(through + 1, column.codes.size), dtype=np.int32)
    codes[: column.codes.size] = column.codes
    size = column.size
    known = column.known.copy()
    own, elements = column.own, column.elements
    fresh: list[tuple[Any, int]] = []
    for numbers, values in windows:
        here: dict[str, int] = {}
        unknown = list({*values} - known.keys())
        for raw, (value, *_) in zip(unknown, json.loads(f"[{','.join(unknown)}]"), strict=True):
            if isinstance(value, dict):
                here[raw] = _OBJECT
            elif value is None or isinstance(value, bool):
                here[raw] = {None: MISSING, True: _TRUE, False: _FALSE}[value]
            else:
                here[raw], size = size, size + 1
                fresh.append((value, here[raw]))
        known.update(islice(here.items(), max(0, _KNOWN_ELEMENTS - len(known))))
        held = (here[raw] if raw in here else known[raw] for raw in values)
        codes[numbers] = np.fromiter(held, dtype=np.int32, count=numbers.size)
        if len(fresh) >= max(_AT_ONCE, size // 2):
            own, elements, fresh = own.with_more(fresh), elements.with_more(_listed(fresh)), []
    return Column(codes, size, own.with_more(fresh), elements.with_more(_listed(fresh)), known)


def _listed(values: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    return ((each, code) for value, code in values if isinstance(value, list) for each in value)


_BYTES = 2 * 2**30  # of columns that are kept for a catalogue
_ROWS = 2_000  # documents whose values are read at a time
_LISTED = 5_000_000  # passages that are read at a time
_NONE = np.zeros(0, dtype=np.int64)


def columnar(expression: Expression) -> bool:
    """Whether columns tell what a filter lets through: it asks of metadata and clusters alone."""
    return all(metadata_path(leaf.field) is not None for leaf in leaves(expression))


def passages_passing(
    connection: sa.Connection, expression: Expression, state: CollectionState, *, wait: bool
) -> NDArray[np.bool_] | None:
    """Which passages a columnar filter lets through, by passage number, as the transaction sees them.

    wait: whether columns are read here that nobody asked for before, which takes seconds for a million
          documents; else None, and another thread reads them

    None, too, where a later state is known already than the transaction sees.
    """
    columns = known_of(connection, _KnownColumns).at(connection, state, _asked(expression), wait=wait)
    return None if columns is None else columns.passing(connection, expression)


def column_of(
    connection: sa.Connection, state: CollectionState, path: Path, expression: Expression | None
) -> tuple["Column", NDArray[np.bool_]] | None:
    """A metadata field's column, and which documents a columnar filter lets through, by document number.

    The column is read here if need be. None where a later state is known already than the transaction sees.
    """
    wanted = _asked(expression) | {path}
    columns = known_of(connection, _KnownColumns).at(connection, state, wanted, wait=True)
    return None if columns is None else (columns.by_path[path], columns.documents(connection, expression))


def _asked(expression: Expression | None) -> set[Path]:
    """The metadata fields that a filter asks of."""
    parts = () if expression is None else leaves(expression)
    asked = (leaf.field for leaf in parts if not isinstance(leaf, InClusters))
    return {path for each in asked if (path := metadata_path(each)) is not None}


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
        if any(isinstance(leaf, InClusters) for leaf in leaves(expression)):
            passed = self._of(expression, lambda leaf: self._by_passage(connection, leaf)) & (self.owners > 0)
        else:
            by_document = self._of(expression, self._by_document)
            by_document = np.array(np.broadcast_to(by_document, (self.last_document + 1,)))
            by_document[0] = False  # whose the passages are that are not there
            passed = np.take(by_document, self.owners)
        passed.flags.writeable = False
        return passed

    def documents(self, connection: sa.Connection, expression: Expression | None) -> NDArray[np.bool_]:
        """By document number: those that are there, and have a passage that passes."""
        passed = np.zeros(self.last_document + 1, dtype=np.bool_)
        chosen = self.owners if expression is None else self.owners[self.passing(connection, expression)]
        passed[chosen] = True
        passed[0] = False  # whose the passages are that are not there
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
            inside = number_list(connection, passages_in_clusters(leaf))
            passed[inside[inside < passed.size]] = True
        return passed


@dataclass(slots=True)
class _KnownColumns:
    """The columns of the collections that were filtered; safe to share between threads."""

    _kept: Known = field(default_factory=lambda: Known(1000, _BYTES))  # by collection
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
        last: _Columns | None = self._kept.get(key)
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
            if found.nbytes > _BYTES:  # what was just asked stays
                found = replace(found, by_path={path: found.by_path[path] for path in paths})
            self._kept.put(key, found, found.nbytes)
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
    last_document = max(
        before.last_document, highest(connection, documents.c.number, documents.c.collection_id == key)
    )
    columns = {
        path: widened(column, _since(connection, key, path, column, last_document, changed), last_document)
        for path, column in before.by_path.items()
    }
    last_change = int(sequences.max(initial=before.last_change))
    return _Columns(state, owners, columns, last_document, last_removal, last_change)


def _owners(connection: sa.Connection, key: int, before: _Columns) -> tuple[NDArray[np.int32], int]:
    """Whose each passage is, and the last removal."""
    begin, end = (
        before.owners.size,
        highest(connection, passages.c.number, passages.c.collection_id == key) + 1,
    )
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
        yield _values(connection, key, path, number.between(begin, begin + _ROWS - 1))
    for begin in range(0, changed.size, _ROWS):
        yield _values(connection, key, path, one_of(number, changed[begin : begin + _ROWS].tolist()))


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
