"""The fields of a collection's metadata and suitable filters for them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias, cast

import sqlalchemy as sa

from nearsay.data.document import JsonValue
from nearsay.data.report import as_json
from nearsay.indexer.catalogue.documents import first_metadata
from nearsay.indexer.filters.column import DIGITS, Column
from nearsay.indexer.filters.expression import Kind
from nearsay.indexer.filters.known import column_of, ready_fields, state_of

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?", re.DOTALL)
_LONGEST = 80  # characters of a category
_MOST_CATEGORIES = 200  # distinct values of a category field
_REPEATED = 2.0  # least mean number of documents a category, for more than a few categories
_FEW = 12
_DEEPEST = 3  # nested names

_PLAIN = re.compile(r"[^\W\d][\w-]*")
_TAKEN = {"id", "title", "text", "source", "metadata", "cluster"}
_WORDS = {"and", "or", "not", "in", "is"}  # keywords, in upper or lower case

Value: TypeAlias = str | int | float | bool


class FieldKind(StrEnum):
    """The type of filter that suits a field."""

    CATEGORY = "category"  # repeated short texts, true and false, lists of these
    NUMBER = "number"  # a range; texts of digits are numbers, too
    DATE = "date"  # ISO dates and timestamps: a range of days
    TEXT = "text"  # other text: a substring


@dataclass(frozen=True, slots=True)
class FieldLook:
    """A metadata field as found in some documents."""

    name: str  # as in a filter: year, author.name
    kind: FieldKind
    values: tuple[Value, ...]  # found, most frequent first; of categories and of few numbers
    low: str | int | float | None  # of numbers and dates: the least value found; `high`: the greatest
    high: str | int | float | None
    documents: int  # with the field, of those read
    counted: bool = False  # whether its column is loaded, so that counting its values is fast

    def to_json(self) -> dict[str, JsonValue]:
        """As a JSON object."""
        return cast("dict[str, JsonValue]", as_json(self))


def field_looks(connection: sa.Connection, collection_id: int) -> list[FieldLook]:
    """The fields of a collection's first documents, with bounds over all documents if a column is loaded.

    By descending number of documents, then by name. Lists and objects that cannot be filtered, and names that
    the filter language cannot express, are omitted.
    """
    state = state_of(connection, collection_id)
    ready = {written_field(path): path for path in ready_fields(connection, state)}
    looks = []
    for look in looks_of(first_metadata(connection, collection_id)):
        path = ready.get(look.name)
        looks.append(look if path is None else _bounded(look, column_of(connection, state, path)[0]))
    return looks


def looks_of(rows: Iterable[Mapping[str, JsonValue]]) -> list[FieldLook]:
    """The fields of these documents' metadata; see `field_looks`."""
    found: dict[str, list[JsonValue]] = {}
    for row in rows:
        for name, value in _flat(row, (), _DEEPEST):
            found.setdefault(name, []).append(value)
    looks = [look for name, values in found.items() if (look := _look(name, values)) is not None]
    return sorted(looks, key=lambda look: (-look.documents, look.name))


def named_values(metadata: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Each value of a document's metadata with its field name for display; nested names as in a filter.

    {"author": {"born": {"year": 1975}}} has author.born.year. An object with a name, or under a name, that is
    not an identifier is one value, and so are lists and empty objects.
    """
    for name, value in metadata.items():
        yield from _inside((name,), value)


def _inside(path: tuple[str, ...], value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, Mapping) and value and all(_PLAIN.fullmatch(part) for part in (*path, *value)):
        for part, inner in value.items():
            yield from _inside((*path, part), inner)
    else:
        yield (path[0] if len(path) == 1 else _plainly(path)), value


def _flat(
    row: Mapping[str, JsonValue], above: tuple[str, ...], deeper: int
) -> Iterable[tuple[str, JsonValue]]:
    for part, value in row.items():
        path = (*above, part)
        if isinstance(value, Mapping):
            if deeper > 1:
                yield from _flat(value, path, deeper - 1)
        elif value is not None and (name := written_field(path)) is not None:
            yield name, value


def value_at(metadata: Mapping[str, JsonValue], path: Sequence[str]) -> JsonValue:
    """The value at a path of names in the metadata; None if there is none."""
    found: Any = metadata
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    value: JsonValue = found
    return value


def written_field(path: Sequence[str]) -> str | None:
    """The name of a field in a filter; None if the language cannot express it.

    A name with another meaning there is prefixed with `metadata.`.
    """
    if all(_PLAIN.fullmatch(part) for part in path):
        return _plainly(path)
    if len(path) > 1 or not path[0] or any(sign in path[0] for sign in '"`\0'):
        return None
    return f"`{path[0]}`"


def _plainly(path: Sequence[str]) -> str:
    other = path[0] in _TAKEN or path[0].lower() in _WORDS
    return ".".join(("metadata", *path) if other else path)


def _look(name: str, values: Sequence[JsonValue]) -> FieldLook | None:
    count = len(values)
    plain = [one for value in values for one in (value if isinstance(value, list) else [value])]
    simple: list[Value] = [one for one in plain if isinstance(one, str | int | float | bool)]
    if not simple:
        return None
    lists = any(isinstance(value, list) for value in values)
    numbers = [number for one in simple if (number := _number(one)) is not None]
    if len(numbers) == len(simple) and not lists:
        few = tuple(value for value, _ in Counter(numbers).most_common(_FEW + 1))
        shown = tuple(sorted(few)) if len(few) <= _FEW else ()
        return FieldLook(name, FieldKind.NUMBER, shown, min(numbers), max(numbers), count)
    texts = [one for one in simple if isinstance(one, str)]
    if len(texts) == len(simple) and not lists and all(_DAY.fullmatch(text) for text in texts):
        days = [text[:10] for text in texts]
        return FieldLook(name, FieldKind.DATE, (), min(days), max(days), count)
    counts = Counter((isinstance(one, bool), one) for one in simple)  # in Python, True == 1
    if _are_categories(counts, texts, len(simple)):
        order = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0][1])))
        return FieldLook(name, FieldKind.CATEGORY, tuple(value for (_, value), _ in order), None, None, count)
    return None if not texts else FieldLook(name, FieldKind.TEXT, (), None, None, count)


def _are_categories(counts: Counter[tuple[bool, Value]], texts: Sequence[str], values: int) -> bool:
    if len(counts) > _MOST_CATEGORIES or any(len(text) > _LONGEST for text in texts):
        return False
    return len(counts) <= _FEW or values >= _REPEATED * len(counts)


def _number(value: Value) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if DIGITS.fullmatch(value) else None
    return value


def _bounded(look: FieldLook, column: Column) -> FieldLook:
    """The field with its least and greatest number or date in all documents, outside lists."""
    if look.kind is FieldKind.NUMBER and (numbers := column.bounds(Kind.NUMBER)) is not None:
        low, high = (int(number) if number % 1 == 0 else float(number) for number in numbers)
        return replace(look, low=low, high=high, counted=True)
    if look.kind is FieldKind.DATE and (texts := column.bounds(Kind.TEXT)) is not None:
        first, last = (str(text)[:10] for text in texts)
        if _DAY.fullmatch(first) and _DAY.fullmatch(last):  # otherwise other texts are among them
            return replace(look, low=first, high=last, counted=True)
    return replace(look, counted=True)
