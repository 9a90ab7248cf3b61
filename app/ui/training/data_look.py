"""A look at data to learn from: what it is taken for, its first rows, how many there are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.training.sentence.objectives.table import ObjectiveKind, kind_to_learn_from

__all__ = ["KINDS", "ExamplesLook", "fitting_objectives", "look_at_examples"]

_ROWS: Final = 6  # shown
_OPTION: Final = re.compile(r"[ (]--[a-z]")
_REMEDY: Final = (
    "Let the file's first line call the texts anchor and positive, or anchor, positive and negative; scored "
    "pairs sentence1, sentence2 and score"
)
_READ_WHOLE: Final = 16 * 2**20  # bytes; of a larger file the first rows alone are looked at

KINDS: Final = {
    ExampleKind.NLI: "premises with hypotheses that follow, may be, or cannot be",
    ExampleKind.SCORED: "pairs of texts with a score of how alike they are",
    ExampleKind.LABELLED: "pairs of texts marked as the same or not",
    ExampleKind.PAIRS: "pairs of texts that belong together",
    ExampleKind.TUPLES: "a text, one that belongs to it, and some that do not",
    ExampleKind.TEXTS: "single texts",
}


@dataclass(frozen=True, slots=True)
class ExamplesLook:
    """What a file holds."""

    name: str
    kind: ExampleKind | None  # None: the file is large, and is told when the training begins
    count: int | None  # rows that can be used; None: likewise
    rows: tuple[dict[str, str], ...]  # the first ones
    notes: tuple[str, ...]  # what was guessed and left out


def look_at_examples(path: Path) -> ExamplesLook:
    """Read a file of sentence examples as the training will; BadInputError, in words of the page, if not.

    Of a file of more than 16 MB the first rows alone are read, as they are.
    """
    if path.is_dir():
        return ExamplesLook(path.name, None, None, (), ("a folder: titles are paired with their texts",))
    if path.stat().st_size > _READ_WHOLE:
        return ExamplesLook(path.name, None, None, tuple(_first_rows(path)), ())
    try:
        examples = read_sentence_examples(path)
    except BadInputError as error:
        raise BadInputError(_in_the_page_s_words(str(error), path)) from error
    notes = tuple(note.removeprefix(f"{path}: ") for note in examples.notes)
    return ExamplesLook(path.name, examples.kind, len(examples), tuple(_rows(examples)), notes)


def fitting_objectives(kinds: Sequence[ExampleKind]) -> list[ObjectiveKind]:
    """The objectives that can learn from all these kinds of data alone; the exact ones first."""
    fitting = []
    for objective in ObjectiveKind:
        if objective.loss.guide:
            continue
        try:
            turned = [kind_to_learn_from(objective, kind) is not kind for kind in kinds]
        except BadInputError:
            continue
        fitting.append((any(turned), objective))
    return [objective for _, objective in sorted(fitting, key=lambda each: each[0])]


def _in_the_page_s_words(message: str, path: Path) -> str:
    """An error of a file without the place where it was kept, and without options, which the page has not."""
    said = message.replace(str(path), path.name)
    option = _OPTION.search(said)
    if option is None:
        return said
    end = max(said.rfind(mark, 0, option.start()) for mark in (". ", "; "))
    return f"{said[:end] if end > 0 else said}. {_REMEDY}"


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
    from nearsay.data.formats import Format, format_of
    from nearsay.data.row_files import file_lines, rows_and_faults

    if format_of(path) is Format.TXT:
        return [{"text": text} for _, text in islice(file_lines(path), _ROWS)]
    rows = []
    for item in rows_and_faults(path):
        if not isinstance(item, Fault):
            rows.append({name: str(value) for name, value in item[1].items()})
        if len(rows) == _ROWS:
            break
    return rows
