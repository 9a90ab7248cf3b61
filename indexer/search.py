"""From a query's vector to hits.

The filter is applied in SQL before the search, as the list of passages that may be found, and again after it
in the query that fetches the rows, so a document that was removed or changed in between never comes back.
"""

from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import documents, passages
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.filters.expression import fields
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.filters.sql import condition
from nearsay.indexer.hit import Hit, Hits, Lineage
from nearsay.indexer.snapshot import Snapshot
from nearsay.indexer.store import Store

__all__ = ["SearchRequest", "search"]

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is searched for."""

    k: int = 10
    where: Where | None = None
    without: frozenset[int] = frozenset()  # passages that are not to be found
    by_document: bool = False  # only the best passage of each document

    def __post_init__(self) -> None:
        if not 1 <= self.k <= _MOST:
            raise BadInputError(f"k is {self.k}. Ask for 1 to {_MOST} results")


def search(store: Store, snapshot: Snapshot, query: NDArray[np.float32], request: SearchRequest) -> Hits:
    """The k living passages nearest to the query that the filter lets through; query: (d,) unit length."""
    chosen = None if request.where is None else condition(parse(request.where), store.database.dialect)
    with store.database.reading() as connection:
        allowed = _allowed(connection, snapshot, chosen, request.without)
        reachable = snapshot.searchable if allowed is None else _living(snapshot, allowed)
        found = _fetch(connection, snapshot, query, request, allowed, chosen, reachable)
        notes = _notes(connection, snapshot, request, len(found))
    lineage = _lineage(snapshot)
    hits = tuple(_hit(rank, score, row, lineage) for rank, (score, row) in enumerate(found, 1))
    return Hits(hits, request.k, reachable, notes)


def _allowed(
    connection: sa.Connection,
    snapshot: Snapshot,
    chosen: ColumnElement[bool] | None,
    without: frozenset[int],
) -> NDArray[np.int64] | None:
    if chosen is None and not without:
        return None
    if chosen is None:
        ids = snapshot.vectors.ids
    else:
        ids = passages.passage_numbers(connection, snapshot.collection.id, chosen)
    return np.setdiff1d(ids, np.array(sorted(without), dtype=np.int64)) if without else ids


def _living(snapshot: Snapshot, allowed: NDArray[np.int64]) -> int:
    inside = allowed[allowed < snapshot.alive.size]
    return int(snapshot.alive[inside].sum())


def _fetch(
    connection: sa.Connection,
    snapshot: Snapshot,
    query: NDArray[np.float32],
    request: SearchRequest,
    allowed: NDArray[np.int64] | None,
    chosen: ColumnElement[bool] | None,
    reachable: int,
) -> list[tuple[float, PassageRow]]:
    """The best rows; more candidates are drawn until k are there or all that can be reached were seen."""
    drawn = request.k
    while True:
        candidates = snapshot.nearest(query, min(drawn, max(1, reachable)), allowed)
        rows = passages.read_passages(connection, snapshot.collection.id, candidates.ids.tolist(), chosen)
        best: list[tuple[float, PassageRow]] = []
        seen: set[str] = set()
        for number, score in zip(candidates.ids.tolist(), candidates.scores.tolist(), strict=True):
            row = rows.get(number)
            if row is None or (request.by_document and row.document_id in seen):
                continue
            seen.add(row.document_id)
            best.append((score, row))
        if len(best) >= request.k or drawn >= reachable:
            return best[: request.k]
        drawn *= 4


def _notes(
    connection: sa.Connection, snapshot: Snapshot, request: SearchRequest, found: int
) -> tuple[str, ...]:
    notes = list(snapshot.notes)
    if found < request.k:
        notes.append(_shortfall(request, found))
    if found == 0 and request.where is not None:
        notes += _unknown_fields(connection, snapshot, request.where)
    if snapshot.waiting:
        notes.append(
            f"{snapshot.waiting} passages have no vector yet and were not searched. "
            f"Unless an add is running, finish it: nearsay index rebuild {snapshot.collection.name}"
        )
    return tuple(notes)


def _shortfall(request: SearchRequest, found: int) -> str:
    what = "document" if request.by_document else "passage"
    if found == 0:
        return f"nothing found: no {what} {'is there' if request.where is None else 'passes the filter'}"
    if request.where is None:
        there = f"there {'is' if found == 1 else 'are'} only {found} {what}{'' if found == 1 else 's'}"
    else:
        there = f"only {found} {what}{' passes' if found == 1 else 's pass'} the filter"
    return f"{found} of the {request.k} asked for: {there}"


def _unknown_fields(connection: sa.Connection, snapshot: Snapshot, where: Where) -> list[str]:
    seen = documents.fields_seen(connection, snapshot.collection.id)
    known = {*seen, "id", "title", "text", "source", "metadata"}
    return [
        f"no document looked at has a field '{path[0]}'; there are: {', '.join(seen) or 'none'}"
        for path in fields(parse(where))
        if path[0] not in known
    ]


def _lineage(snapshot: Snapshot) -> Lineage:
    encoder = snapshot.generation.encoder
    return Lineage(
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        generation=snapshot.generation.number,
        plan=snapshot.plan.kind if snapshot.index is not None else "exact",
        made_by=encoder.lineage,
    )


def _hit(rank: int, score: float, row: PassageRow, lineage: Lineage) -> Hit:
    return Hit(
        rank=rank,
        score=score,
        id=row.document_id,
        title=row.title,
        text=row.text,
        metadata=row.metadata,
        source=row.source,
        passage=row.ordinal,
        start=row.start,
        end=row.end,
        lineage=lineage,
    )
