"""From an `Expression` to a SQL condition over the documents table; every value goes as a bound parameter.

`id`, `title`, `text` and `source` mean the document's own columns; every other name, and `metadata.NAME`,
reaches into its metadata. Nothing here is ever NULL, so that NOT keeps its meaning.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONPATH
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue.tables import documents
from nearsay.indexer.errors import BadFilterError
from nearsay.indexer.filters.expression import (
    And,
    Compare,
    Contains,
    Expression,
    Moment,
    Not,
    Operator,
    Or,
    Path,
    Present,
    Scalar,
)

__all__ = ["condition"]

Condition = ColumnElement[bool]
_COLUMNS = {name: documents.c[name] for name in ("id", "title", "text", "source")}
_DIGITS = 18  # text of so many digits fits a 64-bit integer and counts as a number


def condition(expression: Expression, dialect: str) -> Condition:
    """The expression as a condition for `SELECT … FROM documents`; `dialect`: sqlite or postgresql."""
    if isinstance(expression, And):
        return sa.and_(sa.true(), *(condition(part, dialect) for part in expression.operands))
    if isinstance(expression, Or):
        return _any_of(expression, dialect)
    if isinstance(expression, Not):
        return sa.not_(condition(expression.operand, dialect))
    value = _field(expression.field, dialect)
    if isinstance(expression, Present):
        return value.present()
    if isinstance(expression, Contains):
        return value.contains(expression.value, _test(Operator.EQUAL, expression.value, dialect))
    test = _test(expression.operator, expression.value, dialect)
    if expression.operator is Operator.EQUAL:
        return sa.or_(value.compared(test), value.has(test))
    return value.compared(test)


def _any_of(expression: Or, dialect: str) -> Condition:
    # `venue in (…)` with thousands of values is one parameter, not thousands of ORs.
    among: defaultdict[tuple[Path, _Kind], list[Scalar]] = defaultdict(list)
    parts: list[Condition] = []
    for part in expression.operands:
        if isinstance(part, Compare) and part.operator is Operator.EQUAL and _listed(part.value):
            among[part.field, _kind(part.value)].append(part.value)
        else:
            parts.append(condition(part, dialect))
    for (path, kind), values in among.items():
        value, test = _field(path, dialect), _among(values, kind, dialect)
        parts.append(sa.or_(value.compared(test), value.has(test)))
    return sa.or_(sa.false(), *parts)


def _field(path: Path, dialect: str) -> "_Column | _SqliteJson | _PostgresJson":
    if len(path) == 1 and path[0] in _COLUMNS:
        return _Column(_COLUMNS[path[0]], dialect)
    inside = path[1:] if path[0] == "metadata" and len(path) > 1 else path
    if any('"' in name or "\0" in name for name in inside):
        raise BadFilterError(f"{'.'.join(path)!r} is not a field's name. Names hold no quotes")
    return _SqliteJson(inside) if dialect == "sqlite" else _PostgresJson(inside)


class _Kind(Enum):
    """Values of one kind are compared, those of two never."""

    TEXT = auto()
    NUMBER = auto()
    TRUE = auto()
    FALSE = auto()


@dataclass(frozen=True, slots=True)
class _Test:
    """What a value has to be; `holds` is asked about SQL values of that kind alone."""

    kind: _Kind
    holds: Callable[[ColumnElement[Any]], Condition]


def _kind(value: Scalar) -> _Kind:
    if isinstance(value, bool):
        return _Kind.TRUE if value else _Kind.FALSE
    return _Kind.TEXT if isinstance(value, str | Moment) else _Kind.NUMBER


def _listed(value: Scalar) -> bool:
    return not isinstance(value, bool | Moment)


def _test(operator: Operator, value: Scalar, dialect: str) -> _Test:
    if isinstance(value, Moment):
        return _Test(_Kind.TEXT, lambda left: _dated(left, operator, value, dialect))
    return _Test(_kind(value), lambda left: _ordered(left, operator, value, dialect))


def _among(values: Sequence[Scalar], kind: _Kind, dialect: str) -> _Test:
    """Equal to one of texts, or to one of numbers."""
    if len(values) == 1:
        return _test(Operator.EQUAL, values[0], dialect)
    if dialect == "sqlite":
        listed = sa.func.json_each(json.dumps(values, ensure_ascii=False)).table_valued("value")
        return _Test(kind, lambda left: left.in_(sa.select(listed.c.value)))
    array = sa.cast([str(value) for value in values], ARRAY(sa.Text))
    if kind is _Kind.NUMBER:
        array = sa.cast(array, ARRAY(sa.Numeric))
    return _Test(kind, lambda left: left == sa.any_(array))


def _ordered(left: ColumnElement[Any], operator: Operator, value: Scalar, dialect: str) -> Condition:
    """A comparison of two values of one kind; text by code point."""
    right: Any = value
    if isinstance(value, str) and dialect == "postgresql" and operator is not Operator.EQUAL:
        left = sa.collate(left, "C")
    elif isinstance(value, int | float) and dialect == "postgresql":
        right = sa.cast(sa.literal(str(value), sa.Text), sa.Numeric)  # a double would be rounded on its way
    elif isinstance(value, float):
        right = sa.cast(sa.literal(str(value), sa.Text), sa.Float)  # read as the stored numbers are read
    compared: dict[Operator, Condition] = {
        Operator.EQUAL: left == right,
        Operator.LESS: left < right,
        Operator.LESS_OR_EQUAL: left <= right,
        Operator.GREATER: left > right,
        Operator.GREATER_OR_EQUAL: left >= right,
    }
    return compared[operator]


def _dated(left: ColumnElement[Any], operator: Operator, moment: Moment, dialect: str) -> Condition:
    """A comparison of a text that begins with a day; any other text is of another kind."""
    day = sa.func.substr(left, 1, 10, type_=sa.Text)
    if dialect == "sqlite":
        is_date: Condition = day.op("GLOB", is_comparison=True)("-".join(["[0-9]" * n for n in (4, 2, 2)]))
    else:
        is_date = day.op("~", is_comparison=True)("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    return sa.and_(is_date, _ordered(day if moment.is_day else left, operator, moment.iso, dialect))


def _never_null(value: Condition) -> Condition:
    return sa.func.coalesce(value, sa.false())


class _Column:
    """One of the document's own columns: text, or NULL for a document without a source."""

    def __init__(self, column: sa.Column[Any], dialect: str) -> None:
        self.column = column
        self.dialect = dialect

    def present(self) -> Condition:
        return sa.and_(self.column.is_not(None), self.column != "")

    def compared(self, test: _Test) -> Condition:
        if test.kind is _Kind.TEXT:
            found = test.holds(self.column)
        elif test.kind is _Kind.NUMBER:
            sqlite = self.dialect == "sqlite"
            digits = (_sqlite_digits if sqlite else _postgres_digits)(self.column)
            number = sa.cast(self.column, sa.Integer if sqlite else sa.Numeric)
            found = sa.case((digits, test.holds(number)), else_=sa.false())
        else:
            found = sa.false()
        return _never_null(found) if self.column.nullable else found

    def has(self, _test: _Test) -> Condition:
        return sa.false()

    def contains(self, value: Scalar, _test: _Test) -> Condition:
        if not isinstance(value, str):
            return sa.false()
        find = sa.func.instr if self.dialect == "sqlite" else sa.func.strpos
        return _never_null(find(self.column, value) > 0)


class _SqliteJson:
    """A metadata field in SQLite's JSON functions. https://sqlite.org/json1.html"""

    def __init__(self, path: Path) -> None:
        # Names stand in the path as they stand in the stored text.
        self.path = "$" + "".join(f".{json.dumps(name, ensure_ascii=False)}" for name in path)
        self.kind = sa.func.json_type(documents.c.metadata, self.path, type_=sa.Text)
        self.value: ColumnElement[Any] = sa.func.json_extract(documents.c.metadata, self.path)

    def present(self) -> Condition:
        return _never_null(self.kind != "null")

    def compared(self, test: _Test) -> Condition:
        return _sqlite_compared(self.kind, self.value, test)

    def has(self, test: _Test) -> Condition:
        each = sa.func.json_each(documents.c.metadata, self.path).table_valued(
            "value", "type", joins_implicitly=True
        )
        match = _sqlite_compared(each.c.type, each.c.value, test)
        found = sa.exists(sa.select(sa.literal(1)).select_from(each).where(match))
        return sa.case((self.kind == "array", found), else_=sa.false())

    def contains(self, value: Scalar, test: _Test) -> Condition:
        piece: Condition = sa.false()
        if isinstance(value, str):
            piece = sa.case((self.kind == "text", sa.func.instr(self.value, value) > 0), else_=sa.false())
        return sa.or_(piece, self.has(test))


def _sqlite_digits(text: ColumnElement[str]) -> Condition:
    return sa.and_(
        text.op("NOT GLOB", is_comparison=True)("*[^0-9]*"), sa.func.length(text).between(1, _DIGITS)
    )


def _sqlite_compared(kind: ColumnElement[str], value: ColumnElement[Any], test: _Test) -> Condition:
    if test.kind is _Kind.TEXT:
        return sa.case((kind == "text", test.holds(value)), else_=sa.false())
    if test.kind is _Kind.NUMBER:
        return sa.case(
            (sa.or_(kind == "integer", kind == "real"), test.holds(value)),
            (sa.and_(kind == "text", _sqlite_digits(value)), test.holds(sa.cast(value, sa.Integer))),
            else_=sa.false(),
        )
    return _never_null(kind == ("true" if test.kind is _Kind.TRUE else "false"))


class _PostgresJson:
    """A metadata field in PostgreSQL's jsonb. https://www.postgresql.org/docs/current/functions-json.html"""

    def __init__(self, path: Path) -> None:
        # Strict: a number in the path names a field and no element of a list, as in SQLite.
        text = "strict $" + "".join(f".{json.dumps(name, ensure_ascii=False)}" for name in path)
        where = sa.cast(sa.literal(text, sa.Text), JSONPATH)
        self.value: ColumnElement[Any] = sa.func.jsonb_path_query_first(
            documents.c.metadata, where, sa.text("'{}'"), sa.true(), type_=documents.c.metadata.type
        )
        self.kind = sa.func.jsonb_typeof(self.value, type_=sa.Text)

    def present(self) -> Condition:
        return _never_null(self.kind != "null")

    def compared(self, test: _Test) -> Condition:
        return _postgres_compared(self.value, test)

    def has(self, test: _Test) -> Condition:
        array = sa.case((self.kind == "array", self.value), else_=sa.text("'[]'::jsonb"))
        each = sa.func.jsonb_array_elements(array).table_valued("value", joins_implicitly=True)
        element = sa.type_coerce(each.c.value, documents.c.metadata.type)
        return sa.exists(sa.select(sa.literal(1)).select_from(each).where(_postgres_compared(element, test)))

    def contains(self, value: Scalar, test: _Test) -> Condition:
        piece: Condition = sa.false()
        if isinstance(value, str):
            found = sa.func.strpos(_postgres_text(self.value), value) > 0
            piece = sa.case((self.kind == "string", found), else_=sa.false())
        return sa.or_(piece, self.has(test))


def _postgres_text(value: ColumnElement[Any]) -> ColumnElement[str]:
    return sa.cast(sa.func.jsonb_extract_path_text(sa.func.jsonb_build_array(value), "0"), sa.Text)


def _postgres_digits(text: ColumnElement[str]) -> Condition:
    return text.op("~", is_comparison=True)(f"^[0-9]{{1,{_DIGITS}}}$")


def _postgres_compared(value: ColumnElement[Any], test: _Test) -> Condition:
    kind = sa.func.jsonb_typeof(value, type_=sa.Text)
    text = _postgres_text(value)
    if test.kind is _Kind.TEXT:
        return sa.case((kind == "string", test.holds(text)), else_=sa.false())
    if test.kind is _Kind.NUMBER:
        is_number = sa.or_(kind == "number", sa.and_(kind == "string", _postgres_digits(text)))
        return sa.case((is_number, test.holds(sa.cast(text, sa.Numeric))), else_=sa.false())
    wanted = "true" if test.kind is _Kind.TRUE else "false"
    return _never_null(sa.and_(kind == "boolean", text == wanted))
