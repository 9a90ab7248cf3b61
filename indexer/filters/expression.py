"""What a filter says, whichever way it was written.

The algebra is two-valued: every comparison is true or false, and `not` always gives the other. A comparison
with a value that is missing, or of another kind (a number against text), is false; so `a != b` and
`a not in (b)` are true there. Text of digits alone ("2019") counts as a number too. Text compares by code
point, timestamps too (as they are written: keep them in one time zone), a day against the day part of an ISO
date or timestamp, a value against a list by its elements (`=` and
`in`: any element).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from operator import eq, ge, gt, le, lt
from typing import Any, TypeAlias, TypeGuard


class Operator(StrEnum):
    """How a field's value is held against a literal; `!=` is written as `Not(=)`."""

    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    @property
    def holds(self) -> Callable[..., Any]:
        """Tells of two values whether the first stands so to the second; of SQL's columns the condition."""
        return {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}[self]


@dataclass(frozen=True, slots=True)
class Moment:
    """A day (2021-03-05) or a timestamp (2021-03-05T10:30:00Z), as ISO 8601 text."""

    iso: str

    def bounds(self, operator: Operator) -> list[tuple[Operator, str]]:
        """What a text that begins with a day has to be, by code point, to stand so to it.

        Its first ten characters stand to a day as it stands to that day or to the string after it.
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
    """Values of one kind are compared, those of two never."""

    TEXT = auto()
    NUMBER = auto()
    TRUE = auto()
    FALSE = auto()


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
class InClusters:
    """`cluster in (3, 4)`: what comparisons with `cluster` mean in a collection that was clustered."""

    clustering: int  # its number in the catalogue
    numbers: tuple[int, ...] | None  # clusters that hold passages themselves, rising; None: any
    field: Path = ("cluster",)


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


@dataclass(frozen=True, slots=True)
class Among:
    """`venue in ('acl', 'emnlp')`: what `gathered` makes of the comparisons of an `Or`."""

    field: Path
    kind: Kind
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """`year >= 2019 and year < 2022`: what `gathered` makes of the bounds of an `And`."""

    field: Path
    bounds: tuple[Compare, ...]


Expression: TypeAlias = Compare | Contains | Present | InClusters | Not | And | Or
Leaf: TypeAlias = Compare | Contains | Present | InClusters | Among | Within


def kind_of(value: Scalar) -> Kind:
    """The kind that a literal is compared with."""
    if isinstance(value, bool):
        return Kind.TRUE if value else Kind.FALSE
    return Kind.TEXT if isinstance(value, str | Moment) else Kind.NUMBER


def gathered(expression: And | Or) -> list[Expression | Among | Within]:
    """The operands, those of an `Or` that hold one field against texts, or against numbers, made one each.

    So `venue in (…)` with thousands of values is one parameter in SQL, not thousands of ORs; and the bounds
    that an `And` sets to one field are one range of an index.
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
    """Whether an `Or` makes it one with others of its field."""
    if not isinstance(part, Compare):
        return False
    return part.operator is Operator.EQUAL and not isinstance(part.value, bool | Moment)


def leaves(expression: Expression) -> Iterator[Compare | Contains | Present | InClusters]:
    """What an expression asks, in order."""
    if isinstance(expression, Not):
        yield from leaves(expression.operand)
    elif isinstance(expression, And | Or):
        for part in expression.operands:
            yield from leaves(part)
    else:
        yield expression


def fields(expression: Expression) -> list[Path]:
    """The fields that an expression speaks of, each once, in order."""
    return list(dict.fromkeys(leaf.field for leaf in leaves(expression)))
