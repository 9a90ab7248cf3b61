"""Translate an `Expression` into a SQL condition over the documents table, with bound parameters.

`id`, `title`, `text` and `source` are the document's own columns; other names, and `metadata.NAME`, are
metadata fields. No part of the condition is ever NULL, so that NOT is two-valued.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.elements import ColumnElement, UnaryExpression
from sqlalchemy.sql.operators import custom_op

from nearsay.indexer.catalogue.bulk import one_of
from nearsay.indexer.catalogue.json_values import SqlValue, digits, elements, metadata_value
from nearsay.indexer.catalogue.tables import cluster_members, documents, passages
from nearsay.indexer.filters.expression import (
    Among,
    And,
    Compare,
    Contains,
    Expression,
    InClusters,
    Kind,
    Leaf,
    Moment,
    Not,
    Operator,
    Or,
    Path,
    Present,
    Scalar,
    Within,
    gathered,
    kind_of,
)
from nearsay.indexer.vectors.errors import BadFilterError

Condition = ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Test:
    """A condition on values of one type; `holds` is applied only to SQL values of that type."""

    kind: Kind
    holds: Callable[[ColumnElement[Any]], Condition]


def test(operator: Operator, value: Scalar, dialect: str) -> Test:
    """The test whether a value compares so with a literal."""
    if isinstance(value, Moment):
        return Test(Kind.TEXT, lambda left: _dated(left, operator, value, dialect))
    return Test(kind_of(value), lambda left: _ordered(left, operator, value, dialect))


def among(values: Sequence[Scalar], kind: Kind, dialect: str) -> Test:
    """The test whether a value equals one of these texts or numbers."""
    if len(values) == 1:
        return test(Operator.EQUAL, values[0], dialect)
    if kind is Kind.TEXT or dialect == "sqlite":
        return Test(kind, lambda left: one_of(left, values, sa.Text()))
    numbers = sa.cast([str(value) for value in values], ARRAY(sa.Numeric))  # doubles would round
    return Test(kind, lambda left: left == sa.any_(numbers))


def compared(value: SqlValue, test: Test) -> Condition:
    """Whether the value is of the test's type and passes it; never NULL."""
    if test.kind is Kind.TEXT:
        return sa.case((value.is_text, test.holds(value.text)), else_=sa.false())
    if test.kind is Kind.NUMBER:
        return sa.case((value.is_number, test.holds(value.number)), else_=sa.false())
    return never_null(value.is_true if test.kind is Kind.TRUE else value.is_false)


def has_piece(text: ColumnElement[str], piece: str, dialect: str) -> Condition:
    """Whether a text contains a substring, case-sensitively."""
    find = sa.func.instr if dialect == "sqlite" else sa.func.strpos
    return find(text, piece) > 0


def never_null(value: Condition) -> Condition:
    """Replace NULL by false."""
    return sa.func.coalesce(value, sa.false())


def _ordered(left: ColumnElement[Any], operator: Operator, value: Scalar, dialect: str) -> Condition:
    """The comparison of two values of one type; text by code point."""
    right: Any = value
    if isinstance(value, str) and dialect == "postgresql" and operator is not Operator.EQUAL:
        left = sa.collate(left, "C")
    elif isinstance(value, int | float) and dialect == "postgresql":
        right = sa.cast(sa.literal(str(value), sa.Text), sa.Numeric)  # a double would round
    elif isinstance(value, float):
        right = sa.cast(sa.literal(str(value), sa.Text), sa.Float)  # parsed like the stored numbers
    held: Condition = operator.holds(left, right)
    return held


def _dated(left: ColumnElement[Any], operator: Operator, moment: Moment, dialect: str) -> Condition:
    """The comparison of a text that begins with a day; false for other texts."""
    day = sa.func.substr(left, 1, 10, type_=sa.Text)
    if dialect == "sqlite":
        is_date: Condition = day.op("GLOB", is_comparison=True)("-".join(["[0-9]" * n for n in (4, 2, 2)]))
    else:
        is_date = day.op("~", is_comparison=True)("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    bounds = moment.bounds(operator)  # of the text itself, so that an index can be used
    return sa.and_(is_date, *(_ordered(left, sign, bound, dialect) for sign, bound in bounds))


_OWN = {("id",), ("title",), ("text",), ("source",)}


def metadata_path(path: Path) -> Path | None:
    """A field's path in the metadata; None for the document's own columns."""
    if path in _OWN:
        return None
    return path[1:] if path[0] == "metadata" and len(path) > 1 else path


def _unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """`+column`, for which SQLite uses no index."""
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


def in_clusters(leaf: InClusters, dialect: str, passage: ColumnElement[int] | None) -> Condition:
    """Whether the passage is in one of the clusters; if it is None, whether any of the document's is."""
    if leaf.numbers == ():
        return sa.false()
    if passage is not None:
        return _of_passage(leaf, dialect, passage)
    own = passages.alias("asked_passages")
    here = sa.select(sa.literal(1)).where(
        own.c.collection_id == documents.c.collection_id,
        own.c.document == documents.c.number,
        _of_passage(leaf, dialect, own.c.number),
    )
    return sa.exists(here.correlate_except(own))


def _of_passage(leaf: InClusters, dialect: str, passage: ColumnElement[int]) -> Condition:
    members = cluster_members.alias("asked_members")
    here = sa.select(sa.literal(1)).where(
        members.c.clustering == leaf.clustering, members.c.passage == passage
    )
    if leaf.numbers is not None:
        # Without `+` SQLite would scan the clusters instead of looking up the passage.
        cluster = _unindexed(members.c.cluster) if dialect == "sqlite" else members.c.cluster
        here = here.where(one_of(cluster, leaf.numbers))
    return sa.exists(here.correlate_except(members))


def passages_in_clusters(leaf: InClusters) -> sa.Select[tuple[int]]:
    """The numbers of the clusters' passages, including removed ones."""
    found = sa.select(cluster_members.c.passage).where(cluster_members.c.clustering == leaf.clustering)
    if leaf.numbers is None:
        return found
    return found.where(one_of(cluster_members.c.cluster, leaf.numbers))


def documents_in_clusters(leaf: InClusters, collection_id: int) -> sa.Select[tuple[int]]:
    """The numbers of the documents with a passage in the clusters, with repetitions."""
    inside = passages.c.number.in_(passages_in_clusters(leaf))
    return sa.select(passages.c.document).where(passages.c.collection_id == collection_id, inside)


def condition(expression: Expression, dialect: str, passage: ColumnElement[int] | None = None) -> Condition:
    """The expression as a condition for `SELECT … FROM documents`.

    dialect: sqlite or postgresql
    passage: the passage number's column in a statement about passages: conditions on clusters apply to that
             passage, instead of any of the document's
    """
    return _Builder(dialect, passage).of(expression)


@dataclass(frozen=True, slots=True)
class _Builder:
    dialect: str
    passage: ColumnElement[int] | None

    def of(self, part: Expression | Leaf) -> Condition:
        if isinstance(part, And):
            return sa.and_(sa.true(), *(self.of(each) for each in gathered(part)))
        if isinstance(part, Or):
            return sa.or_(sa.false(), *(self.of(each) for each in gathered(part)))
        return sa.not_(self.of(part.operand)) if isinstance(part, Not) else self._leaf(part)

    def _leaf(self, leaf: Leaf) -> Condition:
        if isinstance(leaf, InClusters):
            return in_clusters(leaf, self.dialect, self.passage)
        return _passes(self._field(leaf.field), leaf, self.dialect)

    def _field(self, path: Path) -> "_Own | _Metadata":
        inside = metadata_path(path)
        if inside is None:
            return _Own(documents.c[path[0]], self.dialect)
        if any('"' in name or "\0" in name for name in inside):
            raise BadFilterError(f"{'.'.join(path)!r} is not a valid field name. Remove the quotes")
        return _Metadata(inside, self.dialect)


_OfField: TypeAlias = Compare | Contains | Present | Among | Within


def _passes(value: "_Own | _Metadata", leaf: _OfField, dialect: str) -> Condition:
    if isinstance(leaf, Present):
        return value.present()
    if isinstance(leaf, Contains):
        return value.contains(leaf.value, test(Operator.EQUAL, leaf.value, dialect), dialect)
    if isinstance(leaf, Within):
        bounds = (test(bound.operator, bound.value, dialect) for bound in leaf.bounds)
        return sa.and_(*(value.compared(bound) for bound in bounds))
    if isinstance(leaf, Among):
        return value.equal(among(leaf.values, leaf.kind, dialect))
    held = test(leaf.operator, leaf.value, dialect)
    return value.equal(held) if leaf.operator is Operator.EQUAL else value.compared(held)


@dataclass(frozen=True, slots=True)
class _Own:
    """One of the document's own columns: text, or NULL without a source."""

    column: sa.Column[Any]
    dialect: str

    def present(self) -> Condition:
        return sa.and_(self.column.is_not(None), self.column != "")

    def compared(self, held: Test) -> Condition:
        if held.kind is Kind.TEXT:
            found = held.holds(self.column)
        elif held.kind is Kind.NUMBER:
            number = sa.cast(self.column, sa.Integer if self.dialect == "sqlite" else sa.Numeric)
            found = sa.case((digits(self.column, self.dialect), held.holds(number)), else_=sa.false())
        else:
            found = sa.false()
        return never_null(found) if self.column.nullable else found

    equal = compared

    def contains(self, value: Scalar, _held: Test, dialect: str) -> Condition:
        return never_null(has_piece(self.column, value, dialect)) if isinstance(value, str) else sa.false()


class _Metadata:
    def __init__(self, path: Path, dialect: str) -> None:
        self.path = path
        self.dialect = dialect
        self.value = metadata_value(path, dialect)

    def present(self) -> Condition:
        return self.value.is_there

    def compared(self, held: Test) -> Condition:
        return compared(self.value, held)

    def equal(self, held: Test) -> Condition:
        return sa.or_(self.compared(held), self._has(held))

    def _has(self, held: Test) -> Condition:
        each, element = elements(self.path, self.dialect)
        found = sa.exists(sa.select(sa.literal(1)).select_from(each).where(compared(element, held)))
        return sa.case((self.value.is_list, found), else_=sa.false())

    def contains(self, value: Scalar, held: Test, dialect: str) -> Condition:
        piece: Condition = sa.false()
        if isinstance(value, str):
            found = has_piece(self.value.text, value, dialect)
            piece = sa.case((self.value.is_text, found), else_=sa.false())
        return sa.or_(piece, self._has(held))
