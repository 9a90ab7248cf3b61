"""From what a user writes, a line of text or a Python mapping, to an `Expression`.

year >= 2019 and venue in ('acl', 'emnlp') and not retracted = true
date >= 2021-03-05 and (level is missing or tags contains 'beginner')

{"year": {">=": 2019}, "venue": ["acl", "emnlp"], "not": {"retracted": True}}

Dots reach inwards: a.b is the field b inside the field a. A name that has a dot itself stands in backquotes,
in either form: `a.b`, or a.`b.c` for the field b.c inside a.
"""

import contextlib
import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias
from uuid import UUID

import numpy as np
import sqlalchemy as sa

from nearsay.data.json_values import UnusableRowError, json_value
from nearsay.indexer.catalogue import clusterings, collections, documents
from nearsay.indexer.catalogue.clusterings import NamedCluster
from nearsay.indexer.filters.expression import (
    And,
    Compare,
    Contains,
    Expression,
    InClusters,
    Moment,
    Not,
    Operator,
    Or,
    Path,
    Present,
    Scalar,
    fields,
    is_listed,
)
from nearsay.indexer.vectors.errors import BadFilterError

Where: TypeAlias = str | Mapping[str, object]

_LARGEST = 2**63 - 1
_DEEPEST = 20  # not, and, or inside one another: SQLite's parser has a stack of a hundred entries
_MOST = 500  # comparisons: SQLite's expressions are at most 1,000 deep, a level for each operand
_SAME = {"==": "=", "≤": "<=", "≥": ">="}  # as a page may have set what was copied from it
_DOT = re.compile(r"\.(?=(?:[^`]*`[^`]*`)*[^`]*\Z)")  # not between backquotes
DEEPEST_INPUT: Final = 100  # before what stands inside one another is counted: Python's stack
HELP: Final = "Write, for example: year >= 2019 and venue in ('acl', 'emnlp')"


def parse(where: Where) -> Expression:
    """The expression that `where` says; BadFilterError with the place of what cannot be understood."""
    if isinstance(where, str):
        # The grammar's parser is imported where a filter is written as text.
        from nearsay.indexer.filters.language import parse_text

        expression = parse_text(where)
    elif isinstance(where, Mapping):
        expression = _from_mapping(where, 0)
    else:
        raise BadFilterError(f"a filter is a line of text or a mapping, not {type(where).__name__}. {HELP}")
    _check_size(expression)
    return expression


def parse_field(name: str) -> Path:
    """The field that a name means: dots reach inwards, `a.b` in backquotes is one name; BadFilterError."""
    parts = _DOT.split(name)
    quoted = (len(part) > 2 and part.startswith("`") and part.endswith("`") for part in parts)
    path = tuple(part[1:-1] if of else part for part, of in zip(parts, quoted, strict=True))
    for part in path:
        if not part or '"' in part or "\0" in part or not _encodable(part):
            dotted = not part and name.strip(".") and "`" not in name
            hint = in_backquotes(name[:50]) if dotted else HELP
            raise BadFilterError(f"{(part or name)[:50]!r} is not a field's name. {hint}")
    return path


def in_backquotes(name: str) -> str:
    """How a field is asked for whose name has a dot itself."""
    return f"For the field '{name}' write `{name}`, in backquotes"


def _check_size(expression: Expression) -> None:
    pending = [(expression, 0)]
    comparisons = 0
    while pending:
        part, depth = pending.pop()
        if depth > _DEEPEST:
            raise BadFilterError(too_deep())
        if isinstance(part, Not):
            pending.append((part.operand, depth + 1))
        elif isinstance(part, And):
            pending += [(operand, depth + 1) for operand in part.operands]
        elif isinstance(part, Or):
            # Values that a field is equal to are one list in SQL, however many.
            pending += [(operand, depth + 1) for operand in part.operands if not is_listed(operand)]
            comparisons += len({operand.field for operand in part.operands if is_listed(operand)})
        else:
            comparisons += 1
    if comparisons > _MOST:
        raise BadFilterError(
            f"the filter has {comparisons:,} comparisons; {_MOST} fit. Split it, or use: FIELD in (…)"
        )


def too_deep() -> str:
    """What is said of a filter that is nested too deep."""
    return f"the filter has more than {_DEEPEST} of not, and, or inside one another. Write it flatter"


def _from_mapping(where: Mapping[str, object], depth: int) -> Expression:
    if depth > DEEPEST_INPUT:
        raise BadFilterError(too_deep())
    operands: list[Expression] = []
    for key, condition in where.items():
        if not isinstance(key, str):
            raise BadFilterError(f"a field's name is text, not {type(key).__name__}. {HELP}")
        if key in ("and", "or"):
            parts = tuple(_from_mapping(_mapping(part, key), depth + 1) for part in _list(condition, key))
            operands.append(And(parts) if key == "and" else Or(parts))
        elif key == "not":
            operands.append(Not(_from_mapping(_mapping(condition, key), depth + 1)))
        else:
            operands.append(_condition(parse_field(key), condition))
    return operands[0] if len(operands) == 1 else And(tuple(operands))


def _condition(field: Path, condition: object) -> Expression:
    if condition is None:
        return Not(Present(field))
    if isinstance(condition, Mapping):
        operations = [_operation(field, operator, value) for operator, value in condition.items()]
        return operations[0] if len(operations) == 1 else And(tuple(operations))
    if isinstance(condition, list | tuple | set | frozenset):
        return among(field, [scalar(value) for value in condition])
    return compare(field, "=", scalar(condition))


def _operation(field: Path, operator: object, value: object) -> Expression:
    if not isinstance(operator, str):
        raise BadFilterError(f"{'.'.join(field)}: an operator is text, not {type(operator).__name__}. {HELP}")
    if operator in ("in", "not in"):
        listed = among(field, [scalar(item) for item in _list(value, operator)])
        return listed if operator == "in" else Not(listed)
    if operator == "contains":
        return Contains(field, scalar(value))
    if operator == "missing" and isinstance(value, bool):
        return Not(Present(field)) if value else Present(field)
    if operator in ("!=", "≠") and value is None:
        return Present(field)
    return compare(field, operator, scalar(value))


def compare(field: Path, operator: str, value: Scalar) -> Expression:
    """The comparison of a field with a value; BadFilterError for an operator that is none."""
    if operator in ("!=", "<>", "≠"):
        return Not(Compare(field, Operator.EQUAL, value))
    try:
        known = Operator(_SAME.get(operator, operator))
    except ValueError:
        raise BadFilterError(
            f"'{operator}' is not an operator. There are: =, !=, <, <=, >, >=, in, not in, contains, missing"
        ) from None
    if isinstance(value, bool) and known is not Operator.EQUAL:
        raise BadFilterError(
            f"{'.'.join(field)} {operator} {str(value).lower()}: true and false have no order. Use ="
        )
    return Compare(field, known, value)


def among(field: Path, values: Sequence[Scalar]) -> Expression:
    """Whether a field is equal to one of the values."""
    return Or(tuple(Compare(field, Operator.EQUAL, value) for value in values))


def scalar(value: object) -> Scalar:
    """A value that a field can be compared with; BadFilterError for any other."""
    if isinstance(value, dt.datetime | dt.date):
        return moment(value.isoformat())
    if isinstance(value, np.generic | Decimal | UUID):  # as rows may hold them
        with contextlib.suppress(UnusableRowError):
            value = json_value(value, "a filter's value")
    if isinstance(value, bool | Moment):
        return value
    if isinstance(value, str):
        if "\0" in value or not _encodable(value):
            raise BadFilterError("a filter's text may hold no NUL and no lone surrogate. Remove it")
        return value
    if isinstance(value, int | float):
        if not abs(value) <= _LARGEST:  # so that NaN is out, too
            shown = value if isinstance(value, float) or value.bit_length() < 200 else "a number so large"
            raise BadFilterError(f"{shown} is out of range. Use a number below 2^63")
        return value
    raise BadFilterError(
        f"a value of type {type(value).__name__} cannot be compared with. "
        "Use text, a number, true, false or a date"
    )


def moment(text: str) -> Moment:
    """A day or a point in time, in ISO 8601; BadFilterError for what is none."""
    try:
        dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise BadFilterError(f"{text} is not a date ({error}). Write it as 2021-03-05") from None
    return Moment(text)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _list(value: object, key: str) -> Sequence[object]:
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    raise BadFilterError(f"'{key}' takes a list, not {type(value).__name__}. {HELP}")


def _mapping(value: object, key: str) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    raise BadFilterError(f"'{key}' takes mappings, not {type(value).__name__}. {HELP}")


# What `cluster = 12` means: the clusters that the live generation was put into.
#
# `cluster` is a cluster's number, or a text, its name; a cluster of a higher level stands for all within
# it. In a collection that was never clustered it is a metadata field like any other; once there are
# clusters, `metadata.cluster` still reaches that field.


CLUSTER = ("cluster",)
_NAMED = 12  # clusters in an error


def expression_of(connection: sa.Connection, collection_id: int, where: Where | None) -> Expression | None:
    """What a filter says; clusters are looked up in the clustering that the transaction sees.

    None without a filter. BadFilterError if it cannot be understood, for a cluster that is not there, and
    where nothing was clustered.
    """
    if where is None:
        return None
    expression = parse(where)
    if CLUSTER not in fields(expression):
        return expression
    row = clusterings.of_live(connection, collection_id)
    if row is None:
        if CLUSTER[0] in documents.fields_seen(connection, collection_id):
            return expression
        name = collections.name_of(connection, collection_id)
        raise BadFilterError(
            f"the live generation of '{name}' was not put into clusters yet, and no document looked at has a "
            f"field 'cluster'. Make them: nearsay explore clusters {name}; a field that other documents have "
            "is metadata.cluster"
        )
    every = clusterings.named_clusters(connection, row.id)
    called: defaultdict[str | float, set[int]] = defaultdict(set)
    for each in every:
        called[each.number].add(each.number)
        called[each.name].add(each.number)
    return _Meaning(row.id, every, called, collections.name_of(connection, collection_id)).of(expression)


@dataclass(frozen=True, slots=True)
class _Meaning:
    clustering: int
    every: list[NamedCluster]  # the lowest level first
    called: dict[str | float, set[int]]  # of each name, and of each number, the numbers
    collection: str

    def of(self, part: Expression) -> Expression:
        if isinstance(part, Not):
            return Not(self.of(part.operand))
        if isinstance(part, And):
            return And(tuple(self.of(operand) for operand in part.operands))
        if isinstance(part, Or):
            return self._either(part)
        if isinstance(part, InClusters) or part.field != CLUSTER:
            return part
        if isinstance(part, Present):
            return InClusters(self.clustering, None)
        return InClusters(self.clustering, self._within(self._said(part)))

    def _either(self, part: Or) -> Expression:
        """`cluster in (…)` is one question, however many there are."""
        asked: set[int] | None = None
        rest: list[Expression] = []
        for operand in part.operands:
            if isinstance(operand, Compare | Contains) and operand.field == CLUSTER:
                asked = set() if asked is None else asked
                asked |= self._said(operand)
            else:
                rest.append(self.of(operand))
        if asked is None:
            return Or(tuple(rest))
        return Or((InClusters(self.clustering, self._within(asked)), *rest))

    def _said(self, part: Compare | Contains) -> set[int]:
        value = part.value
        if isinstance(value, bool | Moment):
            raise self._unknown(value)
        if isinstance(part, Contains):
            return {each.number for each in self.every if str(value) in each.name}
        if part.operator is Operator.EQUAL:
            if value not in self.called:
                raise self._unknown(value)
            return self.called[value]
        held = part.operator.holds
        if isinstance(value, str):
            return {each.number for each in self.every if held(each.name, value)}
        return {each.number for each in self.every if held(each.number, value)}

    def _within(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """The clusters that hold passages themselves, of those and of all that belong to them."""
        wanted = set(numbers)
        for each in reversed(self.every):  # from the highest level down
            if each.parent in wanted:
                wanted.add(each.number)
        return tuple(sorted(each.number for each in self.every if each.level == 0 and each.number in wanted))

    def _unknown(self, value: Scalar) -> BadFilterError:
        shown = value.iso if isinstance(value, Moment) else value
        some = ", ".join(
            str(each.number) for each in sorted(self.every, key=lambda each: each.number)[:_NAMED]
        )
        some = some or "none"
        more = ", …" if len(self.every) > _NAMED else ""
        return BadFilterError(
            f"'{self.collection}' has no cluster {shown!r}; there are: {some}{more}. See them: nearsay "
            f"explore clusters {self.collection}; a field of the documents' own is metadata.cluster"
        )
