"""A text with those that belong to it and those that do not: lists to rerank, and triplets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError, UnknownColumnsError
from nearsay.data.fields import MISSING, reach
from nearsay.data.json_values import UnusableRowError
from nearsay.data.quantity import counted
from nearsay.data.read_options import Format, format_of
from nearsay.data.row_files import sampled_rows
from nearsay.data.sentence_examples.columns import choose_columns, is_negative_name, names_of
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.reading import passage_text, refuse_lists
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    PairScorer,
    RowSet,
    mean_of_drawn,
    scores_of_pairs,
)
from nearsay.training.evaluation.rank_metrics import average_precision, ndcg, reciprocal_rank
from nearsay.training.evaluation.sts import Similarity, pair_similarities
from nearsay.training.sentence.text_encoder import Progress, TextKind, VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

_LEAST: Final = 3  # columns: of the anchor, the positive and a negative


@dataclass(frozen=True, slots=True)
class Candidates:
    """A text, those that belong to it and those that do not; at least one of each."""

    anchor: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


def read_candidates(
    path: str | Path, columns: Sequence[str] | None = None
) -> tuple[list[Candidates], list[str]]:
    """Read tsv, csv, jsonl (or its .gz) or parquet with the columns query or anchor, positive and negative.

    columns: of the anchor, the positive and the negatives; None: told from their names (`choose_columns`)

    In JSON lines positive and negative may be lists, of texts or of mappings with a title and a text; there
    may be several columns of negatives. Rows without a positive or without a negative rank nothing: they are
    left out, and a note counts them. BadInputError names the file and line of a row that is malformed.
    """
    rows: list[Candidates] = []
    empty = 0
    sample, lines = sampled_rows(path)
    names = _candidate_columns(sample, columns, path) if sample else ()
    table = format_of(Path(path)) in {Format.CSV, Format.TSV}  # whose values are no lists
    for line, row in lines:
        # of JSON lines some rows have more
        others_of_row = names[2:] if columns else [name for name in row if is_negative_name(name)]
        try:
            refuse_lists(row, (*names[1:2], *others_of_row) if table else ())
            anchor, positives, *others = (
                tuple(_texts(reach(row, name), name)) for name in (*names[:2], *others_of_row)
            )
        except UnusableRowError as error:
            raise BadInputError(f"{path}:{line}: {error}; fix or remove the row") from error
        if len(anchor) != 1:
            raise BadInputError(f"{path}:{line}: {names[0]} is empty or no text; fix or remove the row")
        negatives = tuple(chain.from_iterable(others))
        if positives and negatives:
            rows.append(Candidates(anchor[0], positives, negatives))
        else:
            empty += 1
    if not rows:
        raise BadInputError(
            f"{path} holds no row with both a positive and a negative; give a file with the columns query, "
            "positive and negative"
        )
    note = f"{path}: {counted(empty, 'row')} without a positive or a negative left out"
    return rows, [note] if empty else []


def _candidate_columns(
    sample: Sequence[Mapping[str, object]], columns: Sequence[str] | None, path: str | Path
) -> tuple[str, ...]:
    kind = ExampleKind.TUPLES
    names = choose_columns(sample, kind=kind, columns=columns, label=None, path=str(path)).texts
    if len(names) < _LEAST:
        listed = ", ".join(map(repr, names_of(sample)))
        raise UnknownColumnsError(
            f"{path} has no column that is known to hold negatives; its columns are {listed}. Name those of "
            "the anchor, the positive and the negatives with --columns"
        )
    return names


def _texts(value: object, name: str) -> Iterator[str]:
    for text in value if isinstance(value, list) else [value]:
        if text is not None and text is not MISSING and not (isinstance(text, str) and not text.strip()):
            yield passage_text(text, name)


class RerankingSet(RowSet[Candidates]):
    """Queries with candidates that answer them and some that do not; MAP decides, queries are its items."""

    kind = EvaluationKind.RERANKING

    def texts_of(self, row: Candidates) -> tuple[str, ...]:
        """A query and its candidates."""
        return (row.anchor, *row.positives, *row.negatives)

    def measure(self, encoder: VectorEncoder, progress: Progress | None = None) -> Outcome:
        """Rank each query's candidates by cosine; MAP, MRR@10 and nDCG@10 as means over the queries.

        Muennighoff et al. 2023, section 3.3, https://arxiv.org/abs/2210.07316
        """
        started = perf_counter()
        candidates = [text for each in self.rows for text in (*each.positives, *each.negatives)]
        total = len(self) + len(candidates)
        queries, cut_queries = encoded_texts(
            encoder,
            [each.anchor for each in self.rows],
            kind=TextKind.QUERY,
            progress=progress,
            total=total,
        )
        passages, cut_passages = encoded_texts(
            encoder, candidates, progress=progress, before=len(self), total=total
        )
        unit_rows(queries)
        unit_rows(passages)
        lists = zip(np.split(passages, self._ends()), queries, strict=True)
        # By dot products of single rows: those of a matrix differ in their last bits for equal rows.
        scores = np.concatenate([np.vecdot(each, query) for each, query in lists])
        return self._outcome(scores, cut_queries + cut_passages, started)

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """As `measure`, by a cross-encoder's scores of query and candidate."""
        started = perf_counter()
        pairs = [(each.anchor, text) for each in self.rows for text in (*each.positives, *each.negatives)]
        return self._outcome(scores_of_pairs(scorer, pairs, progress), scorer.cut(pairs), started)

    def _ends(self) -> NDArray[np.int64]:
        """Where each list's candidates end among those of all; without the last one's."""
        return np.cumsum([len(each.positives) + len(each.negatives) for each in self.rows])[:-1]

    def _outcome(self, scores: NDArray[np.float32], truncated: int, started: float) -> Outcome:
        """The figures of the candidates' scores, (candidates,), query after query."""
        found = zip(np.split(scores, self._ends()), self.rows, strict=True)
        table = np.array([list_figures(one, len(each.positives)) for one, each in found], dtype=np.float64)
        means = table.mean(axis=0)
        return self.outcome(
            {"map": float(means[0]), "mrr_at_10": float(means[1]), "ndcg_at_10": float(means[2])},
            mean_of_drawn(table[:, 0]),
            truncated=truncated,
            started=started,
            details={"queries": len(self), "candidates": len(scores)},
        )


def list_figures(scores: NDArray[np.float32], positives: int) -> tuple[float, float, float]:
    """Return average precision, the reciprocal rank at 10 and nDCG@10 of one list.

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


def right_triplets(
    anchors: NDArray[np.float32], positives: NDArray[np.float32], negatives: NDArray[np.float32]
) -> dict[Similarity, NDArray[np.bool_]]:
    """Say of each triplet whether sim(anchor, positive) > sim(anchor, negative); a tie is wrong.

    anchors, positives, negatives: (triplets, dimension) float32
    returns: by similarity (triplets,) bool

    Reimers & Gurevych 2019, section 4.4, https://arxiv.org/abs/1908.10084
    """
    near, far = pair_similarities(anchors, positives), pair_similarities(anchors, negatives)
    return {similarity: near[similarity] > far[similarity] for similarity in Similarity}


def triplet_accuracy(right: Mapping[Similarity, NDArray[np.bool_]]) -> dict[str, float]:
    """Return the share of right triplets, 0 to 1, as `accuracy` of the cosine, `accuracy_dot` and so on.

    Raises BadInputError when there are no triplets.
    """
    if not len(right[Similarity.COSINE]):
        raise BadInputError("there are no triplets to measure on; give some")
    return {f"accuracy{similarity.suffix}": float(each.mean()) for similarity, each in right.items()}


class TripletSet(RowSet[tuple[tuple[str, str, str], ...]]):
    """Anchor, positive, negative; the share whose positive is nearer by the cosine decides.

    Its items are the rows of the file: a row with several positives or negatives gives several triplets of
    one anchor, which are right or wrong together. Each triplet counts the same in the figures, and intervals
    draw whole rows.
    """

    kind = EvaluationKind.TRIPLETS

    @property
    def triplets(self) -> list[tuple[str, str, str]]:
        """Anchor, positive and negative of all rows."""
        return [triplet for row in self.rows for triplet in row]

    def texts_of(self, row: tuple[tuple[str, str, str], ...]) -> tuple[str, ...]:
        """The three of each triplet."""
        return tuple(text for triplet in row for text in triplet)

    def held_out(self) -> Iterator[tuple[str, str, str]]:
        """The triplets."""
        return iter(self.triplets)

    def measure(self, encoder: VectorEncoder, progress: Progress | None = None) -> Outcome:
        """As `right_triplets`; anchors are encoded as queries and the others as passages, as in training."""
        started = perf_counter()
        anchors = [anchor for anchor, *_ in self.triplets]
        others = [text for _, *both in self.triplets for text in both]
        total = len(anchors) + len(others)
        queries, cut_queries = encoded_texts(
            encoder, anchors, kind=TextKind.QUERY, progress=progress, total=total
        )
        passages, cut_passages = encoded_texts(
            encoder, others, progress=progress, before=len(anchors), total=total
        )
        right = right_triplets(queries, passages[::2], passages[1::2])
        return self._outcome(right, cut_queries + cut_passages, started)

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """As `measure`, by a cross-encoder's scores of the anchor with the other two."""
        started = perf_counter()
        pairs = [(anchor, text) for anchor, *others in self.triplets for text in others]
        scores = scores_of_pairs(scorer, pairs, progress)
        right = {Similarity.COSINE: scores[::2] > scores[1::2]}
        return self._outcome(right, scorer.cut(pairs), started)

    def _outcome(
        self, right: Mapping[Similarity, NDArray[np.bool_]], truncated: int, started: float
    ) -> Outcome:
        metrics = triplet_accuracy(right)
        sizes = np.array([len(row) for row in self.rows])
        rights = np.add.reduceat(right[Similarity.COSINE], np.cumsum([0, *sizes[:-1]]), dtype=np.int64)
        return self.outcome(
            metrics,
            lambda drawn: float(rights[drawn].sum() / sizes[drawn].sum()),
            truncated=truncated,
            started=started,
            details={"triplets": int(sizes.sum()), "rows": len(self)},
        )
