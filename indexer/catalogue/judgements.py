"""Judgements in the catalogue.

They refer to documents by id and contain their texts, so changes to documents do not affect them. A judgement
is written by one statement, and the last one counts. No other table changes and no snapshot depends on them,
so they need neither the collection's writer lock nor a new version of it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.indexer.catalogue.bulk import one_of
from nearsay.indexer.catalogue.passages import encoded_text, text_hash
from nearsay.indexer.catalogue.tables import collections, documents, judgements, passages


class SearchMode(StrEnum):
    """The kind of search: by meaning (dense), by words (lexical), or both (hybrid)."""

    DENSE = "dense"  # the cosine of vectors
    LEXICAL = "lexical"  # the words that query and passage share, no encoder needed
    HYBRID = "hybrid"  # both, fused


class JudgementState(StrEnum):
    """What has happened to the passage since it was judged."""

    CURRENT = "current"  # it stands in the collection as it was judged
    CHANGED = "changed"  # its document has another text, or none, at that place
    REMOVED = "removed"  # its document is gone


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement, with a copy of what was judged, so that it outlives the document."""

    query: str
    document: str  # its id
    passage: int  # 0-based position in the document
    relevant: bool  # whether the passage answers the query
    title: str  # of the document, when it was judged
    text: str  # of the passage, when it was judged
    rank: int | None  # of the judged hit, from 1; None: it was not a hit
    score: float | None  # of that hit
    mode: SearchMode | None  # of the search that found the hit; None: unknown
    encoder: str | None  # name of the one that found the hit, else of the live one; None: there was none
    fingerprint: str | None  # of the encoder
    generation: int | None  # that found the hit, else the live one
    created_at: str  # of the last change, ISO 8601, UTC
    state: JudgementState = JudgementState.CURRENT
    unsure: bool = False  # the rater could not say; `relevant` is False and has no meaning
    rater: str | None = None  # name of the person
    note: str | None = None

    @property
    def encoded(self) -> str:
        """The text that an encoder gets for the passage: title and text."""
        return encoded_text(self.title, self.text)

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """Number of judgements of a query."""

    query: str
    relevant: int
    not_relevant: int
    judged_at: str  # last judgement, ISO 8601, UTC


@dataclass(frozen=True, slots=True)
class JudgementCounts:
    """Number of judgements of a collection."""

    queries: int
    relevant: int
    not_relevant: int
    changed: int  # of these, the passage has changed since
    removed: int  # of these, the document was removed

    @property
    def judgements(self) -> int:
        """Number of all judgements."""
        return self.relevant + self.not_relevant


_KEY = ("collection_id", "query_hash", "document_id", "passage")
_COLUMNS = (
    *("query", "document_id", "passage", "relevant", "title", "text", "rank", "score", "mode"),
    *("encoder", "fingerprint", "generation", "created_at", "unsure", "rater", "note"),
)


def query_hash(query: str) -> str:
    """Hash that identifies a query."""
    return text_hash(query)


def put(connection: sa.Connection, collection_id: int, *every: Judgement) -> None:
    """Save judgements, replacing earlier ones of the same query and passage.

    Of duplicates, the last one is saved. Raises SQLAlchemy's IntegrityError if the collection was deleted.
    """
    rows = [
        {name: getattr(judgement, name) for name in _COLUMNS if name != "document_id"}
        | {
            "collection_id": collection_id,
            "query_hash": query_hash(judgement.query),
            "document_id": judgement.document,
            "text_hash": text_hash(judgement.encoded),
            "mode": None if judgement.mode is None else str(judgement.mode),
        }
        for judgement in every
    ]
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(judgements)
    anew = {name: statement.excluded[name] for name in rows[0] if name not in _KEY}
    connection.execute(statement.on_conflict_do_update(index_elements=list(_KEY), set_=anew), rows)


def take_back(
    connection: sa.Connection, collection_id: int, query: str, document_id: str, passage: int | None
) -> int:
    """Delete the judgements of a query and a passage, or of all passages of a document. Returns how many."""
    where = _of(collection_id, query) & (judgements.c.document_id == document_id)
    if passage is not None:
        where &= judgements.c.passage == passage
    return connection.execute(judgements.delete().where(where)).rowcount


def forget(connection: sa.Connection, collection_id: int) -> int:
    """Delete all judgements of a collection. Returns how many.

    If the collection is deleted in this transaction, whoever judges meanwhile waits and then gets an error.
    """
    of_it = collections.c.id == collection_id
    connection.execute(sa.select(collections.c.id).where(of_it).with_for_update())
    whose = judgements.c.collection_id == collection_id
    return connection.execute(judgements.delete().where(whose)).rowcount


def listed(
    connection: sa.Connection,
    collection_id: int,
    query: str | None = None,
    document_id: str | None = None,
    *,
    relevant: bool | None = None,
    unsure: bool = False,
) -> list[Judgement]:
    """The judgements of a query, of a document, or all, in the order in which they were first made.

    unsure: those that the rater could not decide, instead of the others
    """
    where = _of(collection_id, query) & judgements.c.unsure.is_(unsure)
    if document_id is not None:
        where &= judgements.c.document_id == document_id
    if relevant is not None:
        where &= judgements.c.relevant.is_(relevant)
    columns = [judgements.c[name] for name in _COLUMNS]
    statement = sa.select(*columns, _state()).select_from(_with_documents()).where(where)
    return [_judgement(row) for row in connection.execute(statement.order_by(judgements.c.id))]


def said_of(
    connection: sa.Connection, collection_id: int, hashes: Collection[str]
) -> list[tuple[tuple[str, tuple[str, int]], str, bool]]:
    """The judgements of passages by the hashes of their texts, in any order, even if these were removed.

    Each with query, document id, passage, hash and relevance; undecided ones are False.
    """
    each = judgements.c
    statement = sa.select(each.query, each.document_id, each.passage, each.text_hash, each.relevant)
    chosen = statement.where(each.collection_id == collection_id, one_of(each.text_hash, list(hashes)))
    return [((row[0], (row[1], row[2])), row[3], row[4]) for row in connection.execute(chosen)]


def queries(connection: sa.Connection, collection_id: int) -> list[JudgedQuery]:
    """The judged queries, in the order of their first judgement."""
    relevant = sa.func.sum(sa.case((judgements.c.relevant, 1), else_=0))
    statement = (
        sa.select(
            sa.func.min(judgements.c.query),  # one hash, one query
            relevant,
            sa.func.count() - relevant,
            sa.func.max(judgements.c.created_at),
        )
        .where(judgements.c.collection_id == collection_id, judgements.c.unsure.is_(False))
        .group_by(judgements.c.query_hash)
        .order_by(sa.func.min(judgements.c.id))
    )
    return [JudgedQuery(*row) for row in connection.execute(statement)]


def counts(connection: sa.Connection, collection_id: int) -> JudgementCounts:
    """Count the judgements."""
    each = (
        sa.select(judgements.c.query_hash, judgements.c.relevant, _state())
        .select_from(_with_documents())
        .where(judgements.c.collection_id == collection_id, judgements.c.unsure.is_(False))
        .subquery()
    )
    states = (each.c.state == state.value for state in (JudgementState.CHANGED, JudgementState.REMOVED))
    sums = [
        sa.func.coalesce(sa.func.sum(sa.case((part, 1), else_=0)), 0)
        for part in (each.c.relevant, ~each.c.relevant, *states)
    ]
    statement = sa.select(sa.func.count(each.c.query_hash.distinct()), *sums)
    return JudgementCounts(*connection.execute(statement).one())


def _of(collection_id: int, query: str | None) -> ColumnElement[bool]:
    where = judgements.c.collection_id == collection_id
    return where if query is None else where & (judgements.c.query_hash == query_hash(query))


def _with_documents() -> sa.Join:
    """Each judgement with its document, if it still exists."""
    document = (documents.c.collection_id == judgements.c.collection_id) & (
        documents.c.id == judgements.c.document_id
    )
    return judgements.outerjoin(documents, document)


def _state() -> ColumnElement[str]:
    """What has happened to a judgement's passage.

    The document's passages are found by an index on their numbers; asked for all at once, SQLite would read
    every passage of the collection.
    """
    of_document = passages.alias("of_document")
    numbers = sa.select(of_document.c.number).where(
        of_document.c.collection_id == judgements.c.collection_id,
        of_document.c.document == documents.c.number,
    )
    same = sa.exists().where(
        passages.c.collection_id == judgements.c.collection_id,
        passages.c.number.in_(numbers.correlate(judgements, documents)),
        passages.c.ordinal == judgements.c.passage,
        passages.c.text_hash == judgements.c.text_hash,
    )
    return sa.case(
        (documents.c.number.is_(None), JudgementState.REMOVED.value),
        (same.correlate(judgements, documents), JudgementState.CURRENT.value),
        else_=JudgementState.CHANGED.value,
    ).label("state")


def _judgement(row: Any) -> Judgement:  # noqa: ANN401 - a row whose columns are known by name alone
    said = {name: getattr(row, name) for name in _COLUMNS}
    said["mode"] = None if row.mode is None else SearchMode(row.mode)
    return Judgement(document=said.pop("document_id"), state=JudgementState(row.state), **said)


# Some queries to learn from, the others to measure on.


TEST_SHARE = 0.2  # of the queries


class Part(StrEnum):
    """Training or test part of the queries; determined by a query's words, so that it never changes.

    Queries that differ only in case, punctuation and spaces are in the same part, because one would measure
    what was learned from the other.
    """

    TRAIN = "train"
    TEST = "test"  # about a fifth of the queries


def in_part(judgements: Iterable[Judgement], part: Part | None) -> list[Judgement]:
    """The judgements whose query is in that part; None = all."""
    return [one for one in judgements if part is None or _part_of(one.query) is part]


def drawn_share(query: str) -> float:
    """A number from 0 to 1, uniformly distributed, determined by a query's words."""
    return int(query_hash(normalised_text(query))[:8], 16) / 16**8


def drawn(queries: Iterable[str], most: int) -> list[int]:
    """The indexes of at most this many of the queries, ascending; determined by each query's words alone."""
    shares = [drawn_share(f"drawn {query}") for query in queries]
    return sorted(sorted(range(len(shares)), key=shares.__getitem__)[:most])


def _part_of(query: str) -> Part:
    return Part.TEST if drawn_share(query) < TEST_SHARE else Part.TRAIN


JudgedQueries = Mapping[
    str, Mapping[tuple[str, int], bool]
]  # of each passage, by document and place, the word


def judged_queries(judgements: Iterable[Judgement], part: Part) -> JudgedQueries:
    """The part's queries with a relevant passage, in the order of their first judgement.

    Judgements of passages that were changed or removed since do not count.
    """
    found: dict[str, dict[tuple[str, int], bool]] = {}
    for one in in_part(judgements, part):
        if one.state is JudgementState.CURRENT:
            found.setdefault(one.query, {})[one.document, one.passage] = one.relevant
    return {query: of_it for query, of_it in found.items() if any(of_it.values())}
