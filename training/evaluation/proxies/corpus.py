"""What is looked at of a corpus that nobody judged."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking, ChunkingMethod, chunk
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import Format, ReadOptions, Split, format_of
from nearsay.data.reading import read

_BODY_CHARACTERS: Final = 20_000  # of a document; its beginning stands for the whole
_PASSAGE_WORDS: Final = 64  # most words of a passage
_PASSAGES_A_DOCUMENT: Final = 20
_LINES_TOGETHER: Final = 20  # lines of a txt file that count as one document
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class UnjudgedDocument:
    """A document's title and its first passages."""

    title: str  # "" = none
    body: str
    passages: tuple[str, ...]  # consecutive


@dataclass(frozen=True, slots=True)
class UnjudgedCorpus:
    """Documents of a corpus without judgements."""

    documents: tuple[UnjudgedDocument, ...]
    notes: tuple[str, ...]  # what was guessed, skipped and drawn

    def passages(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """Return the different passages in order, the number of each one's document, and its place in there.

        Documents and places are (passages,); a passage that was there before is left out, so that places of
        neighbours may be more than 1 apart.
        """
        seen: dict[str, tuple[int, int]] = {}
        for number, document in enumerate(self.documents):
            for place, passage in enumerate(document.passages):
                seen.setdefault(passage, (number, place))
        found = np.array(list(seen.values()), dtype=np.int64).reshape(-1, 2)
        return list(seen), found[:, 0], found[:, 1]


def read_unjudged_corpus(
    sources: Sequence[str | Path], options: ReadOptions | None = None, *, most: int = 500, seed: int = 0
) -> UnjudgedCorpus:
    """Read documents from files, folders, patterns and `-`, and keep some of them, drawn by chance.

    most: documents that are kept; of a txt file with a passage a line, 20 lines in a row are a document
    Rows that cannot be used are skipped; the notes name some and count them. Raises BadInputError for a
    source that does not exist, for `most` under 2, and when fewer than 2 documents are there.
    """
    reading = read(sources, options or ReadOptions(metadata=(), split=Split.LINES))
    corpus = corpus_of_documents(reading.documents(), most=most, seed=seed)
    return UnjudgedCorpus(corpus.documents, (*reading.notes, *corpus.notes))


def corpus_of_documents(documents: Iterable[Document], *, most: int, seed: int) -> UnjudgedCorpus:
    """Keep at most so many documents, each as likely, in their order; as `read_unjudged_corpus`.

    Reservoir sampling: Vitter 1985, algorithm R, https://doi.org/10.1145/3147.3165
    """
    if most < 2:
        raise BadInputError(f"{most} documents are asked for; ask for 2 or more")
    chance = np.random.default_rng(seed)
    kept: list[tuple[int, str, tuple[str, ...]]] = []
    seen = 0
    for title, lines in _grouped(documents):
        seen += 1
        if len(kept) < most:
            kept.append((seen, title, lines))
        elif (place := int(chance.integers(seen))) < most:
            kept[place] = (seen, title, lines)
    if len(kept) < 2:
        raise BadInputError(f"the corpus holds {len(kept)} documents that can be used; give 2 or more")
    note = f"measured on {most:,} of {seen:,} documents, drawn by chance with seed {seed}"
    return UnjudgedCorpus(
        tuple(_document(title, lines) for _, title, lines in sorted(kept)), (note,) if seen > most else ()
    )


def _grouped(documents: Iterable[Document]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Titles with texts; neighbouring lines of a txt file come together."""
    lines: list[str] = []
    source: str | None = None
    for document in documents:
        is_line = document.source is not None and document.id is None and document.line is not None
        is_line = is_line and format_of(Path(document.source or "")) is Format.TXT
        if lines and (not is_line or document.source != source or len(lines) == _LINES_TOGETHER):
            yield "", tuple(lines)
            lines = []
        if is_line:
            lines.append(document.text)
            source = document.source
        else:
            yield document.title, (document.text[:_BODY_CHARACTERS],)
    if lines:
        yield "", tuple(lines)


def _document(title: str, texts: tuple[str, ...]) -> UnjudgedDocument:
    if len(texts) > 1:
        return UnjudgedDocument(title, "\n".join(texts), texts)
    body = texts[0]
    chunking = Chunking(ChunkingMethod.TOKENS, _PASSAGE_WORDS, 0)
    (spans,) = chunk([body], chunking, _word_offsets, rooms=[_PASSAGE_WORDS])
    passages = tuple(body[start:end] for start, end in spans[:_PASSAGES_A_DOCUMENT])
    return UnjudgedDocument(title, body, passages)


def _word_offsets(texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """Words instead of an encoder's tokens, so that all encoders get the same passages."""
    return [
        np.array([match.span() for match in _WORD.finditer(text)], dtype=np.int64).reshape(-1, 2)
        for text in texts
    ]
