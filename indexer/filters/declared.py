"""Comparisons with declared fields, as rows of the table that holds their values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement, UnaryExpression
from sqlalchemy.sql.operators import custom_op

from nearsay.indexer.catalogue.field_values import LONGEST, NEITHER_TEXT_NOR_NUMBER, ValueKind
from nearsay.indexer.catalogue.tables import field_values
from nearsay.indexer.filters.comparison import Condition, Test, among, has_piece, test
from nearsay.indexer.filters.expression import (
    Among,
    And,
    Compare,
    Contains,
    Expression,
    InClusters,
    Kind,
    Leaf,
    Not,
    Operator,
    Or,
    Path,
    Present,
    Scalar,
    Within,
    gathered,
)

__all__ = ["Declared", "DeclaredRows", "covered", "declared_rows", "metadata_path", "unindexed"]

Declared: TypeAlias = Mapping[Path, int]  # the path inside the metadata, and the declared field's number

_OWN = {("id",), ("title",), ("text",), ("source",)}


def metadata_path(path: Path) -> Path | None:
    """Where a field stands inside the metadata; None for the document's own columns."""
    if path in _OWN:
        return None
    return path[1:] if path[0] == "metadata" and len(path) > 1 else path


@dataclass(frozen=True, slots=True)
class DeclaredRows:
    """The rows of `field_values` whose documents a comparison lets through."""

    field: int  # the declared field's number
    holds: Callable[["_Columns"], Condition]
    exact: bool  # False: they may be too many, and the documents have to be looked at
    dialect: str

    def exists(self, document: ColumnElement[int]) -> Condition:
        """Whether a document is among them."""
        # SQLite would rather walk a range of values than look up the one document: `+` keeps it from that.
        columns = _Columns.kept_from_indexes() if self.dialect == "sqlite" else _Columns()
        here = sa.and_(
            field_values.c.field == self.field, field_values.c.document == document, self.holds(columns)
        )
        return sa.exists(sa.select(sa.literal(1)).where(here).correlate_except(field_values))

    def documents(self) -> sa.Select[tuple[int]]:
        """The numbers of the documents, in any order; those of a list may come twice."""
        return sa.select(field_values.c.document).where(
            field_values.c.field == self.field, self.holds(_Columns())
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of `field_values` that comparisons look at."""

    text: ColumnElement[str] = field_values.c.text
    number: ColumnElement[float] = field_values.c.number
    kind: ColumnElement[str] = field_values.c.kind
    element: ColumnElement[bool] = field_values.c.element

    @classmethod
    def kept_from_indexes(cls) -> "_Columns":
        plain = cls()
        return cls(*(unindexed(column) for column in (plain.text, plain.number, plain.kind, plain.element)))

    def hold(self, held: Test) -> Condition:
        if held.kind is Kind.TEXT:
            return held.holds(self.text)
        if held.kind is Kind.NUMBER:
            return held.holds(self.number)
        kind = ValueKind.TRUE if held.kind is Kind.TRUE else ValueKind.FALSE
        return sa.and_(self.kind == kind, NEITHER_TEXT_NOR_NUMBER)


def declared_rows(leaf: Leaf, dialect: str, declared: Declared) -> DeclaredRows | None:
    """The rows of a comparison; None if its field was not declared, or its literal is too long for them."""
    if isinstance(leaf, InClusters):
        return None
    path = metadata_path(leaf.field)
    field = None if path is None else declared.get(path)
    if field is None or not all(_short(literal) for literal in _literals(leaf)):
        return None
    exact = not (isinstance(leaf, Contains) and isinstance(leaf.value, str))
    return DeclaredRows(field, partial(_holds, leaf, dialect), exact, dialect)


def _holds(leaf: Leaf, dialect: str, columns: _Columns) -> Condition:
    if isinstance(leaf, Present):
        return columns.element == sa.false()
    if isinstance(leaf, Contains):
        equal = columns.hold(test(Operator.EQUAL, leaf.value, dialect))
        is_element = sa.and_(columns.element == sa.true(), equal)
        if not isinstance(leaf.value, str):
            return is_element
        piece = has_piece(columns.text, leaf.value, dialect)
        cut = sa.func.length(columns.text) == LONGEST
        return sa.or_(
            is_element,
            sa.and_(columns.element == sa.false(), columns.text.is_not(None), sa.or_(piece, cut)),
        )
    if isinstance(leaf, InClusters):
        return sa.false()  # no declared value tells
    either = columns.element.in_([False, True])  # said, so that the index serves
    if isinstance(leaf, Among):
        return sa.and_(either, columns.hold(among(leaf.values, leaf.kind, dialect)))
    bounds = leaf.bounds if isinstance(leaf, Within) else (leaf,)
    held = [columns.hold(test(bound.operator, bound.value, dialect)) for bound in bounds]
    equal_to = isinstance(leaf, Compare) and leaf.operator is Operator.EQUAL
    return sa.and_(either if equal_to else columns.element == sa.false(), *held)


def unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The column as SQLite does not look it up in an index: `+column`."""
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


def covered(expression: Expression, dialect: str, declared: Declared) -> bool:
    """Whether the values' own table answers the whole expression."""
    if isinstance(expression, Not):
        return covered(expression.operand, dialect, declared)
    if isinstance(expression, And):
        return all(covered(part, dialect, declared) for part in expression.operands)
    parts = gathered(expression) if isinstance(expression, Or) else [expression]
    for part in parts:
        if isinstance(part, Not | And | Or):
            if not covered(part, dialect, declared):
                return False
            continue
        rows = declared_rows(part, dialect, declared)
        if rows is None or not rows.exact:
            return False
    return True


def _literals(leaf: Leaf) -> tuple[Scalar, ...]:
    if isinstance(leaf, Present | InClusters):
        return ()
    if isinstance(leaf, Within):
        return tuple(bound.value for bound in leaf.bounds)
    return leaf.values if isinstance(leaf, Among) else (leaf.value,)


def _short(literal: Scalar) -> bool:
    return not isinstance(literal, str) or len(literal) < LONGEST
