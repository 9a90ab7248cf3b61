"""Rows that come with their vectors: checked, and stored as if the encoder had just given them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.indexer.passage import cut, pieces_of
from nearsay.indexer.vector_store import of_unit_length
from nearsay.training.sentence.text_encoder import EncodedWindow, TextEncoder, TextKind

__all__ = ["with_vectors"]

_CHECKED = 8  # rows that are embedded to compare
_LEAST_COSINE = 0.98  # of a row's vector to what the encoder gives: half precision keeps .9999
_ANY_LENGTH = 10**9  # tokens: nothing is cut that need not be encoded


def with_vectors(
    documents: Sequence[Document], vectors: NDArray[np.floating], chunking: Chunking, encoder: TextEncoder
) -> TextEncoder:
    """What gives the documents' passages their vectors, and other texts what the encoder gives.

    vectors: (documents, d) of length 1, made by the encoder from title, a space and text

    BadInputError if they are not one a document, of another dimension or length, not what the encoder gives
    for up to eight of the documents, or if a document has more than one passage.
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
    if some.size:
        expected = encoder.encode([texts[place] for place in some], kind=TextKind.PASSAGE)
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        cosines = np.einsum("ij,ij->i", rows[some], expected)
        if cosines.min() < _LEAST_COSINE:
            raise BadInputError(
                f"vector {some[cosines.argmin()]} is not what {encoder.name} gives for its row (cosine "
                f"{cosines.min():.3f}). Name the encoder that made the vectors, or leave them away"
            )
    embedding.vectors = dict(zip(texts, rows, strict=True))
    return embedding


class _GivenVectors:
    """A text encoder that knows some texts' vectors already."""

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
