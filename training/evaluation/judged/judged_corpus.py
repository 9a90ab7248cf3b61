"""A judged corpus as a judged set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Final, Self

import numpy as np

from nearsay.data.retrieval_set import RetrievalSet
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    drawn_note,
    drawn_rows,
    mean_of_drawn,
)
from nearsay.training.evaluation.rank_metrics import ndcg, recall, reciprocal_rank
from nearsay.training.evaluation.retrieval import judged_vectors, nearest
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder

_DEPTH: Final = 100  # documents that are ranked for a query: recall is measured there
_DOCUMENTS_A_QUERY: Final = 10  # kept for each query of a quick look


@dataclass(frozen=True, slots=True)
class RetrievalJudgedSet:
    """Documents, queries and judgements; nDCG@10 decides, and queries are its items."""

    kind: ClassVar = EvaluationKind.RETRIEVAL
    name: str
    retrieval_set: RetrievalSet
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self._judged_queries())

    def texts(self) -> Iterator[str]:
        """The queries: the documents are what is searched, which an encoder may have seen."""
        for query in self._judged_queries():
            yield self.retrieval_set.queries[query]

    def held_out(self) -> Iterator[tuple[str, ...]]:
        """Each query as a row of its own, and with each document that answers it.

        Alone it leaks wherever it stands: training files often hold a document without its title, and beside
        its query even that gives the answer away. Documents without their query may have been seen.
        """
        whole = self.retrieval_set
        for query in self._judged_queries():
            yield (whole.queries[query],)
            for document, relevance in whole.judgements[query].items():
                if relevance > 0:
                    yield whole.queries[query], whole.corpus[document]

    def content(self) -> Iterator[object]:
        """The documents, the queries and their judgements."""
        whole = self.retrieval_set
        for part in (whole.corpus, whole.queries, whole.judgements):
            yield from part.items()

    def limited(self, most: int, seed: int) -> Self:
        """At most so many queries, with what is judged for them and other documents up to ten a query."""
        whole = self.retrieval_set
        ids = self._judged_queries()
        rows = drawn_rows(len(ids), most, seed)
        if len(rows) == len(ids):
            return self
        queries = {ids[row]: whole.queries[ids[row]] for row in rows}
        judgements = {query: whole.judgements[query] for query in queries}
        judged = {document for of_query in judgements.values() for document in of_query}
        others = [document for document in whole.corpus if document not in judged]
        room = max(_DOCUMENTS_A_QUERY * len(rows) - len(judged), 1)
        kept = judged | {others[row] for row in drawn_rows(len(others), room, seed)}
        corpus = {document: text for document, text in whole.corpus.items() if document in kept}
        note = (
            drawn_note(self.name, len(rows), len(ids), seed)
            + f", and {len(corpus):,} of {len(whole.corpus):,} documents"
        )
        return replace(
            self,
            retrieval_set=RetrievalSet(whole.name, corpus, queries, judgements, whole.notes),
            notes=(*self.notes, note),
        )

    def measure(self, encoder: VectorEncoder, progress: Progress | None = None) -> Outcome:
        """Rank every document for every judged query by exact cosine, and measure each ranking.

        As in BEIR, a document with the query's own id is left out, unless it is judged, and a query counts
        when the set judges any document for it, 0 when none of those is relevant. Documents of equal cosine
        are ranked by id (trec_eval takes the reverse). Raises BadInputError when there is nothing to measure.
        Thakur et al. 2021, https://arxiv.org/abs/2104.08663
        """
        started = perf_counter()
        found = judged_vectors(encoder, self.retrieval_set, progress)
        encoded = perf_counter()
        figures = []
        # One more than is measured, for the document that may be the query itself.
        rankings = nearest(found.queries, found.documents, depth=_DEPTH + 1)
        for query, rows in zip(found.query_ids, rankings, strict=True):
            judgements = self.retrieval_set.judgements[query]
            ranking = found.ranking(query, rows, _DEPTH)
            figures.append(
                (ndcg(ranking, judgements), reciprocal_rank(ranking, judgements), recall(ranking, judgements))
            )
        each = np.array(figures, dtype=np.float64)
        means = each.mean(axis=0)
        ended = perf_counter()
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics={
                "ndcg_at_10": float(means[0]),
                "mrr_at_10": float(means[1]),
                "recall_at_100": float(means[2]),
            },
            main="ndcg_at_10",
            items=len(figures),
            truncated=found.truncated_documents + found.truncated_queries,
            seconds=ended - started,
            resampled=mean_of_drawn(each[:, 0]),
            details={
                "queries": len(figures),
                "documents": len(found.document_ids),
                "truncated_documents": found.truncated_documents,
                "truncated_queries": found.truncated_queries,
                "encoding_seconds": encoded - started,
                "search_seconds": ended - encoded,
            },
        )

    def _judged_queries(self) -> list[str]:
        """The queries that count, in the order in which they are measured."""
        return [query for query in self.retrieval_set.judgements if query in self.retrieval_set.queries]
