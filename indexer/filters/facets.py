"""How often each value of a field occurs among the documents that a filter lets through."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue.field_values import LONGEST, NEITHER_TEXT_NOR_NUMBER, ValueKind, value_rows
from nearsay.indexer.catalogue.tables import documents, field_values
from nearsay.indexer.filters.declared import Declared, metadata_path
from nearsay.indexer.filters.expression import Expression, Path
from nearsay.indexer.filters.narrowing import narrowest
from nearsay.indexer.filters.sql import condition

__all__ = ["FacetValue", "Facets", "facets"]

_MOST = 10_000
_NARROW = 20_000  # documents: so few are looked up one by one


@dataclass(frozen=True, slots=True)
class FacetValue:
    """One value and how many documents have it."""

    value: str | int | float | bool  # of a long text the first 500 characters
    documents: int


@dataclass(frozen=True, slots=True)
class Facets:
    """The commonest values of a field; a document with a list counts once for each different element."""

    field: str
    values: tuple[FacetValue, ...]  # by falling count, then by value
    different: int  # values there are
    other: int  # what the values that are not listed add up to
    missing: int  # documents without the field, or with null
    documents: int  # that were looked at

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "field": self.field,
            "values": [{"value": each.value, "documents": each.documents} for each in self.values],
            "different": self.different,
            "other": self.other,
            "missing": self.missing,
            "documents": self.documents,
        }


def facets(
    connection: sa.Connection,
    collection_id: int,
    field: Path,
    expression: Expression | None,
    declared: Declared,
    limit: int,
) -> Facets:
    """The `limit` commonest values of a field; quick for declared fields, else every document is read."""
    if not 1 <= limit <= _MOST:
        raise BadInputError(f"limit is {limit}. Ask for 1 to {_MOST} values")
    chosen = _chosen(connection, collection_id, expression, declared)
    groups = sa.union_all(*_groups(connection, collection_id, field, chosen, declared)).subquery()
    summed = (
        sa.select(
            groups.c.kind,
            groups.c.text,
            groups.c.number,
            sa.func.sum(groups.c.documents).label("documents"),
            sa.func.sum(groups.c.present).label("present"),
        )
        .group_by(groups.c.kind, groups.c.text, groups.c.number)
        .subquery()
    )
    is_value = summed.c.kind != ValueKind.OTHER
    everything = connection.execute(
        sa.select(
            sa.func.count().filter(is_value),
            sa.func.sum(summed.c.documents).filter(is_value),
            sa.func.sum(summed.c.present),
        )
    ).one()
    commonest = (
        sa.select(summed.c.kind, summed.c.text, summed.c.number, summed.c.documents)
        .where(is_value)
        .order_by(summed.c.documents.desc(), summed.c.kind, summed.c.text, summed.c.number)
        .limit(limit)
    )
    values = tuple(_value(*row) for row in connection.execute(commonest))
    total = connection.execute(
        sa.select(sa.func.count())
        .select_from(documents)
        .where(documents.c.collection_id == collection_id, *([] if chosen is None else [chosen]))
    ).scalar_one()
    return Facets(
        field=".".join(field),
        values=values,
        different=int(everything[0]),
        other=int(everything[1] or 0) - sum(value.documents for value in values),
        missing=total - int(everything[2] or 0),
        documents=total,
    )


def _chosen(
    connection: sa.Connection, collection_id: int, expression: Expression | None, declared: Declared
) -> ColumnElement[bool] | None:
    if expression is None:
        return None
    dialect = connection.dialect.name
    narrowed = narrowest(connection, collection_id, expression, declared, _NARROW)
    if narrowed is None:
        return condition(expression, dialect, declared)
    among = documents.c.number.in_(narrowed.numbers())
    if narrowed.rest is None:
        return among
    return sa.and_(among, condition(narrowed.rest, dialect, declared))


def _groups(
    connection: sa.Connection,
    collection_id: int,
    field: Path,
    chosen: ColumnElement[bool] | None,
    declared: Declared,
) -> list[sa.Select[Any]]:
    """Selects of kind, text, number, documents that have it, and of these how many as the value itself."""
    of_collection = documents.c.collection_id == collection_id
    wanted = of_collection if chosen is None else sa.and_(of_collection, chosen)
    path = metadata_path(field)
    if path is None:
        column = documents.c[field[0]]
        text = sa.func.substr(column, 1, LONGEST)
        filled = sa.and_(wanted, column.is_not(None), column != "")
        return [_counted(sa.literal(ValueKind.TEXT.value), text, sa.null(), sa.literal(1), filled)]
    number = declared.get(path)
    if number is None:
        parts = (rows.subquery() for rows in value_rows(path, connection.dialect.name, wanted))
        return [
            _counted(
                rows.c.kind,
                rows.c.text,
                sa.case((rows.c.kind == ValueKind.NUMBER, rows.c.number), else_=sa.null()),
                sa.case((rows.c.element, 0), else_=1),
                sa.true(),
            )
            for rows in parts
        ]
    values = field_values.c
    of_field = values.field == number
    if chosen is not None:
        of_field = sa.and_(of_field, values.document.in_(sa.select(documents.c.number).where(wanted)))
    nothing = sa.null()
    selects = []
    for element in (False, True):  # each in the order of an index
        here = sa.and_(of_field, values.element == (sa.true() if element else sa.false()))
        itself = sa.literal(0 if element else 1)
        numbers = sa.and_(here, values.number.is_not(None), values.kind == ValueKind.NUMBER)
        others = sa.and_(here, NEITHER_TEXT_NOR_NUMBER)
        selects += [
            _counted(
                sa.literal(ValueKind.TEXT.value), values.text, nothing, itself, here, values.text.is_not(None)
            ),
            _counted(sa.literal(ValueKind.NUMBER.value), nothing, values.number, itself, numbers),
            _counted(values.kind, nothing, nothing, itself, others),
        ]
    return selects


def _counted(
    kind: ColumnElement[Any],
    text: ColumnElement[Any],
    number: ColumnElement[Any],
    itself: ColumnElement[int],
    *where: ColumnElement[bool],
) -> sa.Select[Any]:
    rows = sa.select(
        sa.cast(kind, sa.Text).label("kind"),
        sa.cast(text, sa.Text).label("text") if isinstance(text, sa.Null) else text.label("text"),
        sa.cast(number, sa.Numeric(asdecimal=False)).label("number")
        if isinstance(number, sa.Null)
        else number.label("number"),
        itself.label("itself"),
    ).where(*where)
    found = rows.subquery()
    groups = (found.c.kind, found.c.text, found.c.number)
    counted = sa.select(
        *groups, sa.func.count().label("documents"), sa.func.sum(found.c.itself).label("present")
    )
    return counted.group_by(*groups)


def _value(kind: str, text: str | None, number: float | None, count: int) -> FacetValue:
    if text is not None:
        return FacetValue(text, int(count))
    if number is not None:
        return FacetValue(int(number) if number == int(number) else float(number), int(count))
    return FacetValue(kind == ValueKind.TRUE, int(count))
