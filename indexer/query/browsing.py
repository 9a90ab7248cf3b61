"""A collection's documents, page by page, in order of addition.

Keyset pagination: a page starts after the last number of the previous one, so the hundred thousandth takes no
longer than the first. https://use-the-index-luke.com/no-offset
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import sqlalchemy as sa

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import ranges, refinements
from nearsay.indexer.catalogue.bulk import number_list, one_of
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import document_ids, same_document
from nearsay.indexer.catalogue.tables import documents, passages
from nearsay.indexer.filters.parse import Where, expression_of
from nearsay.indexer.filters.selection import count_documents, documents_where
from nearsay.indexer.query.lexical import lexical_candidates, unreadable_words
from nearsay.indexer.query.search_notes import about_fields
from nearsay.indexer.vectors.errors import UnreadableWordsError

MOST_A_PAGE: Final = 500
_BEGINNING: Final = 240  # characters of the text in a row


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document in a list."""

    number: int  # ascending in the order of addition
    id: str
    title: str
    beginning: str  # the first characters of the text
    metadata: Mapping[str, JsonValue]
    source: str | None
    added_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Documents in ascending order of their numbers."""

    rows: tuple[DocumentRow, ...]
    more_before: bool  # whether documents with lower numbers match
    more_after: bool


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """The part of a document that has one vector, or will get one."""

    number: int
    ordinal: int  # 0-based position in the document
    start: int  # characters of the document's text
    end: int


_ROW: Final = (
    documents.c.number,
    documents.c.id,
    documents.c.title,
    sa.func.substr(documents.c.text, 1, _BEGINNING),
    documents.c.metadata,
    documents.c.source,
    documents.c.added_at,
    documents.c.updated_at,
)


class Browser:
    """A list of documents. Get one with `Collection.browser`; each call reads one consistent state."""

    def __init__(self, record: CollectionRecord) -> None:
        """Nothing is read yet."""
        self._record = record

    def page(
        self,
        where: Where | None = None,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> DocumentPage:
        """Get a page of documents that match a filter: after a number, before a number, or the first page.

        For the next page, pass `after=page.rows[-1].number`. Raises BadInputError for an invalid page size,
        BadFilterError for an invalid filter.
        """
        if not 1 <= limit <= MOST_A_PAGE:
            raise BadInputError(f"a page of {limit} documents cannot be. Ask for 1 to {MOST_A_PAGE}")
        if after is not None and before is not None:
            raise BadInputError("a page is after a number or before one, not both. Leave one out")
        number, start = documents.c.number, -1 if after is None else after
        here, there, order = number > start, number <= start, number.asc()
        if before is not None:
            here, there, order = number < before, number >= before, number.desc()
        with self._record.reading() as (connection, row):
            passing = documents_where(connection, row.id, where)
            wanted = sa.select(*_ROW).where(passing, here).order_by(order).limit(limit + 1)
            found = connection.execute(wanted).all()
            beyond = sa.select(number).where(passing, there).limit(1)
            first = after is None and before is None  # page: there are none before it
            others = not first and connection.execute(beyond).first() is not None
        rows, more = tuple(DocumentRow(*row) for row in found[:limit]), len(found) > limit
        if before is not None:
            return DocumentPage(rows[::-1], more, others)
        return DocumentPage(rows, others, more)

    def count(self, where: Where | None = None, *, up_to: int | None = None) -> int:
        """Count the documents that match a filter. Cached until the next commit.

        up_to: stop counting at this number, so that a filter that matches many documents is answered quickly

        Raises BadInputError for a negative `up_to`.
        """
        if up_to is not None and up_to < 0:
            raise BadInputError(f"up_to is {up_to}. Count up to 0 or more, or leave it out")
        with self._record.reading() as (connection, row):
            expression = expression_of(connection, row.id, where)
            return count_documents(connection, row.id, expression, up_to)

    def filter_notes(self, where: Where | None) -> tuple[str, ...]:
        """Explain why a filter that matches no document may be wrong. Raises BadFilterError.

        Names fields that do not occur, with those that do, and comparisons with another type than the
        documents have. Checks the first thousand documents.
        """
        with self._record.reading() as (connection, row):
            expression = expression_of(connection, row.id, where)
            if expression is None:
                return ()
            return tuple(about_fields(connection, row.id, expression, nothing_found=True))

    def by_id(self, ids: Sequence[str]) -> list[DocumentRow]:
        """Get documents by id, in this order, without their full texts. Unknown ids are skipped."""
        with self._record.reading() as (connection, row):
            chosen = sa.and_(documents.c.collection_id == row.id, one_of(documents.c.id, ids))
            rows = connection.execute(sa.select(*_ROW).where(chosen))
            found = {row.id: DocumentRow(*row) for row in rows}
        return [found[id_] for id_ in ids if id_ in found]

    def ids_containing(self, part: str, where: Where | None = None, limit: int = 50) -> list[DocumentRow]:
        """Find documents whose id contains a text, in order of addition; ASCII case is ignored.

        If more than MOST_A_PAGE ids match, the first ones by id are searched. Raises BadInputError for a
        limit below 1.
        """
        if limit < 1:
            raise BadInputError(f"limit is {limit}. Ask for 1 document or more")
        with self._record.reading() as (connection, row):
            if (
                not part or "\0" in part
            ):  # no id holds a zero: SQLite's LIKE would end there, PostgreSQL refuses
                return []
            sqlite = connection.dialect.name == "sqlite"  # whose LIKE ignores case by itself
            holds = documents.c.id.contains if sqlite else documents.c.id.icontains
            # The index over ids is smaller than the table by far: it is read from end to end instead.
            named = sa.select(documents.c.id).where(
                documents.c.collection_id == row.id, holds(part, autoescape=True)
            )
            ids = list(connection.execute(named.order_by(documents.c.id).limit(MOST_A_PAGE)).scalars())
            if not ids:
                return []
            # Sorted here: asked for in order, the table would be read by number, not by these ids.
            chosen = sa.and_(documents_where(connection, row.id, where), one_of(documents.c.id, ids))
            found = [DocumentRow(*row) for row in connection.execute(sa.select(*_ROW).where(chosen))]
        return sorted(found, key=lambda row: row.number)[:limit]

    def with_words(self, query: str, where: Where | None = None, limit: int = 50) -> list[DocumentRow]:
        """Find documents with a passage that contains words of the query, best first by BM25.

        Includes passages that have no vector yet, unlike a search. Raises BadInputError for a limit below 1;
        UnreadableWordsError if the word index is damaged.
        """
        if limit < 1:
            raise BadInputError(f"limit is {limit}. Ask for 1 document or more")
        with self._record.reading() as (connection, row):
            passing = documents_where(connection, row.id, where)
            try:
                found = lexical_candidates(connection, row.id, query)
                if where is not None and not found.complete:  # those that were ranked may not pass
                    owned = sa.select(passages.c.number).join(documents, same_document()).where(passing)
                    every = np.sort(number_list(connection, owned))
                    found = lexical_candidates(connection, row.id, query, allowed=every)
            except UnreadableWordsError as error:
                raise unreadable_words(row.name) from error
            best: dict[str, DocumentRow] = {}
            for begin in range(0, found.ids.size, MOST_A_PAGE):
                some = found.ids[begin : begin + MOST_A_PAGE]
                owners = document_ids(connection, row.id, some)
                ids = list(dict.fromkeys(owners[each] for each in some.tolist() if each in owners))
                chosen = sa.select(*_ROW).where(passing, one_of(documents.c.id, ids))
                rows = {each.id: DocumentRow(*each) for each in connection.execute(chosen)}
                best |= {id_: rows[id_] for id_ in ids if id_ in rows and id_ not in best}
                if len(best) >= limit:
                    break
        return list(best.values())[:limit]

    def passages(self, id_: str) -> list[PassageSpan]:
        """Get a document's passages in order; empty if it does not exist."""
        # Their numbers come from an index: asked for the rows, SQLite would read all of the collection.
        inside = passages.alias("inside")
        owned = (documents.c.collection_id == inside.c.collection_id) & (
            documents.c.number == inside.c.document
        )
        with self._record.reading() as (connection, row):
            named = (documents.c.collection_id == row.id) & (documents.c.id == id_)
            numbers = sa.select(inside.c.number).join(documents, owned).where(named)
            statement = (
                sa.select(passages.c.number, passages.c.ordinal, passages.c.start, passages.c.end)
                .where(passages.c.collection_id == row.id, passages.c.number.in_(numbers))
                .order_by(passages.c.ordinal)
            )
            return [PassageSpan(*row) for row in connection.execute(statement)]

    def waiting(self, generation: GenerationRow) -> int:
        """Count the passages that have no vector in a generation yet."""
        with self._record.reading() as (connection, _):
            return ranges.unembedded(connection, generation)

    def refined(self, generation: GenerationRow) -> str | None:
        """What `improve` changed about a generation's queries, as reported by its hits; None = nothing."""
        with self._record.reading() as (connection, row):
            found = refinements.live_of(connection, row.id, generation.number)
            return None if found is None else found.said
