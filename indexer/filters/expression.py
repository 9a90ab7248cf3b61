"""What a filter says, whichever way it was written.

The algebra is two-valued: every comparison is true or false, and `not` always gives the other. A comparison
with a value that is missing, or of another kind (a number against text), is false; so `a != b` and
`a not in (b)` are true there. Text of digits alone ("2019") counts as a number too. Text compares by code
point, timestamps too (as they are written: keep them in one time zone), a day against the day part of an ISO
date or timestamp, a value against a list by its elements (`=` and
`in`: any element).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

__all__ = [
    "And",
    "Compare",
    "Contains",
    "Expression",
    "Moment",
    "Not",
    "Operator",
    "Or",
    "Present",
    "Scalar",
    "fields",
]


class Operator(StrEnum):
    """How a field's value is held against a literal; `!=` is written as `Not(=)`."""

    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Moment:
    """A day (2021-03-05) or a timestamp (2021-03-05T10:30:00Z), as ISO 8601 text."""

    iso: str

    @property
    def is_day(self) -> bool:
        """Whether it is compared with the first ten characters of a value."""
        return len(self.iso) == 10


Scalar: TypeAlias = str | float | int | bool | Moment
Path: TypeAlias = tuple[str, ...]  # ("author", "name") reaches into nested metadata


@dataclass(frozen=True, slots=True)
class Compare:
    """`year >= 2019`"""

    field: Path
    operator: Operator
    value: Scalar


@dataclass(frozen=True, slots=True)
class Contains:
    """`tags contains 'acl'`: a list has the element, or a text has the piece (case counts)."""

    field: Path
    value: Scalar


@dataclass(frozen=True, slots=True)
class Present:
    """`venue is not missing`: the field is there and not null."""

    field: Path


@dataclass(frozen=True, slots=True)
class Not:
    """The other one."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    """All of them; true when there are none."""

    operands: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of them; false when there are none."""

    operands: tuple["Expression", ...]


Expression: TypeAlias = Compare | Contains | Present | Not | And | Or


def fields(expression: Expression) -> list[Path]:
    """The fields that an expression speaks of, each once, in order."""
    found: dict[Path, None] = {}
    pending: list[Expression] = [expression]
    while pending:
        part = pending.pop(0)
        if isinstance(part, Not):
            pending.insert(0, part.operand)
        elif isinstance(part, And | Or):
            pending[:0] = part.operands
        else:
            found[part.field] = None
    return list(found)
