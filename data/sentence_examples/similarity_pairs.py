"""Pairs of sentences with a person's score of how alike they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.row_files import SAMPLE_ROWS, file_rows
from nearsay.data.sentence_examples.columns import choose_columns
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.labels import LabelReader, written_label
from nearsay.data.sentence_examples.reading import row_texts


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two sentences and their score; a higher score says they are more alike. The scale is the file's."""

    sentence1: str
    sentence2: str
    score: float


def read_scored_pairs(
    path: str | Path, *, columns: Sequence[str] | None = None, label: str | None = None
) -> list[ScoredPair]:
    """Read a tsv, csv, jsonl (or its .gz) or parquet file of two texts and their score.

    columns, label: of the texts and of the score; None: told from their names as in training
        (`choose_columns`): sentence1, text_a, …; score, similarity, label, …
    BadInputError names the file and line of the first row that cannot be used: an evaluation on part of a
    file would mislead.
    """
    rows = file_rows(path)
    sample = list(islice(rows, SAMPLE_ROWS))
    if not sample:
        raise BadInputError(
            f"{path} holds no pairs; give a file with the columns score, sentence1 and sentence2"
        )
    chosen = choose_columns(
        [row for _, row in sample], kind=ExampleKind.SCORED, columns=columns, label=label, path=str(path)
    )
    scores = LabelReader(ExampleKind.SCORED)
    pairs: list[ScoredPair] = []
    for line, row in chain(sample, rows):
        try:
            ((first, second),) = row_texts(row, chosen.texts, ExampleKind.SCORED)
            score = scores.read(written_label(row.get(chosen.label or "")))
        except UnusableRowError as error:
            raise BadInputError(f"{path}:{line}: {error}; mend or remove the row") from error
        if score is None:
            raise BadInputError(f"{path}:{line}: the score is '-', not a number; mend or remove the row")
        pairs.append(ScoredPair(first, second, score))
    return pairs
