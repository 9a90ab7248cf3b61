"""What a single value has to be, as SQL over values of one kind."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue.json_values import SqlValue
from nearsay.indexer.filters.expression import Kind, Moment, Operator, Scalar, kind_of

__all__ = ["Condition", "Test", "among", "compared", "has_piece", "never_null", "test"]

Condition = ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Test:
    """What a value has to be; `holds` is asked about SQL values of that kind alone."""

    kind: Kind
    holds: Callable[[ColumnElement[Any]], Condition]


def test(operator: Operator, value: Scalar, dialect: str) -> Test:
    """Whether a value stands so to a literal."""
    if isinstance(value, Moment):
        return Test(Kind.TEXT, lambda left: _dated(left, operator, value, dialect))
    return Test(kind_of(value), lambda left: _ordered(left, operator, value, dialect))


def among(values: Sequence[Scalar], kind: Kind, dialect: str) -> Test:
    """Equal to one of texts, or to one of numbers."""
    if len(values) == 1:
        return test(Operator.EQUAL, values[0], dialect)
    if dialect == "sqlite":
        each = sa.func.json_each(json.dumps(values, ensure_ascii=False)).table_valued("value")
        return Test(kind, lambda left: left.in_(sa.select(each.c.value)))
    array = sa.cast([str(value) for value in values], ARRAY(sa.Text))
    if kind is Kind.NUMBER:
        array = sa.cast(array, ARRAY(sa.Numeric))
    return Test(kind, lambda left: left == sa.any_(array))


def compared(value: SqlValue, test: Test) -> Condition:
    """Whether the value is of the test's kind and passes it; never NULL."""
    if test.kind is Kind.TEXT:
        return sa.case((value.is_text, test.holds(value.text)), else_=sa.false())
    if test.kind is Kind.NUMBER:
        return sa.case((value.is_number, test.holds(value.number)), else_=sa.false())
    return never_null(value.is_true if test.kind is Kind.TRUE else value.is_false)


def has_piece(text: ColumnElement[str], piece: str, dialect: str) -> Condition:
    """Whether a text holds a piece; case counts."""
    find = sa.func.instr if dialect == "sqlite" else sa.func.strpos
    return find(text, piece) > 0


def never_null(value: Condition) -> Condition:
    """NULL becomes false."""
    return sa.func.coalesce(value, sa.false())


def _ordered(left: ColumnElement[Any], operator: Operator, value: Scalar, dialect: str) -> Condition:
    """A comparison of two values of one kind; text by code point."""
    right: Any = value
    if isinstance(value, str) and dialect == "postgresql" and operator is not Operator.EQUAL:
        left = sa.collate(left, "C")
    elif isinstance(value, int | float) and dialect == "postgresql":
        right = sa.cast(sa.literal(str(value), sa.Text), sa.Numeric)  # a double would be rounded on its way
    elif isinstance(value, float):
        right = sa.cast(sa.literal(str(value), sa.Text), sa.Float)  # read as the stored numbers are read
    held: dict[Operator, Condition] = {
        Operator.EQUAL: left == right,
        Operator.LESS: left < right,
        Operator.LESS_OR_EQUAL: left <= right,
        Operator.GREATER: left > right,
        Operator.GREATER_OR_EQUAL: left >= right,
    }
    return held[operator]


def _dated(left: ColumnElement[Any], operator: Operator, moment: Moment, dialect: str) -> Condition:
    """A comparison of a text that begins with a day; any other text is of another kind."""
    day = sa.func.substr(left, 1, 10, type_=sa.Text)
    if dialect == "sqlite":
        is_date: Condition = day.op("GLOB", is_comparison=True)("-".join(["[0-9]" * n for n in (4, 2, 2)]))
    else:
        is_date = day.op("~", is_comparison=True)("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    if not moment.is_day:
        return sa.and_(is_date, _ordered(left, operator, moment.iso, dialect))
    # A text's first ten characters stand to a day as the text stands to that day or to the string after it;
    # so an index over the texts serves.
    after = moment.iso[:-1] + chr(ord(moment.iso[-1]) + 1)
    bounds = {
        Operator.EQUAL: [(Operator.GREATER_OR_EQUAL, moment.iso), (Operator.LESS, after)],
        Operator.LESS: [(Operator.LESS, moment.iso)],
        Operator.LESS_OR_EQUAL: [(Operator.LESS, after)],
        Operator.GREATER: [(Operator.GREATER_OR_EQUAL, after)],
        Operator.GREATER_OR_EQUAL: [(Operator.GREATER_OR_EQUAL, moment.iso)],
    }
    return sa.and_(is_date, *(_ordered(left, sign, bound, dialect) for sign, bound in bounds[operator]))
