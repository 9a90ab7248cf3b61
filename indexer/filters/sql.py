"""From an `Expression` to a SQL condition over the documents table; every value goes as a bound parameter.

`id`, `title`, `text` and `source` mean the document's own columns; every other name, and `metadata.NAME`,
reaches into its metadata. Nothing here is ever NULL, so that NOT keeps its meaning.
"""

from typing import Any, TypeGuard

import sqlalchemy as sa
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
_MOMENT = "____-__-__%"
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
        return value.contains(expression.value)
    if expression.operator is Operator.EQUAL:
        return sa.or_(value.compared(expression.operator, expression.value), value.has(expression.value))
    return value.compared(expression.operator, expression.value)


def _any_of(expression: Or, dialect: str) -> Condition:
    # `id in (…)` with thousands of ids is one IN over the indexed column, not thousands of ORs.
    ids: list[str] = []
    others: list[Condition] = []
    for part in expression.operands:
        if _is_id(part) and isinstance(part.value, str):
            ids.append(part.value)
        else:
            others.append(condition(part, dialect))
    if ids:
        others.append(documents.c.id.in_(ids))
    return sa.or_(sa.false(), *others)


def _is_id(part: Expression) -> TypeGuard[Compare]:
    return isinstance(part, Compare) and part.field == ("id",) and part.operator is Operator.EQUAL


def _field(path: Path, dialect: str) -> "_Column | _SqliteJson | _PostgresJson":
    if len(path) == 1 and path[0] in _COLUMNS:
        return _Column(_COLUMNS[path[0]], dialect)
    inside = path[1:] if path[0] == "metadata" and len(path) > 1 else path
    if any('"' in name or "\0" in name for name in inside):
        raise BadFilterError(f"{'.'.join(path)!r} is not a field's name. Names hold no quotes")
    return _SqliteJson(inside) if dialect == "sqlite" else _PostgresJson(inside)


def _ordered(left: ColumnElement[Any], operator: Operator, value: Scalar, dialect: str) -> Condition:
    """A comparison of two values of one kind; text by code point."""
    if isinstance(value, Moment):
        if value.is_day:
            left = sa.func.substr(left, 1, 10)
        return sa.and_(
            sa.func.substr(left, 1, 10).like(_MOMENT), _ordered(left, operator, value.iso, dialect)
        )
    if isinstance(value, str) and dialect == "postgresql":
        left = sa.collate(left, "C")
    compared: dict[Operator, Condition] = {
        Operator.EQUAL: left == value,
        Operator.LESS: left < value,
        Operator.LESS_OR_EQUAL: left <= value,
        Operator.GREATER: left > value,
        Operator.GREATER_OR_EQUAL: left >= value,
    }
    return compared[operator]


def _never_null(value: Condition) -> Condition:
    return sa.func.coalesce(value, sa.false())


class _Column:
    """One of the document's own columns: text, or NULL for a document without a source."""

    def __init__(self, column: ColumnElement[str], dialect: str) -> None:
        self.column = column
        self.dialect = dialect

    def present(self) -> Condition:
        return sa.and_(self.column.is_not(None), self.column != "")

    def compared(self, operator: Operator, value: Scalar) -> Condition:
        if not isinstance(value, str | Moment):
            return sa.false()
        return _never_null(_ordered(self.column, operator, value, self.dialect))

    def has(self, _value: Scalar) -> Condition:
        return sa.false()

    def contains(self, value: Scalar) -> Condition:
        if not isinstance(value, str):
            return sa.false()
        find = sa.func.instr if self.dialect == "sqlite" else sa.func.strpos
        return _never_null(find(self.column, value) > 0)


class _SqliteJson:
    """A metadata field in SQLite's JSON functions. https://sqlite.org/json1.html"""

    def __init__(self, path: Path) -> None:
        self.path = "$" + "".join(f'."{name}"' for name in path)
        self.kind = sa.func.json_type(documents.c.metadata, self.path)
        self.value = sa.func.json_extract(documents.c.metadata, self.path)

    def present(self) -> Condition:
        return _never_null(self.kind != "null")

    def compared(self, operator: Operator, value: Scalar) -> Condition:
        return _sqlite_compared(self.kind, self.value, operator, value)

    def has(self, value: Scalar) -> Condition:
        each = sa.func.json_each(documents.c.metadata, self.path).table_valued(
            "value", "type", joins_implicitly=True
        )
        match = _sqlite_compared(each.c.type, each.c.value, Operator.EQUAL, value)
        found = sa.exists(sa.select(sa.literal(1)).select_from(each).where(match))
        return sa.case((self.kind == "array", found), else_=sa.false())

    def contains(self, value: Scalar) -> Condition:
        piece: Condition = sa.false()
        if isinstance(value, str):
            piece = sa.case((self.kind == "text", sa.func.instr(self.value, value) > 0), else_=sa.false())
        return sa.or_(piece, self.has(value))


def _sqlite_compared(
    kind: ColumnElement[str], value: ColumnElement[Any], operator: Operator, literal: Scalar
) -> Condition:
    if isinstance(literal, bool):
        return _never_null(kind == str(literal).lower())
    compared = _ordered(value, operator, literal, "sqlite")
    if isinstance(literal, str | Moment):
        return sa.case((kind == "text", compared), else_=sa.false())
    digits = sa.and_(
        kind == "text", value.op("NOT GLOB")("*[^0-9]*"), sa.func.length(value).between(1, _DIGITS)
    )
    return sa.case(
        (kind.in_(("integer", "real")), compared),
        (digits, _ordered(sa.cast(value, sa.Integer), operator, literal, "sqlite")),
        else_=sa.false(),
    )


class _PostgresJson:
    """A metadata field in PostgreSQL's jsonb. https://www.postgresql.org/docs/current/functions-json.html"""

    def __init__(self, path: Path) -> None:
        self.value = sa.func.jsonb_extract_path(documents.c.metadata, *path)
        self.kind = sa.func.jsonb_typeof(self.value)

    def present(self) -> Condition:
        return _never_null(self.kind != "null")

    def compared(self, operator: Operator, value: Scalar) -> Condition:
        return _postgres_compared(self.value, operator, value)

    def has(self, value: Scalar) -> Condition:
        array = sa.case((self.kind == "array", self.value), else_=sa.text("'[]'::jsonb"))
        each = sa.func.jsonb_array_elements(array).table_valued("value", joins_implicitly=True)
        element = sa.type_coerce(each.c.value, documents.c.metadata.type)
        return sa.exists(
            sa.select(sa.literal(1))
            .select_from(each)
            .where(_postgres_compared(element, Operator.EQUAL, value))
        )

    def contains(self, value: Scalar) -> Condition:
        piece: Condition = sa.false()
        if isinstance(value, str):
            found = sa.func.strpos(_postgres_text(self.value), value) > 0
            piece = sa.case((self.kind == "string", found), else_=sa.false())
        return sa.or_(piece, self.has(value))


def _postgres_text(value: ColumnElement[object]) -> ColumnElement[str]:
    return sa.cast(sa.func.jsonb_extract_path_text(sa.func.jsonb_build_array(value), "0"), sa.Text)


def _postgres_compared(value: ColumnElement[object], operator: Operator, literal: Scalar) -> Condition:
    kind = sa.func.jsonb_typeof(value)
    if isinstance(literal, bool):
        return _never_null(sa.and_(kind == "boolean", _postgres_text(value) == str(literal).lower()))
    if isinstance(literal, str | Moment):
        return sa.case(
            (kind == "string", _ordered(_postgres_text(value), operator, literal, "postgresql")),
            else_=sa.false(),
        )
    text = _postgres_text(value)
    digits = sa.and_(kind == "string", text.op("~")(f"^[0-9]{{1,{_DIGITS}}}$"))
    compared = _ordered(sa.cast(text, sa.Numeric), operator, literal, "postgresql")
    return sa.case((sa.or_(kind == "number", digits), compared), else_=sa.false())
