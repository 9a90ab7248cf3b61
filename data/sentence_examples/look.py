"""A first look at a file of sentence examples, as the training will read it."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from nearsay.data.faults import Fault
from nearsay.data.read_options import Format, format_of
from nearsay.data.row_files import file_lines, rows_and_faults
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.reading import read_sentence_examples

_ROWS: Final = 6  # shown
_READ_WHOLE: Final = 16 * 2**20  # bytes; of a larger file the first rows alone are looked at


@dataclass(frozen=True, slots=True)
class ExamplesLook:
    """What a file holds."""

    name: str
    kind: ExampleKind | None  # None: the file is large, and is told when the training begins
    count: int | None  # rows that can be used; None: likewise
    rows: tuple[dict[str, str], ...]  # the first ones
    notes: tuple[str, ...]  # what was guessed and left out


def look_at_examples(path: Path) -> ExamplesLook:
    """Read a file of sentence examples; BadInputError if it holds none.

    Of a file of more than 16 MB the first rows alone are read, as they are.
    """
    if path.is_dir():
        return ExamplesLook(path.name, None, None, (), ("a folder: titles are paired with their texts",))
    if path.stat().st_size > _READ_WHOLE:
        return ExamplesLook(path.name, None, None, tuple(_first_rows(path)), ())
    examples = read_sentence_examples(path)
    notes = tuple(note.removeprefix(f"{path}: ").replace(str(path), path.name) for note in examples.notes)
    return ExamplesLook(path.name, examples.kind, len(examples), tuple(_rows(examples)), notes)


def _rows(examples: SentenceExamples) -> list[dict[str, str]]:
    rows = []
    for place, texts in enumerate(examples.texts[:_ROWS]):
        row = dict(zip(examples.columns, texts, strict=True))
        if examples.labels is not None:
            label = examples.labels[place]
            shown = examples.label_names[int(label)] if examples.label_names else f"{label:g}"
            row = {"label": shown} | row
        rows.append(row)
    return rows


def _first_rows(path: Path) -> list[dict[str, str]]:
    if format_of(path) is Format.TXT:
        return [{"text": text} for _, text in islice(file_lines(path), _ROWS)]
    rows = []
    for item in rows_and_faults(path):
        if not isinstance(item, Fault):
            rows.append({name: str(value) for name, value in item[1].items()})
        if len(rows) == _ROWS:
            break
    return rows
