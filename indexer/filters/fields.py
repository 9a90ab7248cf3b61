"""The fields of a collection's metadata: how they can be asked for, and those that are declared."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

import sqlalchemy as sa

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.bulk import count_of
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.documents import first_metadata
from nearsay.indexer.catalogue.field_values import (
    DeclaredField,
    declare,
    declared,
    forget,
    value_rows,
)
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.tables import documents, field_values
from nearsay.indexer.filters.expression import Path
from nearsay.indexer.filters.parse import parse_field
from nearsay.indexer.filters.sql import metadata_path

__all__ = [
    "DeclareReport",
    "FieldKind",
    "FieldLook",
    "check_fields",
    "declare_fields",
    "declared_names",
    "field_looks",
    "forget_fields",
    "looks_of",
]


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?", re.DOTALL)
_DIGITS = re.compile(r"[0-9]{1,18}")  # such a text counts as a number in filters
_LONGEST = 80  # characters of a category
_MOST_CATEGORIES = 200  # different values that can be chosen from, however many documents
_REPEATED = 2.0  # documents a category, at least, where there are more than a few
_FEW = 12
_DEEPEST = 3  # names inside one another

_PLAIN = re.compile(r"[^\W\d][\w-]*")
_TAKEN = {"id", "title", "text", "source", "metadata", "cluster", "and", "or", "not", "in", "is"}

Value: TypeAlias = str | int | float | bool


class FieldKind(StrEnum):
    """How a field is asked for."""

    CATEGORY = "category"  # short texts that come back, true and false, lists of such
    NUMBER = "number"  # a range; texts of digits are numbers, too
    DATE = "date"  # ISO dates and timestamps: from a day, to a day
    TEXT = "text"  # anything else that is text: a piece of it


@dataclass(frozen=True, slots=True)
class FieldLook:
    """A metadata field as some documents have it."""

    name: str  # as a filter writes it: year, author.name
    kind: FieldKind
    values: tuple[Value, ...]  # that were seen, the commonest first; of categories and of few numbers
    low: str | int | float | None  # of numbers and dates: the least that was seen, and the greatest
    high: str | int | float | None
    documents: int  # that have it, of those that were looked at


def field_looks(connection: sa.Connection, collection_id: int) -> list[FieldLook]:
    """The fields of a collection's first documents; bounds of declared ones are those of all documents.

    Fields that most documents have come first, then by name. Lists and objects that cannot be asked for, and
    names that the filter language has no way to write, are left out.
    """
    looks = looks_of(first_metadata(connection, collection_id))
    kept = {_written(field.path): field.id for field in declared(connection, collection_id)}
    return [_widened(connection, look, kept[look.name]) if look.name in kept else look for look in looks]


def looks_of(rows: Iterable[Mapping[str, JsonValue]]) -> list[FieldLook]:
    """The fields of documents' metadata; see `field_looks`."""
    found: dict[str, list[JsonValue]] = {}
    for row in rows:
        for name, value in _flat(row, (), _DEEPEST):
            found.setdefault(name, []).append(value)
    looks = [look for name, values in found.items() if (look := _look(name, values)) is not None]
    return sorted(looks, key=lambda look: (-look.documents, look.name))


def _flat(
    row: Mapping[str, JsonValue], above: tuple[str, ...], deeper: int
) -> Iterable[tuple[str, JsonValue]]:
    for part, value in row.items():
        path = (*above, part)
        if isinstance(value, Mapping):
            if deeper > 1:
                yield from _flat(value, path, deeper - 1)
        elif value is not None and (name := _written(path)) is not None:
            yield name, value


def _written(path: Sequence[str]) -> str | None:
    """A field's name in a filter; None if the language has no way to write it.

    One that means something else there reaches the metadata by its full name.
    """
    if all(_PLAIN.fullmatch(part) for part in path):
        return ".".join(("metadata", *path) if path[0] in _TAKEN else path)
    if len(path) > 1 or not path[0] or any(sign in path[0] for sign in '"`\0'):
        return None
    return f"`{path[0]}`"


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
    counts = Counter((isinstance(one, bool), one) for one in simple)  # True is 1 for Python
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
        return int(value) if _DIGITS.fullmatch(value) else None
    return value


def _widened(connection: sa.Connection, look: FieldLook, field: int) -> FieldLook:
    """With the least and the greatest number or date of a declared field, from its index."""
    if look.kind not in (FieldKind.NUMBER, FieldKind.DATE):
        return look
    column: sa.Column[Any] = field_values.c.number if look.kind is FieldKind.NUMBER else field_values.c.text
    of_field = (field_values.c.field == field, field_values.c.element == sa.false(), column.is_not(None))
    statement = sa.select(column).where(*of_field).limit(1)
    orders = (column.asc(), column.desc())  # two looks into an index, where min and max scan
    low, high = (connection.execute(statement.order_by(order)).scalar_one_or_none() for order in orders)
    if low is None or high is None:
        return look
    if look.kind is FieldKind.NUMBER:
        return replace(look, low=float(low), high=float(high))
    low, high = low[:10], high[:10]
    if not (_DAY.fullmatch(low) and _DAY.fullmatch(high)):  # another kind of text among them
        return look
    return replace(look, low=low, high=high)


@dataclass(frozen=True, slots=True)
class DeclareReport:
    """What declaring fields did."""

    declared: tuple[str, ...]  # anew
    already: tuple[str, ...]  # were declared before; nothing was done
    documents: int  # whose values were entered
    values: int  # that were entered; elements of lists count
    seconds: float
    notes: tuple[str, ...]  # fields that no document has


def declare_fields(store: Store, row: CollectionRow, names: Iterable[str]) -> DeclareReport:
    """Declare metadata fields, a transaction each; the caller holds the writer lock.

    So other collections' writers wait for no more than one field. What stops it leaves the fields declared
    that were done. BadInputError for the document's own columns, which need no declaring.
    """
    wanted = _wanted(names)
    begin = time.perf_counter()
    with store.database.reading() as connection:
        known = {field.path for field in declared(connection, row.id)}
    fresh = [path for path in wanted if path not in known]
    entered: dict[Path, int] = {}
    count = 0
    for path in fresh:
        with store.database.writing() as connection:
            field = declare(connection, row.id, path, now())
            entered[path] = count_of(connection, field_values, field_values.c.field == field.id)
            count, _ = collections.size(connection, row.id)
            collections.changed(connection, row.id)
    return DeclareReport(
        declared=tuple(shown(path) for path in fresh),
        already=tuple(shown(path) for path in wanted if path in known),
        documents=count,
        values=sum(entered.values()),
        seconds=round(time.perf_counter() - begin, 3),
        notes=tuple(f"no document has a field '{shown(path)}' yet" for path in fresh if not entered[path]),
    )


def forget_fields(store: Store, row: CollectionRow, names: Iterable[str]) -> tuple[str, ...]:
    """Take declared fields back, a transaction each; their names. Filters over them work on, more slowly.

    BadInputError if one was not declared; then none is taken back. The caller holds the writer lock.
    """
    wanted = _wanted(names)
    with store.database.reading() as connection:
        known = {field.path: field for field in declared(connection, row.id)}
        strange = [shown(path) for path in wanted if path not in known]
        if strange:
            there = ", ".join(shown(path) for path in known) or "none"
            raise BadInputError(
                f"'{strange[0]}' is not a declared field of '{row.name}'; declared are: {there}. "
                f"See them: nearsay documents fields {row.name}"
            )
    for path in wanted:
        with store.database.writing() as connection:
            forget(connection, [known[path]])
            collections.changed(connection, row.id)
    return tuple(shown(path) for path in wanted)


def declared_names(store: Store, row: CollectionRow) -> tuple[str, ...]:
    """The collection's declared fields, as a filter writes them."""
    with store.database.reading() as connection:
        return tuple(shown(field.path) for field in declared(connection, row.id))


def shown(path: Path) -> str:
    """A field as a filter writes it."""
    return f"`{path[0]}`" if len(path) == 1 and "." in path[0] else ".".join(path)


def _wanted(names: Iterable[str]) -> list[Path]:
    if isinstance(names, str):
        raise BadInputError(f"'{names}' is one name, not a list of names. Put it in a list: ['{names}']")
    wanted: dict[Path, None] = {}
    for name in names:
        path = metadata_path(parse_field(name))
        if path is None:
            raise BadInputError(
                f"'{name}' is a document's own, not a field of its metadata. Only those can be declared"
            )
        wanted[path] = None
    return list(wanted)


_COMPARED = ("document", "place", "element", "kind", "text", "number")


def check_fields(connection: sa.Connection, collection_id: int) -> str | None:
    """Make the values of every declared field anew and compare them with those that are kept.

    None if they agree; else which field's are wrong, and the remedy. Nothing is written. It takes as long as
    declaring the fields does.
    """
    faults = {}
    for field in declared(connection, collection_id):
        lacking, stray = _differences(connection, collection_id, field)
        if lacking or stray:
            faults[shown(field.path)] = f"{lacking} lacking, {stray} that no document has"
    if not faults:
        return None
    name = collections.name_of(connection, collection_id)
    said = "; ".join(f"values of '{field}': {fault}" for field, fault in faults.items())
    anew = " ".join(f"--forget '{field}' --declare '{field}'" for field in faults)
    return f"{said}. Enter them anew: nearsay documents fields {name} {anew}"


def _differences(connection: sa.Connection, collection_id: int, field: DeclaredField) -> tuple[int, int]:
    """How many values the documents have that are not kept, and how many are kept that they have not."""
    of_collection = documents.c.collection_id == collection_id
    made = (rows.subquery().c for rows in value_rows(field.path, connection.dialect.name, of_collection))
    wanted = sa.union_all(*(sa.select(*(columns[name] for name in _COMPARED)) for columns in made))
    kept = sa.select(*(field_values.c[name] for name in _COMPARED)).where(field_values.c.field == field.id)
    ways = ((wanted.subquery(), kept.subquery()), (kept.subquery(), wanted.subquery()))
    lacking, stray = (
        count_of(connection, sa.except_(sa.select(one), sa.select(other)).subquery()) for one, other in ways
    )
    return lacking, stray
