"""Texts, or pairs of texts, with the label that somebody gave them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.quantity import counted
from nearsay.data.row_files import sampled_rows
from nearsay.data.sentence_examples.columns import ExampleColumns, are_entailing, choose_labelled
from nearsay.data.sentence_examples.labels import one_spelling
from nearsay.data.sentence_examples.reading import row_texts

_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, or two of them, and its label."""

    text: str
    pair: str | None  # the second text; None: there is only one
    label: str
    line: int  # of the file it came from, 1-based


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """A file of labelled texts."""

    source: str  # the file as the user gave it
    sha256: str  # of the file, hexadecimal: the data hash of a run
    rows: list[LabelledText]
    columns: ExampleColumns  # as they were named or found
    notes: list[str] = field(default_factory=list)  # what was guessed, and what was left out

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def are_pairs(self) -> bool:
        """Whether every row has two texts."""
        return len(self.columns.texts) == _PAIR

    def columns_of_text(self) -> tuple[list[str], list[str] | None]:
        """Return the texts, and the second text of each where the rows are pairs."""
        pairs = [row.pair or "" for row in self.rows] if self.are_pairs else None
        return [row.text for row in self.rows], pairs


def read_labelled_texts(
    path: str | Path,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    *,
    text_option: str = "--text",
) -> LabelledTexts:
    """Read a tsv, csv or jsonl file (or its .gz) of texts or text pairs with labels.

    columns: of the text, or of the two texts; None: told, as the label, from usual names (`choose_labelled`)
    text_option: what messages call the option that names the texts

    Columns are told from the first 200 rows: in JSON lines some may lack one. A label may be a string, a
    whole number (1.0 is 1 where all are whole numbers) or true and false in JSON lines. Rows on which SNLI's
    annotators did not agree ("-" in gold_label, -1 beside a premise and a hypothesis) are left out and
    counted in the notes. BadInputError names the file and line of the first row that cannot be used: a head
    trained on part of a file would mislead.
    """
    sample, lines = sampled_rows(path)
    if not sample:
        raise _nothing_labelled(path)
    found = choose_labelled(sample, columns=columns, label=label, path=str(path), option=text_option)
    rows = [_row(line, row, found, path) for line, row in lines]
    spelling = one_spelling(row.label for row in rows)
    rows = [replace(row, label=spelling[row.label]) for row in rows]
    undecided = _undecided(found)
    agreed = [row for row in rows if row.label != undecided]
    if not agreed:
        raise _nothing_labelled(path)
    notes = [f"{path}: {found.said()}"] if found.texts_guessed or found.label_guessed else []
    if len(agreed) < len(rows):
        left_out = counted(len(rows) - len(agreed), "row")
        notes.append(f"{path}: {left_out} with the label {undecided!r} (no agreement) left out")
    return LabelledTexts(str(path), file_sha256(Path(path)), agreed, found, notes)


def _nothing_labelled(path: str | Path) -> BadInputError:
    return BadInputError(
        f"{path} holds no labelled texts; give a file with the columns label and text, "
        "or label, premise and hypothesis"
    )


def _undecided(columns: ExampleColumns) -> str | None:
    """What SNLI and MultiNLI write where their annotators did not agree; None: every label is one."""
    if (columns.label or "").lower() == "gold_label":
        return "-"
    return "-1" if are_entailing(columns.texts) else None  # in copies with numbers


def _row(line: int, row: Mapping[str, object], columns: ExampleColumns, path: str | Path) -> LabelledText:
    try:
        (texts,) = row_texts(row, columns.texts, None)
    except UnusableRowError as error:
        raise BadInputError(f"{path}:{line}: {error}; fix or remove the row") from error
    label = row.get(columns.label or "")
    if isinstance(label, Decimal):
        label = float(label)
    if isinstance(label, bool):
        label = str(label).lower()
    elif isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        label = str(int(label))  # a column of whole numbers in which one is missing is one of floats
    if not isinstance(label, str) or not label.strip():
        raise BadInputError(
            f"{path}:{line}: {columns.label} is {label!r}, and a label is a word or a whole number; "
            "fix or remove the row"
        )
    return LabelledText(texts[0], texts[1] if len(texts) > 1 else None, label.strip(), line)
