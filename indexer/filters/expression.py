"""The parsed form of a filter, independent of its notation.

Logic is two-valued: every comparison is true or false, and `not` inverts it. A comparison with a missing
value, or one of another type (a number with text), is false; so `a != b` and `a not in (b)` are true there.
Text of digits only ("2019") counts as a number, too. Text compares by code point, and so do timestamps as
written (keep them in one time zone); a day compares with the day of an ISO date or timestamp, a value with a
list by its elements (`=` and `in`: any element).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from operator import eq, ge, gt, le, lt
from typing import Any, TypeAlias, TypeGuard


class Operator(StrEnum):
    """Comparison operators; `!=` is expressed as `Not(=)`."""

    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    @property
    def holds(self) -> Callable[..., Any]:
        """The function that compares two values, or two SQL columns."""
        return {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}[self]


@dataclass(frozen=True, slots=True)
class Moment:
    """A day (2021-03-05) or a timestamp (2021-03-05T10:30:00Z) in ISO 8601."""

    iso: str

    def bounds(self, operator: Operator) -> list[tuple[Operator, str]]:
        """The conditions by code point on a text that begins with a day, equivalent to the comparison.

        The first ten characters compare with a day as the text compares with that day or the string after it.
        """
        if len(self.iso) != 10:
            return [(operator, self.iso)]
        after = self.iso[:-1] + chr(ord(self.iso[-1]) + 1)
        return {
            Operator.EQUAL: [(Operator.GREATER_OR_EQUAL, self.iso), (Operator.LESS, after)],
            Operator.LESS: [(Operator.LESS, self.iso)],
            Operator.LESS_OR_EQUAL: [(Operator.LESS, after)],
            Operator.GREATER: [(Operator.GREATER_OR_EQUAL, after)],
            Operator.GREATER_OR_EQUAL: [(Operator.GREATER_OR_EQUAL, self.iso)],
        }[operator]


Scalar: TypeAlias = str | float | int | bool | Moment
Path: TypeAlias = tuple[str, ...]  # ("author", "name") reaches into nested metadata


@dataclass(frozen=True, slots=True)
class Compare:
    """`year >= 2019`"""

    field: Path
    operator: Operator
    value: Scalar


class Kind(Enum):
    """Types of values; values of different types are never compared."""

    TEXT = auto()
    NUMBER = auto()
    TRUE = auto()
    FALSE = auto()


@dataclass(frozen=True, slots=True)
class Contains:
    """`tags contains 'acl'`: a list contains the element, or a text the substring (case-sensitive)."""

    field: Path
    value: Scalar


@dataclass(frozen=True, slots=True)
class Present:
    """`venue is not missing`: the field exists and is not null."""

    field: Path


@dataclass(frozen=True, slots=True)
class InClusters:
    """`cluster in (3, 4)`: the resolved form of comparisons with `cluster` in a clustered collection."""

    clustering: int  # its number in the catalogue
    numbers: tuple[int, ...] | None  # clusters of level 0, ascending; None: any
    field: Path = ("cluster",)


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of an expression."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of expressions; true without operands."""

    operands: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of expressions; false without operands."""

    operands: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Among:
    """`venue in ('acl', 'emnlp')`: comparisons of an `Or`, combined by `gathered`."""

    field: Path
    kind: Kind
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """`year >= 2019 and year < 2022`: bounds of an `And`, combined by `gathered`."""

    field: Path
    bounds: tuple[Compare, ...]


Expression: TypeAlias = Compare | Contains | Present | InClusters | Not | And | Or
Leaf: TypeAlias = Compare | Contains | Present | InClusters | Among | Within


def kind_of(value: Scalar) -> Kind:
    """The type of values that a literal compares with."""
    if isinstance(value, bool):
        return Kind.TRUE if value else Kind.FALSE
    return Kind.TEXT if isinstance(value, str | Moment) else Kind.NUMBER


def gathered(expression: And | Or) -> list[Expression | Among | Within]:
    """The operands, with those of an `Or` that compare one field with texts, or with numbers, combined.

    So `venue in (…)` with thousands of values is one SQL parameter instead of thousands of ORs, and the
    bounds of a field in an `And` are one range of an index.
    """
    among: defaultdict[tuple[Path, Kind], list[Scalar]] = defaultdict(list)
    bounds: defaultdict[Path, list[Compare]] = defaultdict(list)
    parts: list[Expression | Among | Within] = []
    for part in expression.operands:
        if not isinstance(part, Compare):
            parts.append(part)
        elif isinstance(expression, And) and part.operator is not Operator.EQUAL:
            bounds[part.field].append(part)
        elif isinstance(expression, Or) and is_listed(part):
            among[part.field, kind_of(part.value)].append(part.value)
        else:
            parts.append(part)
    parts += [Within(field, tuple(several)) for field, several in bounds.items()]
    return parts + [Among(field, kind, tuple(values)) for (field, kind), values in among.items()]


def is_listed(part: Expression) -> TypeGuard[Compare]:
    """Whether an `Or` combines it with others of the same field."""
    if not isinstance(part, Compare):
        return False
    return part.operator is Operator.EQUAL and not isinstance(part.value, bool | Moment)


def leaves(expression: Expression) -> Iterator[Compare | Contains | Present | InClusters]:
    """The comparisons of an expression, in order."""
    if isinstance(expression, Not):
        yield from leaves(expression.operand)
    elif isinstance(expression, And | Or):
        for part in expression.operands:
            yield from leaves(part)
    else:
        yield expression


def fields(expression: Expression) -> list[Path]:
    """The distinct fields of an expression, in order."""
    return list(dict.fromkeys(leaf.field for leaf in leaves(expression)))
