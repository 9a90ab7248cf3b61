"""A metadata field as a column: a code for each document, and the sorted distinct values.

A comparison is evaluated on the distinct values only: a binary search and one pass over the documents' codes.
Values compare as in SQL: see expression.py.
"""

import io
import json
import re
import sys
import zipfile
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import compress, islice, pairwise, zip_longest
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.filters.expression import (
    Among,
    Compare,
    Contains,
    Kind,
    Leaf,
    Moment,
    Operator,
    Present,
    Scalar,
    Within,
    kind_of,
)

MISSING, _TRUE, _FALSE, _OBJECT, _FIRST = range(5)  # codes; _FIRST: of the first other value
DIGITS = re.compile("[0-9]{1,18}")  # texts that count as numbers
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EXACT = 2**53  # integers up to it are exact as floats

_KNOWN_ELEMENTS = 50_000  # values whose codes are cached; others get a new code each time they are read
_LONGEST_KNOWN = 500  # characters of such a value
_AT_ONCE = 250_000  # distinct values to read before they are sorted

_TAKEN = 65_536  # numbers in a block: NumPy widens them to 64 bits, here within the cache
_COMPARED = 4  # ranges of codes that take as long to compare as a table look-up

Codes = NDArray[np.int32]
Texts = list[str]
Numbers = list[int | float] | NDArray[np.float64]


@dataclass(frozen=True)
class _Sorted:
    """Sorted values of each type with their codes; a value may have several."""

    texts: Texts  # sorted by code point
    text_codes: Codes
    dated: NDArray[np.bool_]  # texts that begin with a day
    numbers: Numbers  # including texts of digits
    number_codes: Codes
    number_texts: NDArray[np.bool_]  # numbers that are texts of digits
    true_codes: Codes
    false_codes: Codes

    @property
    def nbytes(self) -> int:
        """The approximate memory in bytes, at 100 a text."""
        return 100 * len(self.texts) + 12 * len(self.numbers)

    def standing(self, operator: Operator, value: Scalar) -> Codes:
        """The codes of the values that compare so with a literal."""
        if isinstance(value, Moment):
            return self._moment(operator, value)
        kind = kind_of(value)
        if kind is Kind.TEXT:
            return self.text_codes[_range(self.texts, operator, value)]
        if kind is Kind.NUMBER:
            return self.number_codes[_range(self.numbers, operator, value)]
        return self.true_codes if kind is Kind.TRUE else self.false_codes

    def having(self, piece: str) -> Codes:
        """The codes of the texts that contain a substring."""
        found = np.fromiter((piece in text for text in self.texts), dtype=np.bool_, count=len(self.texts))
        return self.text_codes[found]

    def within(self, bounds: Sequence[Compare]) -> Codes:
        """The codes of the values within all bounds."""
        if all(kind_of(bound.value) is Kind.NUMBER for bound in bounds):
            each = [(bound.operator, bound.value) for bound in bounds]
            return self.number_codes[_common(self.numbers, each)]
        return reduce(np.intersect1d, [self.standing(bound.operator, bound.value) for bound in bounds])

    def renumbered(self, new: Codes) -> "_Sorted":
        """Replace codes by `new`, indexed by old code; adjacent duplicates are dropped."""
        text_codes, number_codes = new[self.text_codes], new[self.number_codes]
        texts = _run_starts(_is_new(self.texts), text_codes)
        numbers = _run_starts(_is_new(self.numbers), number_codes, self.number_texts)
        return _Sorted(
            list(compress(self.texts, texts)),
            text_codes[texts],
            self.dated[texts],
            _chosen(self.numbers, numbers),
            number_codes[numbers],
            self.number_texts[numbers],
            new[self.true_codes],
            new[self.false_codes],
        )

    def _moment(self, operator: Operator, moment: Moment) -> Codes:
        here = _common(self.texts, moment.bounds(operator))
        return self.text_codes[here][self.dated[here]]

    def with_more(self, more: Iterable[tuple[Any, int]]) -> "_Sorted":
        """Add values and their codes; null, lists and objects are ignored."""
        texts: list[tuple[str, int]] = []
        numbers: list[tuple[int | float, int, bool]] = []
        truths: list[int] = []
        falsehoods: list[int] = []
        for value, code in more:
            if isinstance(value, bool):
                (truths if value else falsehoods).append(code)
            elif isinstance(value, str):
                texts.append((value, code))
                if DIGITS.fullmatch(value):
                    numbers.append((int(value), code, True))
            elif isinstance(value, int | float):
                numbers.append((value, code, False))
        text_places, all_texts, text_codes = _merged(self.texts, self.text_codes, texts)
        number_places, all_numbers, number_codes = _merged(self.numbers, self.number_codes, numbers)
        days = [_DAY.fullmatch(text[:10]) is not None for text, _ in texts]
        return _Sorted(
            all_texts,
            text_codes,
            np.insert(self.dated, text_places, days),
            all_numbers,
            number_codes,
            np.insert(self.number_texts, number_places, [is_text for *_, is_text in numbers]),
            np.append(self.true_codes, np.array(truths, dtype=np.int32)),
            np.append(self.false_codes, np.array(falsehoods, dtype=np.int32)),
        )


def _common(values: Texts | Numbers, bounds: Iterable[tuple[Operator, Any]]) -> slice:
    places = range(len(values))
    each = [places[_range(values, *bound)] for bound in bounds]
    return slice(max(some.start for some in each), min(some.stop for some in each))


def _range(values: Texts | Numbers, operator: Operator, value: Any) -> slice:  # noqa: ANN401
    # Python compares integers and floats exactly; NumPy would round.
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
    """Insert values with their codes into sorted values; returns their places, and all values and codes."""
    more.sort(key=itemgetter(0))
    added = [value for value, *_ in more]
    if isinstance(values, np.ndarray):  # a quarter of a list's memory, if no number is rounded
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
    return np.insert(codes, places, np.array([code for _, code, *_ in more], dtype=np.int32))


@dataclass(frozen=True)
class Column:
    """A metadata field of a collection's documents: 1 to 4 bytes a document, and the distinct values."""

    codes: NDArray[np.unsignedinteger]  # by document number; MISSING for numbers without a document
    size: int  # number of codes; a value may have several
    own: _Sorted  # values outside lists
    elements: _Sorted  # of lists, with the lists' codes
    known: dict[str, int]  # codes of the first distinct values, by their JSON
    characters: int  # approximate total of its texts

    @property
    def nbytes(self) -> int:
        """The approximate memory in bytes."""
        values = self.own.nbytes + self.elements.nbytes + self.characters
        return self.codes.nbytes + values + 200 * len(self.known)

    def to_bytes(self) -> bytes:
        """Serialize as an .npz file for `from_bytes`."""
        arrays: dict[str, Any] = {
            "codes": self.codes,
            "size": self.size,
        }
        for part, values in (("own", self.own), ("elements", self.elements)):
            for each in fields(_Sorted):
                arrays[f"{part}.{each.name}"] = _as_array(getattr(values, each.name))
        return packed(arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Column | None":
        """The deserialized column; None if the content is damaged."""
        names = [f"{part}.{each.name}" for part in ("own", "elements") for each in fields(_Sorted)]
        found = unpacked(content, ("codes", "size", *names))
        if found is None:
            return None
        codes, size, *arrays = found
        values = [_from_array(array) for array in arrays]
        own, elements = _Sorted(*values[: len(values) // 2]), _Sorted(*values[len(values) // 2 :])
        characters = _characters(own, elements)
        # Values read later get new codes, even if they are equal.
        return cls(codes, int(size), own, elements, {"": MISSING}, characters)

    def bounds(self, kind: Kind) -> tuple[str, str] | tuple[float, float] | None:
        """The least and greatest text or number outside lists; None if there is none.

        Removed documents count until a compaction.
        """
        values: Any = self.own.texts if kind is Kind.TEXT else self.own.numbers
        return (values[0], values[-1]) if len(values) else None

    def documents(self, leaf: Leaf) -> NDArray[np.bool_]:
        """Whether each document, by number, matches a comparison."""
        held = self._held(leaf)
        turns = np.flatnonzero(held[1:] != held[:-1]) + 1  # code 0 is MISSING, which never matches
        if turns.size > 2 * _COMPARED:
            return taken(held, self.codes)
        passing = np.zeros(self.codes.size, dtype=np.bool_)
        for first, end in zip_longest(turns[::2].tolist(), turns[1::2].tolist(), fillvalue=self.size):
            if end - first == 1:
                passing |= self.codes == first
            else:
                passing |= (self.codes >= first) & (self.codes < end)
        return passing

    def _held(self, leaf: Leaf) -> NDArray[np.bool_]:
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
            held[self.own.within(leaf.bounds)] = True
        elif isinstance(leaf, Compare):
            if leaf.operator is Operator.EQUAL:
                self._equal(held, leaf.value)
            else:
                held[self.own.standing(leaf.operator, leaf.value)] = True
        return held

    def _equal(self, held: NDArray[np.bool_], value: Scalar) -> None:
        for values in (self.own, self.elements):
            held[values.standing(Operator.EQUAL, value)] = True


def taken(flags: NDArray[np.bool_], numbers: NDArray[np.integer]) -> NDArray[np.bool_]:
    """flags[numbers] for flags (m,) and numbers (n,), in a third of NumPy's time for millions.

    Consecutive numbers, such as those of one-passage documents, become a slice.
    """
    found = np.empty(numbers.size, dtype=np.bool_)
    for begin in range(0, numbers.size, _TAKEN):
        part = slice(begin, begin + _TAKEN)
        some = numbers[part]
        first, end = int(some[0]), int(some[-1]) + 1
        if end - first == some.size and np.all(some[1:] > some[:-1]):
            found[part] = flags[first:end]
        else:
            np.take(flags, some, out=found[part])
    return found


def empty() -> Column:
    """A column of no documents."""
    none = np.zeros(0, dtype=np.int32)
    true, false = (np.array([code], dtype=np.int32) for code in (_TRUE, _FALSE))
    no = none.astype(np.bool_)
    of_none = _Sorted([], none, no, none.astype(np.float64), none, no, none, none)
    own = replace(of_none, true_codes=true, false_codes=false)
    return Column(np.zeros(1, dtype=np.uint8), _FIRST, own, of_none, {"": MISSING}, 0)


def widened(
    column: Column,
    windows: Iterable[tuple[NDArray[np.int64], Sequence[str]]],
    through: int,
    most: int = sys.maxsize,
) -> Column | None:
    """Add or replace the values of documents; None if the column would have too many characters.

    windows: document numbers (n,) and their values, each the first of a JSON list; "": no value
    through: the last document number of the column
    most:    characters of all its values
    """
    codes: NDArray[np.integer] = np.zeros(max(through + 1, column.codes.size), dtype=np.uint32)
    codes[: column.codes.size] = column.codes
    size = column.size
    known = column.known.copy()
    own, elements, characters = column.own, column.elements, column.characters
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
                characters += len(raw)
        if characters > most:
            return None
        short = ((raw, code) for raw, code in here.items() if len(raw) <= _LONGEST_KNOWN)
        known.update(islice(short, max(0, _KNOWN_ELEMENTS - len(known))))
        held = (here[raw] if raw in here else known[raw] for raw in values)
        codes[numbers] = np.fromiter(held, dtype=np.uint32, count=numbers.size)
        if len(fresh) >= max(_AT_ONCE, size // 2):
            own, elements, fresh = own.with_more(fresh), elements.with_more(_listed(fresh)), []
    own, elements = own.with_more(fresh), elements.with_more(_listed(fresh))
    if column.size == _FIRST:  # later values are numbered in the order of arrival
        new, size = _in_order(own, size)
        codes, own, elements = new[codes], own.renumbered(new), elements.renumbered(new)
        known = {raw: int(new[code]) for raw, code in known.items()}
        characters = _characters(own, elements)
    return Column(codes.astype(np.min_scalar_type(size)), size, own, elements, known, characters)


def _characters(*parts: _Sorted) -> int:
    return sum(len(text) for part in parts for text in part.texts)


def _in_order(values: _Sorted, size: int) -> tuple[Codes, int]:
    """A new code for each of `size` codes, and their number.

    Equal values get the same code, and codes are in the order of values, so that a range of values is a range
    of codes. Texts of digits are sorted among the texts; lists come last.
    """
    new = np.zeros(size, dtype=np.int32)
    new[:_FIRST] = np.arange(_FIRST)
    code = _FIRST
    of_texts = values.text_codes, _is_new(values.texts)
    plain = ~values.number_texts
    of_numbers = values.number_codes[plain], _is_new(_chosen(values.numbers, plain))
    for codes, changes in (of_numbers, of_texts):
        if codes.size:
            new[codes] = code + np.cumsum(changes)
            code = int(new[codes[-1]]) + 1
    left = np.flatnonzero(new == 0)[1:]  # the first is MISSING
    new[left] = np.arange(code, code + left.size)
    return new, code + left.size


def _is_new(rising: Texts | Numbers) -> NDArray[np.int64]:
    """For each sorted value, 1 if it differs from the one before, else 0."""
    if isinstance(rising, np.ndarray):
        found = np.zeros(rising.size, dtype=np.int64)
        found[1:] = rising[1:] != rising[:-1]
        return found
    different = (one != other for one, other in pairwise(rising))
    return np.fromiter((0, *different) if rising else (), dtype=np.int64, count=len(rising))


def _run_starts(changes: NDArray[np.int64], *others: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value or one of its attributes differs from the one before; (n,), including the first."""
    other = changes.astype(np.bool_)
    other[:1] = True
    for each in others:
        other[1:] |= each[1:] != each[:-1]
    return other


def _chosen(numbers: Numbers, wanted: NDArray[np.bool_]) -> Numbers:
    return numbers[wanted] if isinstance(numbers, np.ndarray) else list(compress(numbers, wanted))


_JSON = np.dtype(np.uint8)  # of texts, and of integers that a float would round


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Serialize arrays as an .npz file."""
    with io.BytesIO() as stream:
        np.savez(stream, **arrays)
        return stream.getvalue()


def unpacked(content: bytes, names: Iterable[str]) -> list[NDArray[Any]] | None:
    """Read arrays of an .npz file by name; None if it is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            # Reading all of it verifies the checksum; `np.load` of the file may stop before the end.
            return [np.asarray(np.load(io.BytesIO(file.read(f"{name}.npy")))) for name in names]
    # RuntimeError and others: unsupported compression, passwords.
    except (EOFError, KeyError, OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None


def _as_array(values: Any) -> NDArray[Any]:  # noqa: ANN401
    if isinstance(values, np.ndarray):
        return values
    return np.frombuffer(json.dumps(values).encode(), dtype=_JSON)


def _from_array(array: NDArray[Any]) -> Any:  # noqa: ANN401
    return json.loads(array.tobytes()) if array.dtype == _JSON else array


def _listed(values: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    return ((each, code) for value, code in values if isinstance(value, list) for each in value)
