"""From an `Expression` to a SQL condition over the documents table; every value goes as a bound parameter.

`id`, `title`, `text` and `source` mean the document's own columns; every other name, and `metadata.NAME`,
reaches into its metadata. A field that was declared is looked up in its values' own table. Nothing here is
ever NULL, so that NOT keeps its meaning.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue.json_values import digits, elements, metadata_value
from nearsay.indexer.catalogue.tables import documents
from nearsay.indexer.filters.cluster_rows import in_clusters
from nearsay.indexer.filters.comparison import (
    Condition,
    Test,
    among,
    compared,
    has_piece,
    never_null,
    test,
)
from nearsay.indexer.filters.declared import Declared, declared_rows, metadata_path
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
from nearsay.indexer.vectors.errors import BadFilterError

__all__ = ["condition"]

_COLUMNS = {name: documents.c[name] for name in ("id", "title", "text", "source")}


def condition(
    expression: Expression,
    dialect: str,
    declared: Declared | None = None,
    document: ColumnElement[int] | None = None,
    passage: ColumnElement[int] | None = None,
) -> Condition:
    """The expression as a condition for `SELECT … FROM documents`.

    dialect:  sqlite or postgresql
    declared: the collection's declared fields; None looks into the documents' metadata alone
    document: the column with the document's number, where not the documents' own. Then every field that the
              expression speaks of must be `covered` by what was declared
    passage:  the column with the passage's number, where the statement is about passages: what is asked of
              clusters is asked of that passage, not of any of the document's
    """
    number = documents.c.number if document is None else document
    return _Builder(dialect, declared or {}, number, passage).of(expression)


@dataclass(frozen=True, slots=True)
class _Builder:
    dialect: str
    declared: Declared
    document: ColumnElement[int]
    passage: ColumnElement[int] | None

    def of(self, expression: Expression) -> Condition:
        if isinstance(expression, And):
            return sa.and_(sa.true(), *(self._gathered(part) for part in gathered(expression)))
        if isinstance(expression, Or):
            return sa.or_(sa.false(), *(self._gathered(part) for part in gathered(expression)))
        if isinstance(expression, Not):
            return sa.not_(self.of(expression.operand))
        return self._leaf(expression)

    def _gathered(self, part: Expression | Among | Within) -> Condition:
        return self._leaf(part) if isinstance(part, Among | Within) else self.of(part)

    def _leaf(self, leaf: Leaf) -> Condition:
        if isinstance(leaf, InClusters):
            return in_clusters(leaf, self.dialect, self.passage)
        rows = declared_rows(leaf, self.dialect, self.declared)
        if rows is None:
            return self._looked_at(leaf)
        found = rows.exists(self.document)
        return found if rows.exact else sa.and_(found, self._looked_at(leaf))

    def _looked_at(self, leaf: Compare | Contains | Present | Among | Within) -> Condition:
        value = self._field(leaf.field)
        if isinstance(leaf, Present):
            return value.present()
        if isinstance(leaf, Contains):
            return value.contains(leaf.value, test(Operator.EQUAL, leaf.value, self.dialect))
        if isinstance(leaf, Within):
            bounds = (test(bound.operator, bound.value, self.dialect) for bound in leaf.bounds)
            return sa.and_(*(value.compared(bound) for bound in bounds))
        if isinstance(leaf, Among):
            one_of = among(leaf.values, leaf.kind, self.dialect)
            return sa.or_(value.compared(one_of), value.has(one_of))
        held = test(leaf.operator, leaf.value, self.dialect)
        if leaf.operator is Operator.EQUAL:
            return sa.or_(value.compared(held), value.has(held))
        return value.compared(held)

    def _field(self, path: Path) -> "_Column | _Metadata":
        inside = metadata_path(path)
        if inside is None:
            return _Column(_COLUMNS[path[0]], self.dialect)
        if any('"' in name or "\0" in name for name in inside):
            raise BadFilterError(f"{'.'.join(path)!r} is not a field's name. Names hold no quotes")
        return _Metadata(inside, self.dialect)


class _Column:
    """One of the document's own columns: text, or NULL for a document without a source."""

    def __init__(self, column: sa.Column[Any], dialect: str) -> None:
        self.column = column
        self.dialect = dialect

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

    def has(self, _held: Test) -> Condition:
        return sa.false()

    def contains(self, value: Scalar, _held: Test) -> Condition:
        if not isinstance(value, str):
            return sa.false()
        return never_null(has_piece(self.column, value, self.dialect))


class _Metadata:
    """A metadata field."""

    def __init__(self, path: Path, dialect: str) -> None:
        self.path = path
        self.dialect = dialect
        self.value = metadata_value(path, dialect)

    def present(self) -> Condition:
        return self.value.is_there

    def compared(self, held: Test) -> Condition:
        return compared(self.value, held)

    def has(self, held: Test) -> Condition:
        each, element, _ = elements(self.path, self.dialect)
        found = sa.exists(sa.select(sa.literal(1)).select_from(each).where(compared(element, held)))
        return sa.case((self.value.is_list, found), else_=sa.false())

    def contains(self, value: Scalar, held: Test) -> Condition:
        piece: Condition = sa.false()
        if isinstance(value, str):
            found = has_piece(self.value.text, value, self.dialect)
            piece = sa.case((self.value.is_text, found), else_=sa.false())
        return sa.or_(piece, self.has(held))
