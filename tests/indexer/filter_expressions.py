"""Random filters: as trees, and as the text that says them; and what they mean, in plain Python."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from nearsay.data.document import JsonValue
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

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_NAME = re.compile(r"[^\W\d][\w-]*")

NUMBERS = (
    st.sampled_from([0, 1, 7, 12, 2019, 2**53 + 1, 2**63 - 1, -(2**63) + 1, 0.1 + 0.2, 0.5, 2019.0, -0.0])
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(-1e15, 1e15)
)
TEXTS = st.sampled_from(
    [
        "",
        "2019",
        "007",
        "12",
        "１２",
        "12\n",
        "9" * 18,
        "1" + "0" * 18,
        "-5",
        "0.5",
        "a",
        "ab",
        "B",
        "Z",
        "ä",
        "é",
        "z",
        "\uffff",
        "𝔘",
        "true",
        "null",
        "'",
        '"',
        "''",
        "%",
        "_",
        "*",
        "a\\b",
        "\n",
        "[0]",
        "$",
        "2021-03-05",
        "2021-03-05T10:30:00Z",
        "2021-03-06 later",
        "abcd-ef-gh",
        "2021-03-0",
        "٢٠٢١-03-05",
    ]
) | st.text(CHARACTERS, max_size=6)
MOMENTS = st.builds(
    Moment,
    st.sampled_from(["2021-03-05", "2021-03-06", "2021-03-05T10:30:00Z", "1999-12-31T23:59", "2000-02-29"])
    | st.dates().map(lambda day: day.isoformat())
    | st.datetimes().map(lambda moment: moment.isoformat()),
)
SCALARS: st.SearchStrategy[Scalar] = NUMBERS | TEXTS | MOMENTS | st.booleans()


def expressions(paths: st.SearchStrategy[Path], most: int = 8) -> st.SearchStrategy[Expression]:
    """Trees of every kind over some fields."""
    ordered = st.builds(Compare, paths, st.sampled_from(Operator), NUMBERS | TEXTS | MOMENTS)
    equal = st.builds(Compare, paths, st.just(Operator.EQUAL), SCALARS)
    leaves = (
        ordered
        | equal
        | st.builds(Contains, paths, SCALARS)
        | st.builds(Present, paths)
        | st.builds(among, paths, st.lists(SCALARS, min_size=1, max_size=5))
    )
    return st.recursive(leaves, _combined, max_leaves=most)


def among(path: Path, values: list[Scalar]) -> Expression:
    """What `path in (…)` says."""
    return Or(tuple(Compare(path, Operator.EQUAL, value) for value in values))


def _combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    return st.builds(Not, inner) | st.builds(And, several) | st.builds(Or, several)


def written(expression: Expression, choose: Callable[[int], int] = lambda _: 0) -> str:
    """The expression as a user may write it; `choose(n)` picks one of n ways."""
    if isinstance(expression, Not):
        return _negated(expression.operand, choose)
    if isinstance(expression, And):
        return f" {_cased('and', choose)} ".join(_bracketed(part, choose) for part in expression.operands)
    if isinstance(expression, Or):
        members = [part for part in expression.operands if isinstance(part, Compare)]
        same = len({part.field for part in members}) == 1 and len(members) == len(expression.operands)
        equal = all(part.operator is Operator.EQUAL for part in members)
        if same and equal and (len(members) == 1 or choose(2)):
            return f"{_field(members[0].field)} {_cased('in', choose)} {_values(members)}"
        return f" {_cased('or', choose)} ".join(_bracketed(part, choose) for part in expression.operands)
    if isinstance(expression, Present):
        return f"{_field(expression.field)} is {_cased('not', choose)} missing"
    if isinstance(expression, Contains):
        return f"{_field(expression.field)} {_cased('contains', choose)} {_value(expression.value)}"
    sign = ["=", "=="][choose(2)] if expression.operator is Operator.EQUAL else str(expression.operator)
    space = ["", " ", "\n\t"][choose(3)]
    return f"{_field(expression.field)}{space}{sign}{space}{_value(expression.value)}"


def _negated(operand: Expression, choose: Callable[[int], int]) -> str:
    if isinstance(operand, Present):
        return f"{_field(operand.field)} {_cased('is', choose)} {_cased('missing', choose)}"
    if isinstance(operand, Compare) and operand.operator is Operator.EQUAL and choose(2):
        return f"{_field(operand.field)} {['!=', '<>'][choose(2)]} {_value(operand.value)}"
    if isinstance(operand, Or) and len(operand.operands) == 1:
        members = [part for part in operand.operands if isinstance(part, Compare)]
        return f"{_field(members[0].field)} {_cased('not', choose)} in {_values(members)}"
    return f"{_cased('not', choose)} {_bracketed(operand, choose)}"


def _bracketed(expression: Expression, choose: Callable[[int], int]) -> str:
    return f"({written(expression, choose)})"


def _cased(keyword: str, choose: Callable[[int], int]) -> str:
    return [keyword, keyword.upper(), keyword.title()][choose(3)]


def _field(path: Path) -> str:
    if all(_NAME.fullmatch(name) for name in path) and path[0].lower() != "not":
        return ".".join(path)
    assert len(path) == 1
    return f"`{path[0]}`"


def _values(members: list[Compare]) -> str:
    return f"({', '.join(_value(part.value) for part in members)})"


def _value(value: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Moment):
        return value.iso
    if isinstance(value, str):
        quote = "'" if len(value) % 2 else '"'
        return quote + value.replace(quote, quote * 2) + quote
    return repr(value)


@dataclass(frozen=True)
class Row:
    """A document as far as filters see it."""

    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    id: str = "d"
    title: str = ""
    text: str = ""
    source: str | None = None


# The oracle: the algebra of expression.py in plain Python.

_COMPARED = {
    Operator.EQUAL: operator.eq,
    Operator.LESS: operator.lt,
    Operator.LESS_OR_EQUAL: operator.le,
    Operator.GREATER: operator.gt,
    Operator.GREATER_OR_EQUAL: operator.ge,
}


def passes(row: Row, expression: Expression) -> bool:
    if isinstance(expression, And):
        return all(passes(row, part) for part in expression.operands)
    if isinstance(expression, Or):
        return any(passes(row, part) for part in expression.operands)
    if isinstance(expression, Not):
        return not passes(row, expression.operand)
    value = found(row, expression.field)
    if isinstance(expression, Present):
        own_and_empty = value == "" and expression.field in [("id",), ("title",), ("text",), ("source",)]
        return value is not None and not own_and_empty
    elements = value if isinstance(value, list) else []
    if isinstance(expression, Contains):
        has_piece = isinstance(value, str) and isinstance(expression.value, str) and expression.value in value
        return has_piece or any(compares(each, Operator.EQUAL, expression.value) for each in elements)
    if expression.operator is not Operator.EQUAL:
        elements = []
    return any(compares(each, expression.operator, expression.value) for each in [value, *elements])


def found(row: Row, path: Path) -> JsonValue:
    if path in [("id",), ("title",), ("text",), ("source",)]:
        value: JsonValue = getattr(row, path[0])
        return value
    inside: JsonValue = dict(row.metadata)
    for name in path[1:] if path[0] == "metadata" and len(path) > 1 else path:
        inside = inside.get(name) if isinstance(inside, dict) else None
    return inside


def compares(value: JsonValue, operator_: Operator, literal: Scalar) -> bool:
    compared = _COMPARED[operator_]
    if isinstance(literal, bool):
        return isinstance(value, bool) and value == literal
    if isinstance(literal, Moment):
        if not isinstance(value, str) or not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", value[:10]):
            return False
        return bool(compared(value[:10] if len(literal.iso) == 10 else value, literal.iso))
    if isinstance(literal, str):
        return isinstance(value, str) and bool(compared(value, literal))
    if isinstance(value, str) and re.fullmatch("[0-9]{1,18}", value):
        value = int(value)
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(compared(value, literal))
