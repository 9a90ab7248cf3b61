"""How often each value of a field occurs among the documents that a filter lets through.

Fields of the metadata are counted by their columns (`known`), which are read first where nobody asked for
them before: that takes half as long as SQL takes to count them. SQL counts the documents' own columns and
clusters, and every field where a filter asks of ids, titles, texts or sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.errors import BadInputError
from nearsay.data.report import as_json
from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.field_values import LONGEST, ValueKind, value_rows
from nearsay.indexer.catalogue.tables import cluster_members, documents, passages
from nearsay.indexer.filters.expression import Expression, Path
from nearsay.indexer.filters.known import (
    DIGITS,
    MISSING,
    Codes,
    CollectionState,
    Numbers,
    Texts,
    column_of,
    columnar,
    counts,
    known_of,
    state_of,
)
from nearsay.indexer.filters.parse import CLUSTER
from nearsay.indexer.filters.selection import count_documents, passing_documents
from nearsay.indexer.filters.sql import metadata_path

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
        return cast("dict[str, Any]", as_json(self))


def facets(
    connection: sa.Connection,
    collection_id: int,
    field: Path,
    expression: Expression | None,
    limit: int,
) -> Facets:
    """The `limit` commonest values of a field; remembered until something is committed to the collection."""
    if not 1 <= limit <= _MOST:
        raise BadInputError(f"limit is {limit}. Ask for 1 to {_MOST} values")
    known = known_of(connection, counts)
    state = state_of(connection, collection_id)
    key = (state, field, repr(expression), limit)
    found: Facets | None = known.get(key)
    if found is None:
        parts, total = _by_column(connection, state, field, expression, limit) or _by_sql(
            connection, collection_id, field, expression, limit
        )
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


def _by_column(
    connection: sa.Connection, state: CollectionState, field: Path, expression: Expression | None, limit: int
) -> tuple[list[_Part], int] | None:
    """The counts by the field's column, and how many documents pass; None where SQL has to count."""
    path = metadata_path(field)
    of_clusters = field == CLUSTER and clusterings.of_live(connection, state.collection_id) is not None
    if path is None or of_clusters or not (expression is None or columnar(expression)):
        return None
    found = column_of(connection, state, path, expression)
    if found is None or any(DIGITS.fullmatch(text) for text in found[0].elements.texts):
        return None  # in a list, the column does not tell "7" from 7
    column, passing = found
    own, elements = column.own, column.elements
    held = np.bincount(column.codes[: passing.size][passing], minlength=column.size)
    is_text = np.zeros(column.size, dtype=np.bool_)
    is_text[own.text_codes] = True  # of digits too, which stand among the numbers as well
    numbers = np.flatnonzero(~is_text[own.number_codes])
    texts = [(own.texts, own.text_codes), (elements.texts, elements.text_codes)]
    others = [
        (_at(own.numbers, numbers), own.number_codes[numbers]),
        (elements.numbers, elements.number_codes),
    ]
    parts = [
        _counted_values(ValueKind.TEXT, texts, held, limit),
        _counted_values(ValueKind.NUMBER, others, held, limit),
    ]
    for kind, codes in (
        (ValueKind.TRUE, (own.true_codes, elements.true_codes)),
        (ValueKind.FALSE, (own.false_codes, elements.false_codes)),
    ):
        count = int(held[np.unique(np.concatenate(codes))].sum())
        parts.append(_Part([(kind, None, None, count)] if count else [], int(count > 0), count, 0))
    total = int(held.sum())
    parts[0] = replace(parts[0], present=total - int(held[MISSING]))
    return parts, total


def _counted_values(
    kind: ValueKind, listed: Sequence[tuple[Texts | Numbers, Codes]], held: NDArray[np.int64], limit: int
) -> _Part:
    """The values of one kind.

    listed: those that stand by themselves, and those in lists, each in order with its codes
    held: documents by code
    """
    there = [np.flatnonzero(held[codes]) for _, codes in listed]
    values: list[Any] = [
        value for (each, _), some in zip(listed, there, strict=True) for value in _at(each, some)
    ]
    if not values:
        return _Part([], 0, 0, 0)
    found = [codes[some] for (_, codes), some in zip(listed, there, strict=True)]
    codes = np.concatenate(found).astype(np.int64)
    if kind is ValueKind.TEXT:
        values = [text[:LONGEST] for text in values]
    if all(some.size for some in there):
        order = sorted(range(len(values)), key=values.__getitem__)
        values, codes = [values[place] for place in order], codes[order]
    begins = np.fromiter((one != other for one, other in pairwise(values)), dtype=np.bool_)
    group = np.concatenate([[0], np.cumsum(begins)])
    # A document counts once for a value, however often its list has it.
    once = np.unique(group * held.size + codes)
    documents = np.bincount(once // held.size, weights=held[once % held.size]).astype(np.int64)
    firsts = np.flatnonzero(np.concatenate([[True], begins]))
    rows = []
    for place in np.argsort(-documents, kind="stable")[:limit].tolist():
        value, count = values[firsts[place]], int(documents[place])
        text, number = (value, None) if kind is ValueKind.TEXT else (None, value)
        rows.append((kind.value, text, number, count))
    return _Part(rows, documents.size, int(documents.sum()), 0)


def _at(values: Texts | Numbers, places: NDArray[np.int64]) -> list[Any]:
    if isinstance(values, np.ndarray):
        return list(values[places].tolist())
    return [values[place] for place in places.tolist()]


def _by_sql(
    connection: sa.Connection, collection_id: int, field: Path, expression: Expression | None, limit: int
) -> tuple[list[_Part], int]:
    """The counts by SQL, and how many documents pass."""
    total = count_documents(connection, collection_id, expression)
    groups = _groups(connection, collection_id, field, expression)
    return [_commonest(connection, groups, limit)], total


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
) -> sa.Select[Any]:
    """A select of kind, text, number, documents that have it, and of these how many as the value itself."""
    wanted = passing_documents(connection, collection_id, expression)
    if field == CLUSTER:
        clustering = clusterings.of_live(connection, collection_id)
        if clustering is not None:
            chosen = None if expression is None else sa.select(documents.c.number).where(wanted)
            return _cluster_groups(clustering.id, collection_id, chosen)
    path = metadata_path(field)
    if path is None:
        column = documents.c[field[0]]
        text = sa.func.substr(column, 1, LONGEST)
        filled = sa.and_(wanted, column.is_not(None), column != "")
        return _counted(sa.literal(ValueKind.TEXT.value), text, sa.null(), sa.literal(1), filled)
    rows = sa.union_all(*value_rows(path, connection.dialect.name, wanted)).subquery().c
    value = sa.case((rows.kind == ValueKind.NUMBER, rows.number), else_=sa.null())
    itself = sa.case((rows.element, 0), else_=1)
    return _counted(rows.kind, rows.text, value, itself, sa.true())


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
        whole = isinstance(number, int) or float(number).is_integer()  # SQL has no larger ones than 1.8e308
        return FacetValue(int(number) if whole else float(number), int(count))
    return FacetValue(kind == ValueKind.TRUE, int(count))
