"""Lists to rerank as a judged set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.row_files import column_named, file_rows
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts, unit_rows
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    PairScorer,
    drawn_note,
    drawn_rows,
    mean_of_drawn,
    scores_of_pairs,
)
from nearsay.training.evaluation.rank_metrics import average_precision, ndcg, reciprocal_rank
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = [
    "ANCHORS",
    "NEGATIVES",
    "POSITIVES",
    "RerankingSet",
    "read_candidates",
]


ANCHORS: Final = ("query", "anchor", "question", "sentence")  # usual names of the columns, first to last
POSITIVES: Final = ("positive", "positives", "pos", "entailed")
NEGATIVES: Final = ("negative", "negatives", "neg", "contradicted")


@dataclass(frozen=True, slots=True)
class Candidates:
    """A text, those that belong to it and those that do not; at least one of each."""

    anchor: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


def read_candidates(path: str | Path) -> tuple[list[Candidates], list[str]]:
    """Read tsv, csv or jsonl (or its .gz) with the columns query or anchor, positive and negative.

    In JSON lines positive and negative may be lists. Rows without a positive or without a negative rank
    nothing: they are left out, and a note counts them. BadInputError names the file and line of a row that is
    malformed.
    """
    rows: list[Candidates] = []
    empty = 0
    names: tuple[str, str, str] | None = None
    for line, row in file_rows(path):
        place = f"{path}:{line}"
        if names is None:
            names = (
                column_named(row, ANCHORS, path),
                column_named(row, POSITIVES, path),
                column_named(row, NEGATIVES, path),
            )
        anchor, positives, negatives = (tuple(_texts(row.get(name), name, place)) for name in names)
        if len(anchor) != 1:
            raise BadInputError(f"{place}: {names[0]} is empty or no text; mend or remove the row")
        if positives and negatives:
            rows.append(Candidates(anchor[0], positives, negatives))
        else:
            empty += 1
    if not rows:
        raise BadInputError(
            f"{path} holds no row with both a positive and a negative; give a file with the columns query, "
            "positive and negative"
        )
    note = f"{path}: {empty} rows lack a positive or a negative and are left out"
    return rows, [note] if empty else []


def _texts(value: object, name: str, place: str) -> Iterator[str]:
    for text in value if isinstance(value, list) else [value]:
        if text is None:
            continue
        if not isinstance(text, str):
            raise BadInputError(f"{place}: {name} is {text!r}, not a text; mend or remove the row")
        if text.strip():
            yield text


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
