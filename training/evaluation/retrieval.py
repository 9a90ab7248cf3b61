"""Exact search among the vectors of a judged corpus."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.training.sentence.text_encoder import Progress, TextKind, VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

_BLOCK_SCORES = 32_000_000  # float32 scores held at a time, 128 MB


def nearest(
    queries: NDArray[np.float32], documents: NDArray[np.float32], *, depth: int
) -> Iterator[NDArray[np.int64]]:
    """Give, for each query, the rows of the documents with the highest dot products, best first.

    queries:   (queries, dimension) float32
    documents: (documents, dimension) float32; with unit vectors on both sides the product is the cosine
    yields:    (min(depth, documents),) row numbers; equal products come in the order of their rows
    """
    rows = max(_BLOCK_SCORES // max(len(documents), 1), 1)
    for start in range(0, len(queries), rows):
        for scores in queries[start : start + rows] @ documents.T:
            yield best_rows(scores, depth)


def best_rows(scores: NDArray[np.floating] | NDArray[np.int64], depth: int) -> NDArray[np.int64]:
    """Return the rows of the highest scores, best first; equal scores come in the order of their rows."""
    rows = np.arange(len(scores), dtype=np.int64)
    if depth < len(scores):
        # Everything that ties with the last one stays in, so that the cut is by row and not by chance.
        last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        rows = np.flatnonzero(scores >= last)
    return rows[np.argsort(-scores[rows], kind="stable")][:depth]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedVectors:
    """A judged corpus as an encoder sees it."""

    judged: RetrievalSet
    query_ids: list[str]  # of the queries that are judged
    document_ids: list[str]  # sorted
    queries: NDArray[np.float32]  # (queries, dimension), of unit length
    documents: NDArray[np.float32]  # (documents, dimension), of unit length
    truncated_queries: int  # cut at the encoder's length limit
    truncated_documents: int

    def ranking(self, query: str, rows: NDArray[np.int64], depth: int) -> list[str]:
        """Name the first documents of a ranking of rows, of which there is one more than are wanted.

        As in BEIR, a document with the query's own id is left out; one that is judged is another text that
        only has the query's id.
        """
        named = (self.document_ids[row] for row in rows)
        judgements = self.judged.judgements[query]
        return [document for document in named if document != query or query in judgements][:depth]


def judged_vectors(
    encoder: VectorEncoder,
    judged: RetrievalSet,
    progress: Progress | None = None,
    *,
    before: int = 0,
    total: int | None = None,
) -> JudgedVectors:
    """Encode a judged corpus; `progress` as `encoded_texts` calls it. BadInputError when it is empty."""
    query_ids = [query for query in judged.judgements if query in judged.queries]
    document_ids = sorted(judged.corpus)
    if not query_ids or not document_ids:
        raise BadInputError(
            f"the retrieval set {judged.name!r} has {len(document_ids)} documents and {len(query_ids)} "
            "judged queries. It needs some of both: name another split or folder"
        )
    total = total or len(query_ids) + len(document_ids)
    queries, cut_queries = encoded_texts(
        encoder,
        [judged.queries[query] for query in query_ids],
        kind=TextKind.QUERY,
        progress=progress,
        before=before,
        total=total,
    )
    documents, cut_documents = encoded_texts(
        encoder,
        [judged.corpus[document] for document in document_ids],
        progress=progress,
        before=before + len(query_ids),
        total=total,
    )
    vectors = unit_rows(queries), unit_rows(documents)
    return JudgedVectors(judged, query_ids, document_ids, *vectors, cut_queries, cut_documents)
