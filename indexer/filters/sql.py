"""From an `Expression` to a SQL condition over the documents table; every value goes as a bound parameter.

`id`, `title`, `text` and `source` mean the document's own columns; every other name, and `metadata.NAME`,
reaches into its metadata. A field that was declared is looked up in its values' own table. Nothing here is
ever NULL, so that NOT keeps its meaning.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.elements import ColumnElement, UnaryExpression
from sqlalchemy.sql.operators import custom_op

from nearsay.indexer.catalogue.field_values import LONGEST, NEITHER_TEXT_NOR_NUMBER, ValueKind
from nearsay.indexer.catalogue.json_values import SqlValue, digits, elements, metadata_value
from nearsay.indexer.catalogue.tables import cluster_members, documents, field_values, passages
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

__all__ = [
    "Condition",
    "Declared",
    "among",
    "condition",
    "covered",
    "declared_rows",
    "documents_in_clusters",
    "metadata_path",
    "passages_in_clusters",
    "unindexed",
]


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


def in_clusters(leaf: InClusters, dialect: str, passage: ColumnElement[int] | None) -> Condition:
    """Whether a passage is in one of the clusters; without it, whether a passage of the document is."""
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
        # SQLite would rather walk whole clusters than look up the one passage: `+` keeps it from that.
        cluster = unindexed(members.c.cluster) if dialect == "sqlite" else members.c.cluster
        here = here.where(_one_of(leaf.numbers, cluster, dialect))
    return sa.exists(here.correlate_except(members))


def passages_in_clusters(leaf: InClusters, dialect: str) -> sa.Select[tuple[int]]:
    """The numbers of the passages in the clusters, removed ones among them."""
    found = sa.select(cluster_members.c.passage).where(cluster_members.c.clustering == leaf.clustering)
    if leaf.numbers is None:
        return found
    return found.where(_one_of(leaf.numbers, cluster_members.c.cluster, dialect))


def documents_in_clusters(leaf: InClusters, collection_id: int, dialect: str) -> sa.Select[tuple[int]]:
    """The numbers of the documents that have a passage in the clusters, some of them twice."""
    inside = passages.c.number.in_(passages_in_clusters(leaf, dialect))
    return sa.select(passages.c.document).where(passages.c.collection_id == collection_id, inside)


def _one_of(numbers: tuple[int, ...], cluster: ColumnElement[int], dialect: str) -> Condition:
    if dialect == "sqlite":
        return among(numbers, Kind.NUMBER, dialect).holds(cluster)
    # PostgreSQL compares with decimals by converting the column: then its index would not serve.
    return cluster == sa.any_(sa.cast(list(numbers), ARRAY(sa.Integer)))


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
