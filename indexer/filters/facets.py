"""Count the values of a field among the documents that match a filter.

Metadata fields are counted by their columns (`known`), which are read first if necessary: that takes half as
long as counting by SQL. The documents' own columns and clusters are counted by SQL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.report import as_json
from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.bulk import number_list
from nearsay.indexer.catalogue.tables import cluster_members, documents, passages
from nearsay.indexer.filters.column import MISSING, Codes, Numbers, Texts
from nearsay.indexer.filters.expression import Expression, Path
from nearsay.indexer.filters.known import CollectionState, column_of, columnar, counts, known_of, state_of
from nearsay.indexer.filters.parse import CLUSTER
from nearsay.indexer.filters.selection import count_documents, passing_documents
from nearsay.indexer.filters.sql import metadata_path

_MOST = 10_000
_LONGEST = 500  # characters of a text


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value and the number of documents that have it."""

    value: str | int | float | bool  # a long text is cut to 500 characters
    documents: int


@dataclass(frozen=True, slots=True)
class Facets:
    """The most frequent values of a field; a document with a list counts once for each distinct element."""

    field: str
    values: tuple[FacetValue, ...]  # by descending count, then by value
    different: int  # number of distinct values
    other: int  # sum of the counts of unlisted values
    missing: int  # documents without the field, or with null
    documents: int  # documents that match the filter

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
    """Count the `limit` most frequent values of a field; cached until the collection changes."""
    if not 1 <= limit <= _MOST:
        raise BadInputError(f"limit is {limit}. Give a number of values from 1 to {_MOST}")
    known = known_of(connection, counts)
    state = state_of(connection, collection_id)
    key = (state, field, repr(expression), limit)
    found: Facets | None = known.get(key)
    if found is None:
        clustering = clusterings.of_live(connection, collection_id) if field == CLUSTER else None
        path = metadata_path(field)
        if path is None or clustering is not None:
            total = count_documents(connection, collection_id, expression)
            wanted = passing_documents(connection, collection_id, expression)
            if clustering is None:
                part = _of_own_column(connection, documents.c[field[0]], wanted, limit)
            else:
                chosen = None if expression is None else sa.select(documents.c.number).where(wanted)
                part = _of_clusters(connection, clustering.id, collection_id, chosen, limit)
            parts = [part]
        else:
            parts, total = _of_metadata(connection, state, path, expression, limit)
        found = _together(".".join(field), parts, total, limit)
        known.put(key, found)
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    values: list[tuple[str | int | float | bool, int]]  # with counts, by descending count, then by value
    different: int
    documents: int
    present: int  # documents that have the field


def _of_metadata(
    connection: sa.Connection, state: CollectionState, path: Path, expression: Expression | None, limit: int
) -> tuple[list[_Part], int]:
    """The values of a metadata field by its column, and the number of matching documents."""
    by_columns = expression is None or columnar(expression)
    column, passing = column_of(connection, state, path, expression if by_columns else None)
    if not by_columns:
        wanted = passing_documents(connection, state.collection_id, expression)
        there = np.zeros_like(passing)
        there[number_list(connection, sa.select(documents.c.number).where(wanted))] = True
        passing = passing & there
    own, elements = column.own, column.elements
    held = np.bincount(column.codes[: passing.size][passing], minlength=column.size)
    each = ((own, np.flatnonzero(~own.number_texts)), (elements, np.flatnonzero(~elements.number_texts)))
    total = int(held.sum())
    texts = _counted([(part.texts, part.text_codes) for part in (own, elements)], held, limit)
    numbers = _counted(
        [(_at(part.numbers, some), part.number_codes[some]) for part, some in each], held, limit
    )
    true = _truths(True, np.concatenate([own.true_codes, elements.true_codes]), held)
    false = _truths(False, np.concatenate([own.false_codes, elements.false_codes]), held)
    present = _Part([], 0, 0, total - int(held[MISSING]))
    return [false, numbers, texts, true, present], total


def _truths(value: bool, codes: Codes, held: NDArray[np.int64]) -> _Part:
    count = int(held[np.unique(codes)].sum())
    return _Part([(value, count)] if count else [], int(count > 0), count, 0)


def _counted(listed: Sequence[tuple[Texts | Numbers, Codes]], held: NDArray[np.int64], limit: int) -> _Part:
    """The most frequent values of one type.

    listed: values outside lists and values in lists, each sorted, with their codes
    held:   number of documents by code
    """
    there = [np.flatnonzero(held[codes]) for _, codes in listed]
    values: list[Any] = [
        value for (each, _), some in zip(listed, there, strict=True) for value in _at(each, some)
    ]
    if not values:
        return _Part([], 0, 0, 0)
    found = [codes[some] for (_, codes), some in zip(listed, there, strict=True)]
    codes = np.concatenate(found).astype(np.int64)
    if isinstance(values[0], str):
        values = [text[:_LONGEST] for text in values]
    if all(some.size for some in there):
        order = sorted(range(len(values)), key=values.__getitem__)
        values, codes = [values[place] for place in order], codes[order]
    begins = np.fromiter((one != other for one, other in pairwise(values)), dtype=np.bool_)
    group = np.concatenate([[0], np.cumsum(begins)])
    # A document counts once for a value, even if its list repeats it.
    once = np.unique(group * held.size + codes)
    counted = np.bincount(once // held.size, weights=held[once % held.size]).astype(np.int64)
    firsts = np.flatnonzero(np.concatenate([[True], begins]))
    commonest = np.argsort(-counted, kind="stable")[:limit].tolist()
    rows = [(_integral(values[firsts[place]]), int(counted[place])) for place in commonest]
    return _Part(rows, counted.size, int(counted.sum()), 0)


def _at(values: Texts | Numbers, places: NDArray[np.int64]) -> list[Any]:
    if isinstance(values, np.ndarray):
        return list(values[places].tolist())
    return [values[place] for place in places.tolist()]


def _integral(value: str | int | float) -> str | int | float:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_own_column(
    connection: sa.Connection, column: sa.Column[Any], wanted: sa.ColumnElement[bool], limit: int
) -> _Part:
    text = sa.func.substr(column, 1, _LONGEST)
    rows = sa.select(text.label("value")).where(wanted, column.is_not(None), column != "")
    found = _commonest(connection, rows, limit)
    return _Part(found.values, found.different, found.documents, found.documents)


def _of_clusters(
    connection: sa.Connection,
    clustering: int,
    collection_id: int,
    chosen: sa.Select[tuple[int]] | None,
    limit: int,
) -> _Part:
    """The clusters; a document counts once for each cluster of its passages."""
    inside = sa.and_(
        cluster_members.c.clustering == clustering, cluster_members.c.passage == passages.c.number
    )
    rows = sa.select(passages.c.document, cluster_members.c.cluster.label("value")).distinct()
    rows = rows.join_from(passages, cluster_members, inside).where(passages.c.collection_id == collection_id)
    if chosen is not None:
        rows = rows.where(passages.c.document.in_(chosen))
    found = _commonest(connection, rows, limit)
    in_one = sa.select(sa.func.count(rows.subquery().c.document.distinct()))
    return _Part(found.values, found.different, found.documents, int(connection.execute(in_one).scalar_one()))


def _commonest(connection: sa.Connection, rows: sa.Select[Any], limit: int) -> _Part:
    value = rows.subquery().c.value
    each = sa.select(value, sa.func.count().label("documents")).group_by(value).subquery().c
    statement = (
        sa.select(each.value, each.documents, sa.func.count().over(), sa.func.sum(each.documents).over())
        .order_by(each.documents.desc(), each.value)
        .limit(limit)
    )
    found = connection.execute(statement).all()
    if not found:
        return _Part([], 0, 0, 0)
    return _Part([(row[0], int(row[1])) for row in found], int(found[0][2]), int(found[0][3]), 0)


def _together(field: str, parts: list[_Part], total: int, limit: int) -> Facets:
    """Combine the parts, which are sorted and have no value in common."""
    every = sorted((row for part in parts for row in part.values), key=lambda row: -row[1])
    values = tuple(FacetValue(*row) for row in every[:limit])
    return Facets(
        field=field,
        values=values,
        different=sum(part.different for part in parts),
        other=sum(part.documents for part in parts) - sum(value.documents for value in values),
        missing=total - sum(part.present for part in parts),
        documents=total,
    )
