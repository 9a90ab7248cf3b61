"""Parse a user's filter, text or a Python mapping, into an `Expression`.

year >= 2019 and venue in ('acl', 'emnlp') and not retracted = true date >= 2021-03-05 and (level is missing
or tags contains 'beginner')

{"year": {">=": 2019}, "venue": ["acl", "emnlp"], "not": {"retracted": True}}

A dot separates nested names: a.b is the field b of the object a. A name that contains a dot is written in
backquotes in both forms: `a.b`, or a.`b.c` for the field b.c of the object a.
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
_DEEPEST = 20  # nested not, and, or: SQLite's parser has a stack of a hundred entries
_MOST = 500  # comparisons: SQLite's expressions are at most 1,000 deep, a level for each operand
_SAME = {"==": "=", "≤": "<=", "≥": ">="}  # typographic variants, as in text copied from a page
_DOT = re.compile(r"\.(?=(?:[^`]*`[^`]*`)*[^`]*\Z)")  # not between backquotes
DEEPEST_INPUT: Final = 100  # nesting that is parsed, within Python's stack
HELP: Final = "Write, for example: year >= 2019 and venue in ('acl', 'emnlp')"


def parse(where: Where) -> Expression:
    """Parse a filter; BadFilterError with the position of an error."""
    if isinstance(where, str):
        # Lark is imported only for a textual filter.
        from nearsay.indexer.filters.language import parse_text

        expression = parse_text(where)
    elif isinstance(where, Mapping):
        expression = _from_mapping(where, 0)
    else:
        raise BadFilterError(f"a filter must be text or a mapping, not {type(where).__name__}. {HELP}")
    _check_size(expression)
    return expression


def parse_field(name: str) -> Path:
    """Parse a field name: `a.b` is nested unless in backquotes; BadFilterError if it is invalid."""
    parts = _DOT.split(name)
    quoted = (len(part) > 2 and part.startswith("`") and part.endswith("`") for part in parts)
    path = tuple(part[1:-1] if of else part for part, of in zip(parts, quoted, strict=True))
    for part in path:
        if not part or '"' in part or "\0" in part or not _encodable(part):
            dotted = not part and name.strip(".") and "`" not in name
            hint = in_backquotes(name[:50]) if dotted else HELP
            raise BadFilterError(f"{(part or name)[:50]!r} is not a valid field name. {hint}")
    return path


def in_backquotes(name: str) -> str:
    """A hint for a field name that contains a dot."""
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
            # The values that a field is equal to become one SQL parameter.
            pending += [(operand, depth + 1) for operand in part.operands if not is_listed(operand)]
            comparisons += len({operand.field for operand in part.operands if is_listed(operand)})
        else:
            comparisons += 1
    if comparisons > _MOST:
        raise BadFilterError(
            f"the filter has {comparisons:,} comparisons; at most {_MOST} are allowed. Use: FIELD in (…)"
        )


def too_deep() -> str:
    """The error message for a filter that is nested too deeply."""
    return f"the filter has more than {_DEEPEST} nested levels of not, and, or. Simplify it"


def _from_mapping(where: Mapping[str, object], depth: int) -> Expression:
    if depth > DEEPEST_INPUT:
        raise BadFilterError(too_deep())
    operands: list[Expression] = []
    for key, condition in where.items():
        if not isinstance(key, str):
            raise BadFilterError(f"a field name must be text, not {type(key).__name__}. {HELP}")
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
        name = type(operator).__name__
        raise BadFilterError(f"{'.'.join(field)}: an operator must be text, not {name}. {HELP}")
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
    """The comparison of a field with a value; BadFilterError for an unknown operator."""
    if operator in ("!=", "<>", "≠"):
        return Not(Compare(field, Operator.EQUAL, value))
    try:
        known = Operator(_SAME.get(operator, operator))
    except ValueError:
        raise BadFilterError(
            f"'{operator}' is not an operator. Use one of =, !=, <, <=, >, >=, in, not in, contains, missing"
        ) from None
    if isinstance(value, bool) and known is not Operator.EQUAL:
        raise BadFilterError(
            f"{'.'.join(field)} {operator} {str(value).lower()}: true and false have no order. Use ="
        )
    return Compare(field, known, value)


def among(field: Path, values: Sequence[Scalar]) -> Expression:
    """The expression that a field equals one of the values."""
    return Or(tuple(Compare(field, Operator.EQUAL, value) for value in values))


def scalar(value: object) -> Scalar:
    """Convert a value to one that fields are compared with; BadFilterError for other types."""
    if isinstance(value, dt.datetime | dt.date):
        return moment(value.isoformat())
    if isinstance(value, np.generic | Decimal | UUID):  # possible in rows
        with contextlib.suppress(UnusableRowError):
            value = json_value(value, "a filter's value")
    if isinstance(value, bool | Moment):
        return value
    if isinstance(value, str):
        if "\0" in value or not _encodable(value):
            raise BadFilterError("text in a filter must not contain NUL or lone surrogates. Remove them")
        return value
    if isinstance(value, int | float):
        if not abs(value) <= _LARGEST:  # also excludes NaN
            shown = value if isinstance(value, float) or value.bit_length() < 200 else "a number so large"
            raise BadFilterError(f"{shown} is out of range. Use a number below 2^63")
        return value
    raise BadFilterError(
        f"a filter cannot compare with a value of type {type(value).__name__}. "
        "Use text, a number, true, false or a date"
    )


def moment(text: str) -> Moment:
    """Parse a date or timestamp in ISO 8601; BadFilterError if it is invalid."""
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


# `cluster = 12` refers to the clusters of the live generation, by number or by name; a cluster of a higher
# level includes its descendants. Without a clustering `cluster` is a metadata field; with one, that field is
# `metadata.cluster`.


CLUSTER = ("cluster",)
_NAMED = 12  # clusters in an error


def expression_of(connection: sa.Connection, collection_id: int, where: Where | None) -> Expression | None:
    """Parse a filter and resolve clusters in the clustering that the transaction sees; None without a filter.

    Raises BadFilterError for an invalid filter, an unknown cluster, and a collection without clusters.
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
            f"the live generation of '{name}' has no clusters, and its first documents have no field "
            f"'cluster'. Find clusters: nearsay explore clusters {name}. For a metadata field of that "
            "name, write metadata.cluster"
        )
    every = clusterings.named_clusters(connection, row.id)
    called: defaultdict[str | float, set[int]] = defaultdict(set)
    for each in every:
        called[each.number].add(each.number)
        called[each.name].add(each.number)
    name = collections.name_of(connection, collection_id)
    return _ClusterResolver(row.id, every, called, name).of(expression)


@dataclass(frozen=True, slots=True)
class _ClusterResolver:
    clustering: int
    every: list[NamedCluster]  # lowest level first
    called: dict[str | float, set[int]]  # cluster numbers by name and by number
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
        return InClusters(self.clustering, self._within(self._numbers_of(part)))

    def _either(self, part: Or) -> Expression:
        numbers: set[int] | None = None
        rest: list[Expression] = []
        for operand in part.operands:
            if isinstance(operand, Compare | Contains) and operand.field == CLUSTER:
                numbers = set() if numbers is None else numbers
                numbers |= self._numbers_of(operand)
            else:
                rest.append(self.of(operand))
        if numbers is None:
            return Or(tuple(rest))
        return Or((InClusters(self.clustering, self._within(numbers)), *rest))

    def _numbers_of(self, part: Compare | Contains) -> set[int]:
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
        """The clusters of level 0 among these and their descendants."""
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
            f"'{self.collection}' has no cluster {shown!r}; there are: {some}{more}. List them: nearsay "
            f"explore clusters {self.collection}. For a metadata field, write metadata.cluster"
        )
