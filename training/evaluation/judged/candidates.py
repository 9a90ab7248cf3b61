"""Texts with candidates that belong to them and candidates that do not: triplets, and lists to rerank."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.row_files import column_named, file_rows

__all__ = ["ANCHORS", "NEGATIVES", "POSITIVES", "Candidates", "read_candidates"]

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
