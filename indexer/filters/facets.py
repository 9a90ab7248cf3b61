"""How often each value of a field occurs among the documents that a filter lets through."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.field_values import LONGEST, NEITHER_TEXT_NOR_NUMBER, ValueKind, value_rows
from nearsay.indexer.catalogue.tables import cluster_members, documents, field_values, passages
from nearsay.indexer.filters.expression import Expression, Path
from nearsay.indexer.filters.known import counts, known_of, state_of
from nearsay.indexer.filters.selection import count_documents, declared_of, passing_documents
from nearsay.indexer.filters.sql import metadata_path, unindexed
from nearsay.indexer.filters.where import CLUSTER

__all__ = ["FacetValue", "Facets", "facets"]

_MOST = 10_000


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
    limit: int,
) -> Facets:
    """The `limit` commonest values of a field; quick for declared fields, else every document is read.

    What was counted is remembered until something is committed to the collection.
    """
    if not 1 <= limit <= _MOST:
        raise BadInputError(f"limit is {limit}. Ask for 1 to {_MOST} values")
    known = known_of(connection, counts)
    state = state_of(connection, collection_id)
    key = (state, field, repr(expression), limit)
    found: Facets | None = known.get(key)
    if found is None:
        total = count_documents(connection, collection_id, expression)
        groups = _groups(connection, collection_id, field, expression)
        parts = [_commonest(connection, each, limit) for each in groups]
        found = _together(".".join(field), parts, total, limit)
        known.put(key, found)
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """The commonest values of one kind, with what all of that kind add up to."""

    values: list[tuple[str, str | None, float | None, int]]  # kind, text, number, documents
    different: int
    documents: int
    present: int  # documents that have the value itself, not in a list


def _commonest(connection: sa.Connection, groups: sa.Select[Any], limit: int) -> _Part:
    """One evaluation: the first values, and beside each what all add up to."""
    each = groups.subquery().c
    is_value = each.kind != ValueKind.OTHER
    statement = (
        sa.select(
            each.kind,
            each.text,
            each.number,
            each.documents,
            sa.func.count().filter(is_value).over(),
            sa.func.sum(each.documents).filter(is_value).over(),
            sa.func.sum(each.present).over(),
        )
        .order_by(is_value.desc(), each.documents.desc(), each.kind, each.text, each.number)
        .limit(limit)
    )
    rows = connection.execute(statement).all()
    if not rows:
        return _Part([], 0, 0, 0)
    different, counted, present = rows[0][4:]
    values = [(row[0], row[1], row[2], int(row[3])) for row in rows if row[0] != ValueKind.OTHER]
    return _Part(values, int(different), int(counted or 0), int(present or 0))


def _together(field: str, parts: list[_Part], total: int, limit: int) -> Facets:
    """No two parts hold a value of one kind, and each is in order."""
    every = sorted((row for part in parts for row in part.values), key=lambda row: (-row[3], row[0]))
    values = tuple(_value(*row) for row in every[:limit])
    return Facets(
        field=field,
        values=values,
        different=sum(part.different for part in parts),
        other=sum(part.documents for part in parts) - sum(value.documents for value in values),
        missing=total - sum(part.present for part in parts),
        documents=total,
    )


def _groups(
    connection: sa.Connection, collection_id: int, field: Path, expression: Expression | None
) -> list[sa.Select[Any]]:
    """Selects of kind, text, number, documents that have it, and of these how many as the value itself."""
    wanted, few = passing_documents(connection, collection_id, expression)
    chosen = None if expression is None else sa.select(documents.c.number).where(wanted)
    if field == CLUSTER:
        clustering = clusterings.of_live(connection, collection_id)
        if clustering is not None:
            return [_cluster_groups(clustering.id, collection_id, chosen)]
    path = metadata_path(field)
    number = None if path is None else declared_of(connection, collection_id).get(path)
    if number is not None:
        return _declared_groups(connection, number, chosen, few=few)
    if path is None:
        column = documents.c[field[0]]
        text = sa.func.substr(column, 1, LONGEST)
        filled = sa.and_(wanted, column.is_not(None), column != "")
        return [_counted(sa.literal(ValueKind.TEXT.value), text, sa.null(), sa.literal(1), filled)]
    rows = sa.union_all(*value_rows(path, connection.dialect.name, wanted)).subquery().c
    value = sa.case((rows.kind == ValueKind.NUMBER, rows.number), else_=sa.null())
    itself = sa.case((rows.element, 0), else_=1)
    return [_counted(rows.kind, rows.text, value, itself, sa.true())]


def _cluster_groups(clustering: int, collection_id: int, chosen: sa.Select[Any] | None) -> sa.Select[Any]:
    """A document counts once for each cluster that a passage of it is in."""
    inside = sa.and_(
        cluster_members.c.clustering == clustering, cluster_members.c.passage == passages.c.number
    )
    document, cluster = passages.c.document, cluster_members.c.cluster
    rows = sa.select(document, cluster).distinct().join_from(passages, cluster_members, inside)
    rows = rows.where(passages.c.collection_id == collection_id)
    if chosen is not None:
        rows = rows.where(document.in_(chosen))
    each = rows.subquery().c
    place = sa.func.row_number().over(partition_by=each.document, order_by=each.cluster)
    itself = sa.case((place == 1, 1), else_=0)
    return _counted(sa.literal(ValueKind.NUMBER.value), sa.null(), each.cluster, itself, sa.true())


def _declared_groups(
    connection: sa.Connection, field: int, chosen: sa.Select[Any] | None, *, few: bool
) -> list[sa.Select[Any]]:
    """Text, numbers and the rest, each in the order of its index, which SQL then counts without sorting.

    Under a filter that few pass, their values are looked up by document instead: SQLite, which has no
    statistics, would walk the index.
    """
    values, nothing = field_values.c, sa.null()
    by_document = few and connection.dialect.name == "sqlite"
    of_field = values.field == field
    in_list = sa.select(values.document).where(of_field, values.element == sa.true())  # all in each index
    is_text, is_number = values.text.is_not(None), values.number.is_not(None)
    is_neither: ColumnElement[bool] | sa.TextClause = NEITHER_TEXT_NOR_NUMBER
    indexed = (is_text, is_number, is_neither)
    element: ColumnElement[bool] = values.element
    if by_document:
        is_text, is_number = unindexed(values.text).is_not(None), unindexed(values.number).is_not(None)
        is_neither = unindexed(values.kind).in_([ValueKind.TRUE, ValueKind.FALSE, ValueKind.OTHER])
        element = unindexed(values.element)
    of_numbers = values.kind == ValueKind.NUMBER
    kinds = (
        (sa.literal(ValueKind.TEXT.value), values.text, nothing, is_text),
        (sa.literal(ValueKind.NUMBER.value), nothing, values.number, sa.and_(is_number, of_numbers)),
        (values.kind, nothing, nothing, is_neither),
    )
    selects = []
    for there, (kind, text, number, holds) in zip(indexed, kinds, strict=True):
        either = connection.execute(sa.select(sa.exists(in_list.where(there)))).scalar_one()
        where = sa.and_(of_field, element.in_([False, True]) if either else element == sa.false(), holds)
        if chosen is not None:
            where = sa.and_(where, values.document.in_(chosen))
        groups = [column for column in (text, number, kind) if isinstance(column, sa.Column)]
        itself = sa.func.sum(sa.case((values.element, 0), else_=1)) if either else sa.func.count()
        selects.append(
            sa.select(
                *_value_columns(kind, text, number),
                sa.func.count().label("documents"),
                itself.label("present"),
            )
            .where(where)
            .group_by(*groups)
        )
    return selects


def _value_columns(
    kind: ColumnElement[Any], text: ColumnElement[Any], number: ColumnElement[Any]
) -> list[ColumnElement[Any]]:
    """As columns of those names; a NULL has its column's type."""
    return [
        sa.cast(kind, sa.Text).label("kind"),
        (sa.cast(text, sa.Text) if isinstance(text, sa.Null) else text).label("text"),
        (sa.cast(number, sa.Numeric(asdecimal=False)) if isinstance(number, sa.Null) else number).label(
            "number"
        ),
    ]


def _counted(
    kind: ColumnElement[Any],
    text: ColumnElement[Any],
    number: ColumnElement[Any],
    itself: ColumnElement[int],
    *where: ColumnElement[bool],
) -> sa.Select[Any]:
    found = sa.select(*_value_columns(kind, text, number), itself.label("itself")).where(*where).subquery()
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
