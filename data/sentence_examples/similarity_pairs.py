"""Pairs of sentences with what a person said of them: how alike they are, the same or not, or entailment."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.quantity import counted
from nearsay.data.row_files import sampled_rows
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


def read_scored_pairs(path: str | Path) -> list[ScoredPair]:
    """Read a file of two texts and their score as `read_judged_pairs` does."""
    return read_judged_pairs(path, ExampleKind.SCORED)[0]


def read_judged_pairs(
    path: str | Path,
    kind: ExampleKind,
    *,
    columns: Sequence[str] | None = None,
    label: str | None = None,
) -> tuple[list[ScoredPair], tuple[str, ...]]:
    """Read a tsv, csv, jsonl (or its .gz) or parquet file of two texts and their label, as training does.

    kind: SCORED, LABELLED or NLI
    columns, label: of the texts and of the label; None: told from their names (`choose_columns`)
    returns: the pairs, whose score is the label in numbers (`LabelReader`), and notes on what was guessed,
        assumed and left out

    Rows on which annotators did not agree ('-', or -1 in NLI) are left out and counted; among scores they are
    an error. BadInputError names the file and line of the first row that cannot be used: an evaluation on
    part of a file would mislead.
    """
    sample, rows = sampled_rows(path)
    if not sample:
        raise BadInputError(
            f"{path} holds no pairs; give a file with a label or score and two texts, in columns as score, "
            "sentence1 and sentence2"
        )
    chosen = choose_columns(sample, kind=kind, columns=columns, label=label, path=str(path))
    reader = LabelReader(kind)
    pairs: list[ScoredPair] = []
    disagreed = 0
    for line, row in rows:
        try:
            ((first, second),) = row_texts(row, chosen.texts, kind)
            number = reader.read(written_label(row.get(chosen.label or "")))
        except UnusableRowError as error:
            other = "" if kind is ExampleKind.SCORED else ", or name another kind of set"
            raise BadInputError(f"{path}:{line}: {error}; fix or remove the row{other}") from error
        if number is not None:
            pairs.append(ScoredPair(first, second, number))
        elif kind is ExampleKind.SCORED:
            raise BadInputError(f"{path}:{line}: the score is '-', not a number; fix or remove the row")
        else:
            disagreed += 1
    if not pairs:
        raise BadInputError(f"{path} holds no row with a label; give a file that is labelled")
    notes = []
    if chosen.texts_guessed or chosen.label_guessed:
        notes.append(f"{path}: {chosen.said('score' if kind is ExampleKind.SCORED else 'label')}")
    if reader.assumption is not None:
        notes.append(f"{path}: {reader.assumption}")
    if disagreed:
        left_out = counted(disagreed, "row")
        notes.append(f"{path}: {left_out} without a label that was agreed on ('-' or -1) left out")
    return pairs, tuple(notes)
