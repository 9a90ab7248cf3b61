"""Pairs of sentences with a person's score of how alike they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from nearsay.data.errors import BadInputError
from nearsay.data.row_files import file_rows
from nearsay.data.sentence_examples.columns import choose_columns
from nearsay.data.sentence_examples.example_kind import ExampleKind

__all__ = ["ScoredPair", "read_scored_pairs"]

_SAMPLE_ROWS = 200  # what the columns are told from


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
    sample = list(islice(rows, _SAMPLE_ROWS))
    if not sample:
        raise BadInputError(
            f"{path} holds no pairs; give a file with the columns score, sentence1 and sentence2"
        )
    chosen = choose_columns(
        [row for _, row in sample], kind=ExampleKind.SCORED, columns=columns, label=label, path=str(path)
    )
    names = chosen.texts
    pairs: list[ScoredPair] = []
    for line, row in chain(sample, rows):
        place = f"{path}:{line}"
        first, second = (row.get(name) for name in names)
        if (
            not isinstance(first, str)
            or not isinstance(second, str)
            or not first.strip()
            or not second.strip()
        ):
            raise BadInputError(
                f"{place}: {names[0]} or {names[1]} is empty or no text; mend or remove the row"
            )
        pairs.append(ScoredPair(first, second, _score(row.get(chosen.label or ""), place)))
    return pairs


def _score(value: object, place: str) -> float:
    try:
        score = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise BadInputError(f"{place}: the score is {value!r}, not a number; mend or remove the row")
    return score
