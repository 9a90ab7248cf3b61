"""Passages in the catalogue, for encoding and for searches."""

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.chunking import Chunking, ChunkingMethod, chunk
from nearsay.data.document import Document, JsonValue, beginning
from nearsay.indexer.catalogue.bulk import number_list, number_lists, one_of
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.json_values import sorted_json_text
from nearsay.indexer.catalogue.tables import documents, passages
from nearsay.indexer.vectors.vector_store import places_in
from nearsay.training.sentence.text_encoder import TextEncoder

_LEAST_ROOM = 32  # tokens left for the text of a passage, however long its title is
_NAMED_BY_CONTENT = re.compile(r"#[0-9a-f]{16}(-\d+)?$")  # the end of an id that `with_ids` made; -2: a copy
_HEADLINE = 80  # characters


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """Passages to encode: ascending numbers and their texts."""

    numbers: list[int]
    texts: list[str]


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document with its id, its hashes and, once chunked, its passages."""

    document: Document
    id: str
    content_hash: str
    row_hash: str
    characters: int  # of its text and its metadata as JSON; its size in memory

    @property
    def named_by_content(self) -> bool:
        """Whether the source gave no id."""
        return self.document.id is None


class Piece(NamedTuple):
    """A passage before it has a number."""

    start: int  # characters of the document's text
    end: int
    text: str  # as it is encoded
    text_hash: str


def encoded_text(title: str, piece: str) -> str:
    """The text to encode for a passage: the document's title, a space, the passage (as in BEIR)."""
    return f"{title} {piece}" if title else piece


def headline(title: str, id_: str, text: str) -> str:
    """A one-line name of a passage: its document's title, its id, or the beginning of its text.

    The last if the id is only a hash, as for a row without an id (see `prepare`).
    """
    if title.strip():
        return " ".join(title.split())
    if not _NAMED_BY_CONTENT.search(id_):
        return id_
    return beginning(text, _HEADLINE) or id_


def heading(title: str, id_: str, text: str) -> tuple[str, int]:
    """The heading of a passage, and how many characters of the text it repeats."""
    called = headline(title, id_, text)
    if title.strip() or called == id_:
        return called, len(text) if text in (called, title) else 0
    words = map(re.escape, called.removesuffix(" …").split())
    begun = re.match(r"\s*" + r"\s+".join(words) + r"\s*", text)
    return (begun.group().strip(), begun.end()) if begun else (called, 0)


def text_hash(text: str) -> str:
    """The first 32 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def content_hash(document: Document) -> str:
    """The hash of what is embedded: title and text."""
    return text_hash(f"{document.title}\0{document.text}")


def prepare(document: Document, id_: str | None = None) -> PreparedDocument:
    """Hash a document and give it its id; `id_`: None = its own, else made of source and content."""
    content = content_hash(document)
    if id_ is None:
        id_ = f"{document.source or ''}#{content[:16]}" if document.id is None else document.id
    metadata = sorted_json_text(dict(document.metadata)) if document.metadata else "{}"
    rest = f'["{content}", {sorted_json_text(document.source)}, {metadata}]'
    characters = len(document.text) + len(metadata)
    return PreparedDocument(document, id_, content, text_hash(rest), characters)


def cut(
    documents: Sequence[Document], chunking: Chunking, encoder: TextEncoder
) -> list[list[tuple[int, int]]]:
    """The character spans of each document's passages.

    A text with at most as many UTF-8 bytes as the window has tokens is one passage and is not tokenized,
    since a token covers at least one byte (a character can be several tokens, as Hangul is in BERT).
    """
    titles = [document.title for document in documents]
    title_tokens = (
        [len(offsets) for offsets in encoder.token_offsets(titles)] if any(titles) else [0] * len(titles)
    )
    spans: list[list[tuple[int, int]]] = [[] for _ in documents]
    long: list[int] = []
    rooms: list[int] = []
    for i, document in enumerate(documents):
        room = max(_LEAST_ROOM, encoder.max_tokens - title_tokens[i])
        window = min(room, chunking.tokens) if chunking.tokens else room
        fits = chunking.method is ChunkingMethod.TOKENS and len(document.text.encode()) <= window
        if chunking.method is not ChunkingMethod.NONE and not fits:
            long.append(i)
            rooms.append(room)
        else:
            spans[i] = [_stripped(document.text)]
    if long:
        texts = [documents[i].text for i in long]
        for i, found in zip(long, chunk(texts, chunking, encoder.token_offsets, rooms=rooms), strict=True):
            spans[i] = found
    return spans


def pieces_of(document: Document, spans: Sequence[tuple[int, int]]) -> list[Piece]:
    """A document's passages from the spans returned by `cut`."""
    texts = [encoded_text(document.title, document.text[start:end]) for start, end in spans]
    return [Piece(*span, text, text_hash(text)) for span, text in zip(spans, texts, strict=True)]


def _stripped(text: str) -> tuple[int, int]:
    start = len(text) - len(text.lstrip())
    return start, max(start, len(text.rstrip()))


_ROWS = 10_000  # fetched at a time


def documents_of(connection: sa.Connection, collection_id: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The document number of each passage; a unique negative number for a passage that was removed meanwhile.

    ids: (n,) ascending. Takes 16 bytes of memory for each passage of the collection
    """
    columns = (passages.c.number, passages.c.document)
    statement = sa.select(*columns).where(passages.c.collection_id == collection_id)
    numbers, owners = number_lists(connection, statement)
    if not numbers.size:
        return -ids
    order = np.argsort(numbers)
    at = places_in(numbers[order], ids)
    return np.where(at >= 0, owners[order][at], -ids)


def whole_documents(
    connection: sa.Connection, collection_id: int, owners: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which passages belong to documents that are complete among them; owners: (n,) of each."""
    count = sa.func.count().label("held")
    statement = sa.select(passages.c.document, count).where(passages.c.collection_id == collection_id)
    numbers, held = number_lists(connection, statement.group_by(passages.c.document))
    there, row, found = np.unique(owners, return_inverse=True, return_counts=True)
    if not numbers.size:
        return np.zeros(owners.size, dtype=np.bool_)
    order = np.argsort(numbers)
    at = order[np.minimum(np.searchsorted(numbers, there, sorter=order), numbers.size - 1)]
    whole: NDArray[np.bool_] = ((numbers[at] == there) & (held[at] == found))[row]
    return whole


def document_ids(connection: sa.Connection, collection_id: int, numbers: NDArray[np.int64]) -> dict[int, str]:
    """The document ids of the existing passages among these."""
    statement = sa.select(passages.c.number, documents.c.id).join(documents, same_document())
    statement = statement.where(passages.c.collection_id == collection_id)
    rows = connection.execute(statement.where(one_of(passages.c.number, numbers.tolist())))
    return {row[0]: row[1] for row in rows}


def by_text(connection: sa.Connection, collection_id: int) -> Iterator[int]:
    """All passage numbers, ordered by the hash of their text, independent of the order of addition."""
    statement = (
        sa.select(passages.c.number)
        .where(passages.c.collection_id == collection_id)
        .order_by(passages.c.text_hash, passages.c.number)
    )
    yield from connection.execute(statement.execution_options(yield_per=_ROWS)).scalars()


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage with its document, as fetched for a search."""

    number: int
    document_id: str
    title: str
    text: str
    metadata: Mapping[str, JsonValue]
    source: str | None
    ordinal: int
    start: int
    end: int


def windows(
    database: Database, collection_id: int, first: int, last: int, limit: int
) -> Iterator[PassageWindow]:
    """Yield the passages from `first` to `last` in windows, with the texts to encode."""
    while True:
        statement = (
            sa.select(passages.c.number, documents.c.title, piece())
            .join(documents, same_document())
            .where(passages.c.collection_id == collection_id, passages.c.number.between(first, last))
            .order_by(passages.c.number)
            .limit(limit)
        )
        with database.reading() as connection:
            rows = connection.execute(statement).all()
        if not rows:
            return
        yield PassageWindow([row[0] for row in rows], [encoded_text(row[1], row[2]) for row in rows])
        first = rows[-1][0] + 1


def encoded_texts(connection: sa.Connection, collection_id: int, numbers: Sequence[int]) -> dict[int, str]:
    """The encoded texts of the existing passages among these."""
    found = titles_and_texts(connection, collection_id, numbers)
    return {number: encoded_text(*one) for number, one in found.items()}


def titles_and_texts(
    connection: sa.Connection, collection_id: int, numbers: Sequence[int]
) -> dict[int, tuple[str, str]]:
    """Title and text of the existing passages among these."""
    statement = (
        sa.select(passages.c.number, documents.c.title, piece())
        .join(documents, same_document())
        .where(passages.c.collection_id == collection_id)
        .where(one_of(passages.c.number, numbers))
    )
    return {number: (title, text) for number, title, text in connection.execute(statement)}


def passage_numbers(
    connection: sa.Connection,
    collection_id: int,
    *,
    after: int = 0,
    through: int | None = None,
) -> NDArray[np.int64]:
    """The numbers (n,) of the passages above `after` and up to `through`, ascending."""
    statement = sa.select(passages.c.number).where(
        passages.c.collection_id == collection_id, passages.c.number > after
    )
    if through is not None:
        statement = statement.where(passages.c.number <= through)
    return np.sort(number_list(connection, statement))


def numbers_by_id(connection: sa.Connection, collection_id: int, ids: Sequence[str]) -> dict[str, list[int]]:
    """The passage numbers of existing documents by id, in the order of the text."""
    where = (documents.c.collection_id == collection_id) & one_of(documents.c.id, ids)
    rows = connection.execute(sa.select(documents.c.number, documents.c.id).where(where))
    named = {number: id_ for number, id_ in rows}  # noqa: C416 - rows are no pairs for mypy
    # An index has the numbers of a document's passages: asked for their order with them, SQLite would read
    # every passage of the collection.
    inside = passages.alias("inside")
    of_them = (inside.c.collection_id == collection_id) & one_of(inside.c.document, list(named))
    numbers = passages.c.number.in_(sa.select(inside.c.number).where(of_them))
    statement = sa.select(passages.c.document, passages.c.ordinal, passages.c.number)
    found: dict[str, list[int]] = {id_: [] for id_ in named.values()}
    placed = connection.execute(statement.where(passages.c.collection_id == collection_id, numbers))
    for document, _, number in sorted(tuple(row) for row in placed):
        found[named[document]].append(number)
    return found


def read_passages(
    connection: sa.Connection,
    collection_id: int,
    numbers: Sequence[int],
    condition: ColumnElement[bool] | None = None,
    *,
    longest: int | None = None,
) -> dict[int, PassageRow]:
    """Read the existing passages among these whose document meets the condition.

    longest: maximum number of characters of each text; None = all
    """
    statement = _rows(cut=longest is not None)
    if condition is not None:
        statement = statement.where(condition)
    values: dict[str, Any] = {"collection": collection_id, "numbers": list(numbers)}
    if longest is not None:
        values["longest"] = longest
    return {row[0]: PassageRow(*row) for row in connection.execute(statement, values)}


@functools.cache
def _rows(*, cut: bool) -> sa.Select[Any]:
    """The statement of `read_passages`, cached because composing it takes longer than running it."""
    text = sa.func.substr(piece(), 1, sa.bindparam("longest", type_=sa.Integer())) if cut else piece()
    columns = (
        passages.c.number,
        documents.c.id,
        documents.c.title,
        text,
        documents.c.metadata,
        documents.c.source,
        passages.c.ordinal,
        passages.c.start,
        passages.c.end,
    )
    return (
        sa.select(*columns)
        .join(documents, same_document())
        .where(passages.c.collection_id == sa.bindparam("collection"))
        .where(one_of(passages.c.number, "numbers"))
    )


def piece() -> ColumnElement[str]:
    """A passage's text, cut from its document's."""
    return sa.func.substr(documents.c.text, passages.c.start + 1, passages.c.end - passages.c.start)


def same_document() -> ColumnElement[bool]:
    """The condition that joins a passage to its document."""
    return sa.and_(
        documents.c.collection_id == passages.c.collection_id, documents.c.number == passages.c.document
    )
