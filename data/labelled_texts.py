"""Texts, or pairs of texts, with the label that somebody gave them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Final

from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError, UnknownColumnsError
from nearsay.data.fields import first_named
from nearsay.data.json_values import UnusableRowError, text_of
from nearsay.data.quantity import counted
from nearsay.data.row_files import SAMPLE_ROWS, file_rows

# Usual names of columns, in any case of letters; of several the first is taken.
LABELS: Final = (
    *("label", "gold_label", "class", "category", "intent", "target", "sentiment", "is_duplicate"),
    *("entailment_judgment", "relation", "labels"),
)
TEXTS: Final = (
    *("text", "sentence", "utterance", "content", "body", "document", "question", "query", "review"),
    *("tweet", "comment", "message", "title"),
)
_WHOLE: Final = re.compile(r"-?[0-9]+(\.0+)?")
_NLI: Final = ("premise", "hypothesis")
PAIRS: Final = (
    _NLI,
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "answer"),
    ("query", "passage"),
)


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, or two of them, and its label."""

    text: str
    pair: str | None  # the second text; None: there is only one
    label: str
    line: int  # of the file it came from, 1-based


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Which columns mean what; BadInputError for a pair without its first text, or one name used twice."""

    label: str | None = None  # None = guessed by name, and said in the notes
    text: str | None = None  # None = guessed
    pair: str | None = None  # the second text's column; None = guessed, unless `text` is named

    def __post_init__(self) -> None:
        named = [name for name in (self.label, self.text, self.pair) if name is not None]
        if any(not name.strip() for name in named):
            raise BadInputError("a column's name is empty; leave it out, or name a column")
        if self.pair is not None and self.text is None:
            raise BadInputError(
                f"the second text's column {self.pair!r} is named, and the first one's is not; name both"
            )
        if len(set(named)) != len(named):
            raise BadInputError(
                f"one column is named twice: {', '.join(map(repr, named))}. Name each column once"
            )


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """A file of labelled texts."""

    source: str  # the file as the user gave it
    sha256: str  # of the file, hexadecimal: the data hash of a run
    rows: list[LabelledText]
    columns: LabelColumns  # as they were found; `pair` is None for single texts
    notes: list[str] = field(default_factory=list)  # what was guessed, and what was left out

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def are_pairs(self) -> bool:
        """Whether every row has two texts."""
        return self.columns.pair is not None

    def columns_of_text(self) -> tuple[list[str], list[str] | None]:
        """Give the texts, and the second text of each where the rows are pairs."""
        pairs = [row.pair or "" for row in self.rows] if self.are_pairs else None
        return [row.text for row in self.rows], pairs


def read_labelled_texts(
    path: str | Path, columns: LabelColumns | None = None, *, text_option: str = "--text"
) -> LabelledTexts:
    """Read a tsv, csv or jsonl file (or its .gz) of texts or text pairs with labels.

    columns: names that are given; those that are not are guessed from usual names (label, gold_label, …;
        text, sentence, …; premise and hypothesis, sentence1 and sentence2, question and sentence, …)
    text_option: what messages call the option that names the texts

    Columns are told from the first 200 rows: in JSON lines some may lack one. A label may be a string, a
    whole number (1.0 is 1 where all are whole numbers) or true and false in JSON lines. Rows on which SNLI's
    annotators did not agree ("-" in gold_label, -1 beside a premise and a hypothesis) are left out and
    counted in the notes. BadInputError names the file and line of the first row that cannot be used: a head
    trained on part of a file would mislead.
    """
    given = columns or LabelColumns()
    lines = file_rows(path)
    sample = list(islice(lines, SAMPLE_ROWS))
    names = tuple(dict.fromkeys(name for _, row in sample for name in row))
    found = _columns(names, given, path, text_option) if sample else LabelColumns()
    rows = [_row(line, row, found, path) for line, row in chain(sample, lines)]
    if all(_WHOLE.fullmatch(row.label) for row in rows):  # elsewhere 1.0 may be a version
        rows = [replace(row, label=row.label.partition(".")[0]) for row in rows]
    agreed = [row for row in rows if row.label != _undecided(found)]
    if not agreed:
        raise BadInputError(
            f"{path} holds no labelled texts; give a file with the columns label and text, "
            "or label, premise and hypothesis"
        )
    notes = list(_notes(path, given, found, len(rows) - len(agreed)))
    return LabelledTexts(str(path), file_sha256(Path(path)), agreed, found, notes)


def _notes(path: str | Path, given: LabelColumns, found: LabelColumns, disagreed: int) -> Iterator[str]:
    if given.label is None or given.text is None:
        second = "" if found.pair is None else f", second text = {found.pair!r}"
        yield f"{path}: label = {found.label!r}, text = {found.text!r}{second} (guessed)"
    if disagreed:
        rows = counted(disagreed, "row")
        yield f"{path}: {rows} with the label {_undecided(found)!r} (no agreement) left out"


def _undecided(columns: LabelColumns) -> str | None:
    """What SNLI and MultiNLI write where their annotators did not agree; None: every label is one."""
    if (columns.label or "").lower() == "gold_label":
        return "-"
    pair = (columns.text or "").lower(), (columns.pair or "").lower()
    return "-1" if pair == _NLI else None  # in copies with numbers


def _columns(names: Sequence[str], given: LabelColumns, path: str | Path, text_option: str) -> LabelColumns:
    for name in (given.label, given.text, given.pair):
        if name is not None and name not in names:
            raise BadInputError(
                f"{path} has no column {name!r}; its columns are {', '.join(map(repr, names))}. "
                "Name one of them"
            )
    lower = {name.lower(): name for name in names}
    label = given.label or first_named(names, LABELS)
    if label is None:
        raise _unnamed(path, names, "label", "--label")
    if given.text is not None:
        return LabelColumns(label, given.text, given.pair)
    for first, second in PAIRS:
        if first in lower and second in lower and label not in {lower[first], lower[second]}:
            return LabelColumns(label, lower[first], lower[second])
    others = [name for name in names if name != label]
    text = first_named(others, TEXTS)
    if text is None and len(others) == 1:
        text = others[0]
    if text is None:
        raise _unnamed(path, names, "text", text_option)
    return LabelColumns(label, text, None)


def _unnamed(path: str | Path, names: Sequence[str], what: str, option: str) -> BadInputError:
    return UnknownColumnsError(
        f"{path}: which column is the {what} cannot be told; its columns are {', '.join(map(repr, names))}. "
        f"Name it with {option}"
    )


def _row(line: int, row: Mapping[str, object], columns: LabelColumns, path: str | Path) -> LabelledText:
    try:
        names = [name for name in (columns.text, columns.pair) if name is not None]
        texts = [text_of(row.get(name), name) for name in names]
    except UnusableRowError as error:
        raise BadInputError(f"{path}:{line}: {error}; mend or remove the row") from error
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
            "mend or remove the row"
        )
    return LabelledText(texts[0], texts[1] if len(texts) > 1 else None, label.strip(), line)
