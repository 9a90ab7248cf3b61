"""Documents in the catalogue, and the passages that change with them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue import collections, lexical_rows
from nearsay.indexer.catalogue.bulk import count_of, insert_columns, number_list, one_of, update_columns
from nearsay.indexer.catalogue.explored import leave_documents
from nearsay.indexer.catalogue.json_values import json_text
from nearsay.indexer.catalogue.near_duplicates import gate_of
from nearsay.indexer.catalogue.passages import PassageWindow, Piece, PreparedDocument, pieces_of
from nearsay.indexer.catalogue.tables import changed_documents, documents, passages, removed_passages

_REMOVED = 5_000  # documents in a statement, within which nothing interrupts
_SECOND = 19  # characters of a moment up to its second: 2026-11-21T18:45:00


def untouched(connection: sa.Connection, collection_id: int, ids: Sequence[str], since: str) -> set[str]:
    """The existing ids whose documents were neither added nor changed since a moment.

    since: ISO 8601 in UTC; a change within the same second counts
    """
    moment = since[:_SECOND]
    statement = sa.select(documents.c.id).where(
        documents.c.collection_id == collection_id,
        one_of(documents.c.id, ids),
        documents.c.updated_at < moment,
    )
    return set(connection.execute(statement).scalars())


@dataclass(slots=True)
class NewDocuments:
    """Columns of new documents before they have numbers, prepared while others are written."""

    ids: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)  # JSON
    content_hashes: list[str] = field(default_factory=list)
    row_hashes: list[str] = field(default_factory=list)
    sources: list[str | None] = field(default_factory=list)
    named_by_content: list[bool] = field(default_factory=list)

    # A passage each:
    owners: list[int] = field(default_factory=list)  # the index of its document in the lists above
    ordinals: list[int] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)

    @classmethod
    def of(
        cls, prepared: Sequence[PreparedDocument], spans: Sequence[Sequence[tuple[int, int]]]
    ) -> "NewDocuments":
        """Arrange documents and the spans of their passages, as returned by `cut`."""
        laid = cls()
        for item, own in zip(prepared, spans, strict=True):
            laid._add(item, own)
        return laid

    def _add(self, item: PreparedDocument, spans: Sequence[tuple[int, int]]) -> None:
        document = item.document
        place = len(self.ids)
        self.ids.append(item.id)
        self.titles.append(document.title)
        self.texts.append(document.text)
        self.metadata.append(json_text(dict(document.metadata)) if document.metadata else "{}")
        self.content_hashes.append(item.content_hash)
        self.row_hashes.append(item.row_hash)
        self.sources.append(document.source)
        self.named_by_content.append(item.named_by_content)
        for ordinal, piece in enumerate(pieces_of(document, spans)):
            self.owners.append(place)
            self.ordinals.append(ordinal)
            self.pieces.append(piece)


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """What decides whether a document is written or embedded again."""

    number: int
    content_hash: str
    row_hash: str
    named_by_content: bool


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document of a collection."""

    id: str
    title: str
    text: str
    metadata: Mapping[str, JsonValue]
    source: str | None
    added_at: str
    updated_at: str
    passages: int


def known(connection: sa.Connection, collection_id: int, ids: Sequence[str]) -> dict[str, KnownDocument]:
    """Those of the ids that exist in the collection."""
    hashes = (documents.c.content_hash, documents.c.row_hash)
    columns = (documents.c.id, documents.c.number, *hashes, documents.c.named_by_content)
    where = (documents.c.collection_id == collection_id) & one_of(documents.c.id, ids)
    return {id_: KnownDocument(*rest) for id_, *rest in connection.execute(sa.select(*columns).where(where))}


def are_there(connection: sa.Connection, collection_id: int) -> bool:
    """Whether the collection has any document."""
    first = sa.select(documents.c.number).where(documents.c.collection_id == collection_id).limit(1)
    return connection.execute(first).first() is not None


def insert(connection: sa.Connection, collection_id: int, new: NewDocuments, moment: str) -> PassageWindow:
    """Insert new documents with their passages. Returns the passages to embed."""
    count = len(new.ids)
    if not count:
        return PassageWindow([], [])
    first, first_passage = collections.take_numbers(connection, collection_id, count, len(new.pieces))
    of_documents: dict[str, Sequence[object]] = {
        "collection_id": [collection_id] * count,
        "number": range(first, first + count),
        "id": new.ids,
        "title": new.titles,
        "text": new.texts,
        "metadata": new.metadata,
        "content_hash": new.content_hashes,
        "row_hash": new.row_hashes,
        "source": new.sources,
        "named_by_content": new.named_by_content,
        "added_at": [moment] * count,
        "updated_at": [moment] * count,
    }
    insert_columns(connection, documents, of_documents)
    owners = [first + place for place in new.owners]
    return _insert_passages(connection, collection_id, first_passage, owners, new.ordinals, new.pieces)


def _insert_passages(
    connection: sa.Connection,
    collection_id: int,
    first: int,
    owners: Sequence[int],
    ordinals: Sequence[int],
    pieces: Sequence[Piece],
) -> PassageWindow:
    """Insert passages, numbered from the first, with their words; owners: their documents' numbers."""
    if not pieces:
        return PassageWindow([], [])
    starts, ends, texts, hashes = zip(*pieces, strict=True)
    window = PassageWindow(list(range(first, first + len(pieces))), list(texts))
    columns: dict[str, Sequence[object]] = {
        "collection_id": [collection_id] * len(pieces),
        "number": window.numbers,
        "document": owners,
        "ordinal": ordinals,
        "start": starts,
        "end": ends,
        "text_hash": hashes,
    }
    insert_columns(connection, passages, columns)
    lexical_rows.insert_rows(connection, collection_id, window.numbers, window.texts)
    return window


def replace_text(
    connection: sa.Connection,
    collection_id: int,
    changed: Sequence[tuple[int, PreparedDocument, Sequence[Piece]]],
    moment: str,
) -> PassageWindow:
    """Change titles and texts of documents. Returns the new passages to embed.

    A passage whose encoded text the document had before keeps its number, and so its vector. Links between
    near-duplicates are left to a gate that will check the new passages; without a gate they are deleted.
    """
    if not changed:
        return PassageWindow([], [])
    numbers = [number for number, _, _ in changed]
    before = _passages_by_document(connection, collection_id, numbers)
    fresh: list[tuple[int, int, Piece]] = []  # the document's number, the place in it
    moved: list[tuple[int, int, int, int]] = []  # the passage's number, the place, its start and end
    gone: list[int] = []
    for number, _, pieces in changed:
        old = before[number]
        for ordinal, piece in enumerate(pieces):
            if old.get(piece.text_hash):
                moved.append((old[piece.text_hash].pop(0), ordinal, piece.start, piece.end))
            else:
                fresh.append((number, ordinal, piece))
        gone += [passage for left in old.values() for passage in left]
    if moved:
        of_moved, ordinals, starts, ends = zip(*moved, strict=True)
        keys = {"collection_id": [collection_id] * len(moved), "number": of_moved}
        update_columns(connection, passages, keys, {"ordinal": ordinals, "start": starts, "end": ends})
    _remove_passages(connection, collection_id, gone)  # their words first, while their old text is there
    items = [item for _, item, _ in changed]
    texts = {
        "title": [item.document.title for item in items],
        "text": [item.document.text for item in items],
        "content_hash": [item.content_hash for item in items],
    }
    _rewrite(connection, collection_id, numbers, items, moment, texts)
    looked_at = {number for number, _, _ in fresh} if gate_of(connection, collection_id) else set()
    leave_documents(connection, collection_id, [number for number in numbers if number not in looked_at])
    if not fresh:
        return PassageWindow([], [])
    _, first = collections.take_numbers(connection, collection_id, 0, len(fresh))
    return _insert_passages(connection, collection_id, first, *zip(*fresh, strict=True))


def relabel(
    connection: sa.Connection,
    collection_id: int,
    changed: Sequence[tuple[int, PreparedDocument]],
    moment: str,
) -> None:
    """Change the metadata of documents; texts and vectors stay."""
    if changed:
        numbers, items = zip(*changed, strict=True)
        _rewrite(connection, collection_id, numbers, items, moment, {})


def _rewrite(
    connection: sa.Connection,
    collection_id: int,
    numbers: Sequence[int],
    items: Sequence[PreparedDocument],
    moment: str,
    texts: Mapping[str, Sequence[object]],
) -> None:
    """Update the metadata and some more columns of documents."""
    keys = {"collection_id": [collection_id] * len(numbers), "number": numbers}
    columns: dict[str, Sequence[object]] = {
        "metadata": [json_text(dict(item.document.metadata)) for item in items],
        "row_hash": [item.row_hash for item in items],
        "source": [item.document.source for item in items],
        "updated_at": [moment] * len(numbers),
    }
    update_columns(connection, documents, keys, {**columns, **texts})
    # Columns are read again for them.
    of_changed = {"collection_id": keys["collection_id"], "document": numbers}
    insert_columns(connection, changed_documents, of_changed)


def remove(connection: sa.Connection, collection_id: int, condition: ColumnElement[bool]) -> int:
    """Delete the documents that meet the condition, with their passages. Returns how many documents."""
    chosen = sa.select(documents.c.number).where(documents.c.collection_id == collection_id, condition)
    numbers = list(connection.execute(chosen).scalars())
    for begin in range(0, len(numbers), _REMOVED):
        some = numbers[begin : begin + _REMOVED]
        leave_documents(connection, collection_id, some)
        of_them = (passages.c.collection_id == collection_id) & one_of(passages.c.document, some)
        # Their numbers come from an index: asked for the rows, SQLite would read all of the collection.
        gone = number_list(connection, sa.select(passages.c.number).where(of_them))
        _remove_passages(connection, collection_id, gone.tolist())
        where = (documents.c.collection_id == collection_id) & one_of(documents.c.number, some)
        connection.execute(documents.delete().where(where))
    return len(numbers)


def of_source(connection: sa.Connection, collection_id: int, source: str) -> Iterator[str]:
    """The ids of a source's documents that have no id of their own, to be read in the transaction."""
    statement = sa.select(documents.c.id).where(_unnamed_of(collection_id, source))
    return iter(connection.execute(statement.execution_options(yield_per=10_000)).scalars())


def count_of_source(connection: sa.Connection, collection_id: int, source: str) -> int:
    """Number of a source's documents that have no id of their own."""
    return count_of(connection, documents, _unnamed_of(collection_id, source))


def _unnamed_of(collection_id: int, source: str) -> ColumnElement[bool]:
    return sa.and_(
        documents.c.collection_id == collection_id,
        documents.c.source == source,
        documents.c.named_by_content,
    )


def matching(
    connection: sa.Connection,
    collection_id: int,
    condition: ColumnElement[bool] | None,
    after: int = 0,
    limit: int | None = 1000,
) -> Iterator[tuple[int, StoredDocument]]:
    """The next documents that meet the condition, by number, after a number.

    limit: None = all, in any order
    """
    passage_count = (
        sa.select(sa.func.count())
        .where(
            passages.c.collection_id == documents.c.collection_id, passages.c.document == documents.c.number
        )
        .scalar_subquery()
    )
    statement = (
        sa.select(
            documents.c.number,
            documents.c.id,
            documents.c.title,
            documents.c.text,
            documents.c.metadata,
            documents.c.source,
            documents.c.added_at,
            documents.c.updated_at,
            passage_count,
        )
        .where(documents.c.collection_id == collection_id)
        .limit(limit)
    )
    if limit is not None:  # all of a few ids in order would be looked for among all numbers
        statement = statement.where(documents.c.number > after).order_by(documents.c.number)
    if condition is not None:
        statement = statement.where(condition)
    for row in connection.execute(statement):
        yield row[0], StoredDocument(*row[1:])


def fetch_all(connection: sa.Connection, collection_id: int, ids: Sequence[str]) -> dict[str, StoredDocument]:
    """The existing documents among the ids, by id."""
    listed = matching(connection, collection_id, one_of(documents.c.id, ids), limit=None)
    return {one.id: one for _, one in listed}


def ids_of(connection: sa.Connection, collection_id: int, numbers: Sequence[int]) -> dict[int, str]:
    """The ids of the existing documents among the numbers."""
    where = (documents.c.collection_id == collection_id) & one_of(documents.c.number, numbers)
    statement = sa.select(documents.c.number, documents.c.id).where(where)
    return {row[0]: row[1] for row in connection.execute(statement)}


def first_metadata(connection: sa.Connection, collection_id: int) -> Iterator[Mapping[str, JsonValue]]:
    """The metadata of the first thousand documents, to be read in the transaction."""
    statement = sa.select(documents.c.metadata).where(documents.c.collection_id == collection_id)
    return iter(connection.execute(statement.order_by(documents.c.number).limit(1_000)).scalars())


def fields_seen(connection: sa.Connection, collection_id: int) -> list[str]:
    """The names of metadata fields in the first thousand documents, in order."""
    return sorted({name for row in first_metadata(connection, collection_id) for name in row})


def _passages_by_document(
    connection: sa.Connection, collection_id: int, numbers: Sequence[int]
) -> dict[int, dict[str, list[int]]]:
    found: dict[int, dict[str, list[int]]] = {number: defaultdict(list) for number in numbers}
    statement = (
        sa.select(passages.c.document, passages.c.number, passages.c.text_hash)
        .where(passages.c.collection_id == collection_id)
        .where(one_of(passages.c.document, numbers))
        .order_by(passages.c.document, passages.c.ordinal)
    )
    for document, number, digest in connection.execute(statement):
        found[document][digest].append(number)
    return found


def _remove_passages(connection: sa.Connection, collection_id: int, numbers: Sequence[int]) -> None:
    if not numbers:
        return
    gone = {"collection_id": [collection_id] * len(numbers), "passage": numbers}
    insert_columns(connection, removed_passages, gone)
    of_them = one_of(passages.c.number, numbers)
    lexical_rows.delete_rows(connection, collection_id, of_them)
    connection.execute(passages.delete().where(passages.c.collection_id == collection_id, of_them))
