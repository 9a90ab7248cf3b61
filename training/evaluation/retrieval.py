"""Retrieval: does an encoder find the judged documents among all of a corpus?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.training.evaluation.exact_search import nearest
from nearsay.training.evaluation.ndcg import ndcg
from nearsay.training.evaluation.recall import recall
from nearsay.training.evaluation.reciprocal_rank import reciprocal_rank
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["RetrievalReport", "evaluate_retrieval"]

_WINDOW_TEXTS = 1024  # documents encoded between two calls of `progress`


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """What an encoder reached on a retrieval set; each figure is the mean over its judged queries, 0 to 1."""

    name: str
    queries: int
    documents: int
    ndcg_at_10: float
    mrr_at_10: float
    recall_at_100: float
    truncated_documents: int  # cut at the encoder's length limit
    truncated_queries: int
    encoding_seconds: float
    search_seconds: float


def evaluate_retrieval(
    encoder: TextEncoder,
    retrieval_set: RetrievalSet,
    *,
    depth: int = 100,
    progress: Callable[[int, int], None] | None = None,
) -> RetrievalReport:
    """Rank every document for every judged query by exact cosine, and measure the rankings.

    depth:    documents ranked for a query, at least 100
    progress: called with texts encoded and texts in all

    As in BEIR, a document with the query's own id is left out, and a query counts when the set judges any
    document for it, 0 when none of those is relevant. Documents of equal cosine are ranked by id (trec_eval
    takes the reverse). Raises BadInputError when there is nothing to measure.

    Thakur et al. 2021, https://arxiv.org/abs/2104.08663
    """
    if depth < 100:
        raise ValueError(f"depth {depth} is less than the 100 that recall is measured at")
    query_ids = [query for query in retrieval_set.judgements if query in retrieval_set.queries]
    document_ids = sorted(retrieval_set.corpus)
    if not query_ids or not document_ids:
        raise BadInputError(
            f"the retrieval set {retrieval_set.name!r} has {len(document_ids)} documents and "
            f"{len(query_ids)} judged queries. It needs some of both: name another split or folder"
        )
    started = perf_counter()
    progress = progress or _silent
    total = len(query_ids) + len(document_ids)
    queries, cut_queries = _encoded(
        encoder,
        [retrieval_set.queries[query] for query in query_ids],
        TextKind.QUERY,
        lambda done: progress(done, total),
    )
    documents, cut_documents = _encoded(
        encoder,
        [retrieval_set.corpus[document] for document in document_ids],
        TextKind.PASSAGE,
        lambda done: progress(len(query_ids) + done, total),
    )
    encoded = perf_counter()
    figures = []
    # One more than asked, for the document that may be the query itself.
    for query, rows in zip(query_ids, nearest(queries, documents, depth=depth + 1), strict=True):
        ranking = [document_ids[row] for row in rows if document_ids[row] != query][:depth]
        judgements = retrieval_set.judgements[query]
        figures.append(
            (ndcg(ranking, judgements), reciprocal_rank(ranking, judgements), recall(ranking, judgements))
        )
    means = np.mean(figures, axis=0)
    return RetrievalReport(
        name=retrieval_set.name,
        queries=len(query_ids),
        documents=len(document_ids),
        ndcg_at_10=float(means[0]),
        mrr_at_10=float(means[1]),
        recall_at_100=float(means[2]),
        truncated_documents=cut_documents,
        truncated_queries=cut_queries,
        encoding_seconds=encoded - started,
        search_seconds=perf_counter() - encoded,
    )


def _encoded(
    encoder: TextEncoder, texts: Sequence[str], kind: TextKind, report: Callable[[int], None]
) -> tuple[NDArray[np.float32], int]:
    """The texts' unit vectors, and how many texts were cut."""
    windows = (texts[start : start + _WINDOW_TEXTS] for start in range(0, len(texts), _WINDOW_TEXTS))
    vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    done = truncated = 0
    for window in encoder.stream(windows, kind=kind):
        lengths = np.linalg.norm(window.vectors, axis=1, keepdims=True)
        vectors[done : done + len(lengths)] = window.vectors / lengths
        done += len(lengths)
        truncated += window.truncated
        report(done)
    return vectors, truncated


def _silent(_done: int, _total: int) -> None:
    return
