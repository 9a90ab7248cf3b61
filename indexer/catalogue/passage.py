"""The piece of a document that gets one vector."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nearsay.data.chunking import Chunking, ChunkingMethod, chunk
from nearsay.data.document import Document, beginning
from nearsay.indexer.catalogue.json_values import sorted_json_text
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "PassageWindow",
    "Piece",
    "PreparedDocument",
    "content_hash",
    "cut",
    "encoded_text",
    "headline",
    "pieces_of",
    "prepare",
    "text_hash",
]

_LEAST_ROOM = 32  # tokens left for the text of a passage, however long its title is
_NAMED_BY_CONTENT = re.compile(r"#[0-9a-f]{16}$")  # the end of an id that `prepare` made
_HEADLINE = 80  # characters


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """Passages on their way to the encoder: numbers rising, a text each."""

    numbers: list[int]
    texts: list[str]


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document with its id, its hashes and, once cut, its passages."""

    document: Document
    id: str
    content_hash: str
    row_hash: str
    characters: int  # of its text and of its metadata as JSON: what a row takes in memory

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
    """What is encoded for a passage: the document's title, a space, the passage (as BEIR does)."""
    return f"{title} {piece}" if title else piece


def headline(title: str, id_: str, text: str) -> str:
    """What a passage is called where it is shown: its document's title, its id, or how its text begins.

    The last where the id is nothing but a hash, as that of a row without one is (see `prepare`).
    """
    if title.strip():
        return title
    if not _NAMED_BY_CONTENT.search(id_):
        return id_
    return beginning(text, _HEADLINE) or id_


def text_hash(text: str) -> str:
    """32 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def content_hash(document: Document) -> str:
    """A hash of what is embedded: title and text."""
    return text_hash(f"{document.title}\0{document.text}")


def prepare(document: Document, id_: str | None = None) -> PreparedDocument:
    """The document under the id it will have, hashed; `id_`: None = its own, else its source and content."""
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

    A text of at most as many bytes in UTF-8 as there is room in tokens is one passage without being
    tokenized: a token covers a byte or more (a character can be several tokens, as Hangul is in BERT).
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
    """A document's passages, by the spans of its text that `cut` gave."""
    texts = [encoded_text(document.title, document.text[start:end]) for start, end in spans]
    return [Piece(*span, text, text_hash(text)) for span, text in zip(spans, texts, strict=True)]


def _stripped(text: str) -> tuple[int, int]:
    start = len(text) - len(text.lstrip())
    return start, max(start, len(text.rstrip()))
