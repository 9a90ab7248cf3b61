"""Lists to rerank as a judged set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.training.evaluation.average_precision import average_precision
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts, unit_rows
from nearsay.training.evaluation.judged.candidates import Candidates
from nearsay.training.evaluation.judged.drawing import drawn_note, drawn_rows
from nearsay.training.evaluation.judged.judged_set import PairScorer, scores_of_pairs
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.outcome import Outcome, mean_of_drawn
from nearsay.training.evaluation.ndcg import ndcg
from nearsay.training.evaluation.reciprocal_rank import reciprocal_rank
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["RerankingSet", "list_figures"]


@dataclass(frozen=True, slots=True)
class RerankingSet:
    """Queries with candidates that answer them and some that do not; MAP decides, queries are its items."""

    kind: ClassVar = EvaluationKind.RERANKING
    name: str
    lists: tuple[Candidates, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.lists)

    def texts(self) -> Iterator[str]:
        """The queries and their candidates."""
        for each in self.lists:
            yield each.anchor
            yield from each.positives
            yield from each.negatives

    def held_out(self) -> Iterator[tuple[str, ...]]:
        """Each query with its candidates."""
        for each in self.lists:
            yield (each.anchor, *each.positives, *each.negatives)

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its queries, with all of their candidates."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        note = drawn_note(self.name, len(rows), len(self), seed)
        return replace(self, lists=tuple(self.lists[row] for row in rows), notes=(*self.notes, note))

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """Rank each query's candidates by cosine; MAP, MRR@10 and nDCG@10 as means over the queries.

        Muennighoff et al. 2023, section 3.3, https://arxiv.org/abs/2210.07316
        """
        started = perf_counter()
        report = progress or (lambda _done, _all: None)
        candidates = [text for each in self.lists for text in (*each.positives, *each.negatives)]
        total = len(self) + len(candidates)
        queries, cut_queries = encoded_texts(
            encoder,
            [each.anchor for each in self.lists],
            kind=TextKind.QUERY,
            listener=lambda done: report(done, total),
        )
        passages, cut_passages = encoded_texts(
            encoder, candidates, listener=lambda done: report(len(self) + done, total)
        )
        unit_rows(queries)
        unit_rows(passages)
        lists = zip(np.split(passages, self._ends()), queries, strict=True)
        scores = np.concatenate([each @ query for each, query in lists])
        return self._outcome(scores, cut_queries + cut_passages, started)

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """As `measure`, by a cross-encoder's scores of query and candidate."""
        started = perf_counter()
        pairs = [(each.anchor, text) for each in self.lists for text in (*each.positives, *each.negatives)]
        return self._outcome(scores_of_pairs(scorer, pairs, progress), scorer.cut(pairs), started)

    def _ends(self) -> NDArray[np.int64]:
        """Where each list's candidates end among those of all; without the last one's."""
        return np.cumsum([len(each.positives) + len(each.negatives) for each in self.lists])[:-1]

    def _outcome(self, scores: NDArray[np.float32], truncated: int, started: float) -> Outcome:
        """The figures of the candidates' scores, (candidates,), query after query."""
        found = zip(np.split(scores, self._ends()), self.lists, strict=True)
        table = np.array([list_figures(one, len(each.positives)) for one, each in found], dtype=np.float64)
        means = table.mean(axis=0)
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics={"map": float(means[0]), "mrr_at_10": float(means[1]), "ndcg_at_10": float(means[2])},
            main="map",
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=mean_of_drawn(table[:, 0]),
            details={"queries": len(self), "candidates": len(scores)},
        )


def list_figures(scores: NDArray[np.float32], positives: int) -> tuple[float, float, float]:
    """Give average precision, the reciprocal rank at 10 and nDCG@10 of one list.

    scores: (candidates,) the positives' first
    Of equal scores the negatives rank first, so that nothing is won by giving all the same.
    """
    relevant = np.arange(len(scores)) < positives
    order = np.lexsort((relevant, -scores))
    ranking = [str(row) for row in order]
    judgements = {str(row): 1 for row in range(positives)}
    return (
        average_precision(relevant, scores),
        reciprocal_rank(ranking, judgements),
        ndcg(ranking, judgements),
    )
