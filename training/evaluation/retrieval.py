"""Retrieval: does an encoder find the judged documents among all of a corpus?"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.training.evaluation.rank_metrics import ndcg, recall, reciprocal_rank
from nearsay.training.sentence.text_encoder import Progress, TextEncoder, TextKind, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

__all__ = [
    "JudgedVectors",
    "best_rows",
    "evaluate_retrieval",
    "judged_vectors",
    "nearest",
]


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
    """Give the rows of the highest scores, best first; equal scores come in the order of their rows."""
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


def judged_vectors(
    encoder: TextEncoder,
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


@dataclass(frozen=True, slots=True, eq=False)
class RetrievalReport:
    """What an encoder reached on a retrieval set, on each judged query and as the means over them, 0 to 1."""

    name: str
    query_ids: tuple[str, ...]
    each: NDArray[np.float64]  # (queries, 3): nDCG@10, the reciprocal rank at 10 and recall@100 of each
    documents: int
    truncated_documents: int  # cut at the encoder's length limit
    truncated_queries: int
    encoding_seconds: float
    search_seconds: float

    @property
    def queries(self) -> int:
        """Judged queries."""
        return len(self.query_ids)

    @property
    def ndcg_at_10(self) -> float:
        """The figure that decides."""
        return float(self.each[:, 0].mean())

    @property
    def mrr_at_10(self) -> float:
        """The mean of the reciprocal ranks."""
        return float(self.each[:, 1].mean())

    @property
    def recall_at_100(self) -> float:
        """The mean share of the relevant documents that are found."""
        return float(self.each[:, 2].mean())


def evaluate_retrieval(
    encoder: TextEncoder, retrieval_set: RetrievalSet, *, depth: int = 100, progress: Progress | None = None
) -> RetrievalReport:
    """Rank every document for every judged query by exact cosine, and measure each ranking.

    depth:    documents ranked for a query, at least 100
    progress: called with texts encoded and texts in all

    As in BEIR, a document with the query's own id is left out, unless it is judged, and a query counts when
    the set judges any document for it, 0 when none of those is relevant. Documents of equal cosine are
    ranked by id (trec_eval takes the reverse). Raises BadInputError when there is nothing to measure.
    Thakur et al. 2021, https://arxiv.org/abs/2104.08663
    """
    if depth < 100:
        raise ValueError(f"depth {depth} is less than the 100 that recall is measured at")
    started = perf_counter()
    found = judged_vectors(encoder, retrieval_set, progress)
    encoded = perf_counter()
    figures = []
    # One more than asked, for the document that may be the query itself.
    rankings = nearest(found.queries, found.documents, depth=depth + 1)
    document_ids = found.document_ids
    for query, rows in zip(found.query_ids, rankings, strict=True):
        judgements = retrieval_set.judgements[query]
        # One that is judged is another text that only has the query's id.
        ranking = [document_ids[row] for row in rows if document_ids[row] != query or query in judgements][
            :depth
        ]
        figures.append(
            (ndcg(ranking, judgements), reciprocal_rank(ranking, judgements), recall(ranking, judgements))
        )
    return RetrievalReport(
        name=retrieval_set.name,
        query_ids=tuple(found.query_ids),
        each=np.array(figures, dtype=np.float64),
        documents=len(document_ids),
        truncated_documents=found.truncated_documents,
        truncated_queries=found.truncated_queries,
        encoding_seconds=encoded - started,
        search_seconds=perf_counter() - encoded,
    )
