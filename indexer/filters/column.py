"""What a metadata field holds, as a column: a code for each document, and the different values in order.

A comparison is asked of the different values alone, so it costs a search in a sorted list and one look at
each document's code. A value is what SQL would compare: see expression.py.
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

MISSING, _TRUE, _FALSE, _OBJECT, _FIRST = range(5)  # codes; the first of the values that are numbered
DIGITS = re.compile("[0-9]{1,18}")  # such a text counts as a number
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EXACT = 2**53  # whole numbers up to it are exact as floats

_KNOWN_ELEMENTS = 50_000  # values whose code is looked up; others get a code each time they are read
_LONGEST_KNOWN = 500  # characters of such a value
_AT_ONCE = 250_000  # different values read before they are put in order

_TAKEN = 65_536  # numbers that are looked up together: NumPy widens them to 64 bits, here in the cache
_COMPARED = 4  # runs of codes that all documents are compared with; a look at a table costs as much

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
    number_texts: NDArray[np.bool_]  # which numbers are texts of digits
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

    def within(self, bounds: Sequence[Compare]) -> Codes:
        """The codes of the values that keep all bounds."""
        if all(kind_of(bound.value) is Kind.NUMBER for bound in bounds):
            each = [(bound.operator, bound.value) for bound in bounds]
            return self.number_codes[_common(self.numbers, each)]
        return reduce(np.intersect1d, [self.standing(bound.operator, bound.value) for bound in bounds])

    def renumbered(self, new: Codes) -> "_Sorted":
        """With other codes, by the ones there are; of what is the same twice in a row one is left."""
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
        """With more values and their codes; null, lists and objects among them count for nothing."""
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
    """Where the values stand that keep all bounds."""
    places = range(len(values))
    each = [places[_range(values, *bound)] for bound in bounds]
    return slice(max(some.start for some in each), min(some.stop for some in each))


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
    """Puts values, each with its code behind it, in order; where they go, and all values and codes."""
    more.sort(key=itemgetter(0))
    added = [value for value, *_ in more]
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
    return np.insert(codes, places, np.array([code for _, code, *_ in more], dtype=np.int32))


@dataclass(frozen=True)
class Column:
    """A metadata field of a collection's documents; 1 to 4 bytes a document, and the different values."""

    codes: NDArray[np.unsignedinteger]  # by document number; of numbers that no document has: missing
    size: int  # codes there are; a value may have several
    own: _Sorted  # the values themselves
    elements: _Sorted  # of the lists, with the lists' codes
    known: dict[str, int]  # the codes of the first different values by their JSON
    characters: int  # of its texts, about

    @property
    def nbytes(self) -> int:
        """Bytes that it holds, about."""
        values = self.own.nbytes + self.elements.nbytes + self.characters
        return self.codes.nbytes + values + 200 * len(self.known)

    def to_bytes(self) -> bytes:
        """As `from_bytes` takes it: the arrays of an .npz file."""
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
        """The column that was written; None for anything else."""
        names = [f"{part}.{each.name}" for part in ("own", "elements") for each in fields(_Sorted)]
        found = unpacked(content, ("codes", "size", *names))
        if found is None:
            return None
        codes, size, *arrays = found
        values = [_from_array(array) for array in arrays]
        own, elements = _Sorted(*values[: len(values) // 2]), _Sorted(*values[len(values) // 2 :])
        characters = _characters(own, elements)
        # A value that comes again gets another code.
        return cls(codes, int(size), own, elements, {"": MISSING}, characters)

    def bounds(self, kind: Kind) -> tuple[str, str] | tuple[float, float] | None:
        """The least and the greatest text or number that documents have, not in lists; None: there is none.

        Removed documents count until a compaction.
        """
        values: Any = self.own.texts if kind is Kind.TEXT else self.own.numbers
        return (values[0], values[-1]) if len(values) else None

    def documents(self, leaf: Leaf) -> NDArray[np.bool_]:
        """Which documents a comparison lets through, by their number."""
        held = self._held(leaf)
        turns = np.flatnonzero(held[1:] != held[:-1]) + 1  # the first code is that of missing values
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
    """The flags (m,) of numbers (n,), in the order of these; a third of NumPy's time for millions at once.

    Where the numbers follow one another, as those of documents of one passage do, none is looked up.
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
    """Of no documents."""
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
    """With the values of documents that are new, or have others now; None: they have too many characters.

    windows: document numbers (n,) and their values, each the first of a JSON list; "": no value
    through: the last document number that the column has to answer for
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
    if column.size == _FIRST:  # what comes later is numbered as it comes
        new, size = _in_order(own, size)
        codes, own, elements = new[codes], own.renumbered(new), elements.renumbered(new)
        known = {raw: int(new[code]) for raw, code in known.items()}
        characters = _characters(own, elements)
    return Column(codes.astype(np.min_scalar_type(size)), size, own, elements, known, characters)


def _characters(*parts: _Sorted) -> int:
    return sum(len(text) for part in parts for text in part.texts)


def _in_order(values: _Sorted, size: int) -> tuple[Codes, int]:
    """A new code for each of `size` codes, and how many there are then.

    Equal values get the same one, and neighbours follow one another, so that those in a range are a run.
    Texts of digits stand among the texts, and what is no single value after all others.
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
    left = np.flatnonzero(new == 0)[1:]  # the first is that of missing values
    new[left] = np.arange(code, code + left.size)
    return new, code + left.size


def _is_new(rising: Texts | Numbers) -> NDArray[np.int64]:
    """For each value 1 where another stands before it, else 0."""
    if isinstance(rising, np.ndarray):
        found = np.zeros(rising.size, dtype=np.int64)
        found[1:] = rising[1:] != rising[:-1]
        return found
    different = (one != other for one, other in pairwise(rising))
    return np.fromiter((0, *different) if rising else (), dtype=np.int64, count=len(rising))


def _run_starts(changes: NDArray[np.int64], *others: NDArray[Any]) -> NDArray[np.bool_]:
    """Where something is other than before: the values, or what belongs to them; (n,), the first included."""
    other = changes.astype(np.bool_)
    other[:1] = True
    for each in others:
        other[1:] |= each[1:] != each[:-1]
    return other


def _chosen(numbers: Numbers, wanted: NDArray[np.bool_]) -> Numbers:
    return numbers[wanted] if isinstance(numbers, np.ndarray) else list(compress(numbers, wanted))


_JSON = np.dtype(np.uint8)  # of texts, and of whole numbers that no float holds


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Arrays as the content of an .npz file."""
    with io.BytesIO() as stream:
        np.savez(stream, **arrays)
        return stream.getvalue()


def unpacked(content: bytes, names: Iterable[str]) -> list[NDArray[Any]] | None:
    """Arrays that were packed, by their names; None where a byte of them is another one."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            # Read whole, each is compared with its checksum; `np.load` of the file may stop before its end.
            return [np.asarray(np.load(io.BytesIO(file.read(f"{name}.npy")))) for name in names]
    # What the format's own fields may ask for: other compressions, passwords.
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
