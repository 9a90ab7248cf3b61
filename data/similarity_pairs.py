"""Pairs of sentences with a person's score of how alike they are."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.row_files import column_named, file_rows

__all__ = ["FIRST_NAMES", "SCORE_NAMES", "SECOND_NAMES", "ScoredPair", "read_scored_pairs"]

SCORE_NAMES: Final = (
    "score",
    "similarity",
    "similarity_score",
    "similarity score",
    "relatedness_score",
    "gold",
    "label",
)
# Tried in this order, in any case of letters; the first and second names of one place belong together.
FIRST_NAMES: Final = (
    "sentence1",
    "sentence_1",
    "sentence_a",
    "text1",
    "text_1",
    "text_a",
    "question1",
    "anchor",
)
SECOND_NAMES: Final = (
    "sentence2",
    "sentence_2",
    "sentence_b",
    "text2",
    "text_2",
    "text_b",
    "question2",
    "positive",
)


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two sentences and their score; a higher score says they are more alike. The scale is the file's."""

    sentence1: str
    sentence2: str
    score: float


def read_scored_pairs(path: str | Path) -> list[ScoredPair]:
    """Read a tsv, csv or jsonl file (or its .gz) with the columns score, sentence1 and sentence2.

    Usual other names of the columns are known (similarity, text_a, ...). BadInputError names the file and
    line of the first row that cannot be used: an evaluation on part of a file would mislead.
    """
    pairs: list[ScoredPair] = []
    names: tuple[str, str, str] | None = None
    for line, row in file_rows(path):
        place = f"{path}:{line}"
        if names is None:
            names = (
                column_named(row, FIRST_NAMES, path),
                column_named(row, SECOND_NAMES, path),
                column_named(row, SCORE_NAMES, path),
            )
        first, second, score = (row.get(name) for name in names)
        if (
            not isinstance(first, str)
            or not isinstance(second, str)
            or not first.strip()
            or not second.strip()
        ):
            raise BadInputError(
                f"{place}: {names[0]} or {names[1]} is empty or no text; mend or remove the row"
            )
        pairs.append(ScoredPair(first, second, _score(score, place)))
    if not pairs:
        raise BadInputError(
            f"{path} holds no pairs; give a file with the columns score, sentence1 and sentence2"
        )
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
