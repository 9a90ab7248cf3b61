"""Rows with given vectors: checked, and stored as if the encoder had computed them."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document, beginning
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue.passages import cut, pieces_of
from nearsay.indexer.vectors.vector_store import of_unit_length
from nearsay.training.sentence.text_encoder import EncodedWindow, TextEncoder, TextKind

_CHECKED = 8  # rows that are embedded to compare
_LEAST_COSINE = 0.98  # of a row's vector to what the encoder gives: half precision keeps .9999
_ANY_LENGTH = 10**9  # tokens: nothing is cut that need not be encoded
_SHOWN = 60  # characters of a text
_VECTORS_ONLY = re.compile(r"vectors:(?P<name>.+):(?P<dimension>[1-9]\d{0,5})", re.DOTALL)
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class VectorsOnly:
    """In place of an encoder, for a collection whose vectors are computed elsewhere.

    papers = library.collection("papers", encoder=VectorsOnly("text-embedding-3-small", 1536))
    papers.add_rows(rows, vectors=vectors)
    hits = papers.search(vector)

    name:      name of the model that computes them; vectors of different names are never mixed
    dimension: number of dimensions

    It is saved with the collection. Lexical search (mode="lexical"), comparing, clustering and maps work as
    usual; whatever has to embed a text raises BadInputError.
    """

    name: str
    dimension: int

    def __post_init__(self) -> None:
        if not self.name.strip() or self.dimension < 1:
            raise BadInputError(
                f"vectors need the name of what makes them and a dimension from 1, not {self.name!r} and "
                f"{self.dimension}"
            )

    @classmethod
    def of_source(cls, source: str) -> "VectorsOnly | None":
        """Parse a `source`; None for the source of an encoder."""
        found = _VECTORS_ONLY.fullmatch(source)
        return None if found is None else cls(found["name"], int(found["dimension"]))

    @property
    def source(self) -> str:
        """Saved with the collection: vectors:NAME:DIMENSION."""
        return f"vectors:{self.name}:{self.dimension}"

    @property
    def fingerprint(self) -> str:
        """Made of name and dimension, since nothing else is known."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def max_tokens(self) -> int:
        """Unlimited, since no text is encoded."""
        return _ANY_LENGTH

    @property
    def normalised(self) -> bool:
        """Always True, because vectors that are not of unit length are refused."""
        return True

    @property
    def lineage(self) -> tuple[str, ...]:
        """Empty, since nothing is known."""
        return ()

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Raise BadInputError, unless there is no text."""
        for text in texts:
            if kind == TextKind.QUERY:
                raise BadInputError(
                    f"the vectors of this collection are made elsewhere, by {self.name}, so that no query "
                    f"can be embedded. In Python, give its vector of {self.dimension} dimensions instead. "
                    "Search by words (--mode lexical) and without --explain, tune without --queries"
                )
            raise BadInputError(
                f"the vectors of this collection are made elsewhere, by {self.name}, and there is none for "
                f"{beginning(text, _SHOWN)!r}. Add its row with vectors=, or remove it"
            )
        return np.zeros((0, self.dimension), dtype=np.float32)

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Raise BadInputError at the first text."""
        for texts in windows:
            yield EncodedWindow(self.encode(texts, kind=kind), 0)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Spans of words, for chunking by a number of tokens."""
        return [
            np.array([word.span() for word in _WORD.finditer(text)], dtype=np.int64).reshape(-1, 2)
            for text in texts
        ]


def with_vectors(
    documents: Sequence[Document], vectors: NDArray[np.floating], chunking: Chunking, encoder: TextEncoder
) -> TextEncoder:
    """Wrap an encoder so that the documents' passages get these vectors, other texts the encoder's.

    vectors: (documents, d) of unit length, computed from title, a space and text

    Raises BadInputError for a wrong number, dimension or length, if the vectors of up to eight documents that
    are embedded as a check differ, if a document has more than one passage, and if two equal texts have
    different vectors.
    """
    given = np.asarray(vectors)
    if given.shape != (len(documents), encoder.dimension) or given.dtype.kind != "f":
        raise BadInputError(
            f"vectors is an array {given.shape} of {given.dtype} for {len(documents)} rows. Give floats, "
            f"({len(documents)}, {encoder.dimension}): {encoder.name} has {encoder.dimension} dimensions"
        )
    rows = np.ascontiguousarray(given, dtype=np.float32)
    wrong = np.flatnonzero(~of_unit_length(rows))
    if wrong.size:
        length = float(np.linalg.norm(rows[wrong[0]]))
        raise BadInputError(
            f"vector {wrong[0]} has length {length:.4g}, not 1. Divide each by its length: "
            "vectors / np.linalg.norm(vectors, axis=1, keepdims=True)"
        )
    embedding = _GivenVectors(encoder, {})
    texts: list[str] = []
    for document, spans in zip(documents, cut(documents, chunking, embedding), strict=True):
        if len(spans) != 1:
            raise BadInputError(
                f"the text of row {len(texts)} is cut into {len(spans)} passages, and has one vector. "
                "Add passages as rows, or make the collection with chunking='none'"
            )
        texts.append(pieces_of(document, spans)[0].text)
    some = np.unique(np.linspace(0, len(texts) - 1, min(_CHECKED, len(texts))).astype(int))
    if some.size and not isinstance(encoder, VectorsOnly):
        expected = encoder.encode([texts[place] for place in some], kind=TextKind.PASSAGE)
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        cosines = np.einsum("ij,ij->i", rows[some], expected)
        if cosines.min() < _LEAST_COSINE:
            raise BadInputError(
                f"vector {some[cosines.argmin()]} is not what {encoder.name} gives for its row (cosine "
                f"{cosines.min():.3f}). Name the encoder that made them, or leave out vectors=; those of a "
                "model that nearsay does not run need a collection of their own: "
                f"library.collection(NAME, encoder=VectorsOnly(MODEL, {encoder.dimension}))"
            )
    embedding.vectors = dict(zip(texts, rows, strict=True))
    for place, (text, row) in enumerate(zip(texts, rows, strict=True)):
        if embedding.vectors[text] @ row < _LEAST_COSINE:
            raise BadInputError(
                f"vector {place} is not that of a later row with the same title and text. Give one of the "
                "rows another title, or both the same vector"
            )
    return embedding


class _GivenVectors:
    """An encoder that looks up the vectors of given texts."""

    def __init__(self, encoder: TextEncoder, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        self._encoder = encoder
        self.vectors = vectors
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.dimension = encoder.dimension
        self.max_tokens = _ANY_LENGTH
        self.normalised = encoder.normalised
        self.source = encoder.source
        self.lineage = encoder.lineage

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        (window,) = self.stream([texts], kind=kind)
        return window.vectors

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for texts in windows:
            found = np.empty((len(texts), self.dimension), dtype=np.float32)
            others = [place for place, text in enumerate(texts) if text not in self.vectors]
            truncated = 0
            if others:  # left waiting by an earlier run
                (window,) = self._encoder.stream([[texts[place] for place in others]], kind=kind)
                found[others], truncated = window.vectors, window.truncated
            known = np.setdiff1d(np.arange(len(texts)), others)
            if known.size:
                found[known] = [self.vectors[texts[place]] for place in known]
            yield EncodedWindow(found, truncated)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return self._encoder.token_offsets(texts)
