"""Rows of sentences to learn from, of one kind and width."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.text_rows import TextRows

NLI_LABELS: Final = ("entailment", "neutral", "contradiction")
_HASHED_ROWS: Final = 10_000  # rows that are serialised at a time


@dataclass(frozen=True, slots=True, init=False)
class SentenceExamples:
    """A set of sentence examples. The texts are in a memory-mapped file, numbers alone are in memory.

    Two sets are equal when what they are called, their notes and the hashes of their content are.
    BadInputError when texts, labels and kind do not fit each other. A set may be empty (everything leaked).
    """

    name: str  # for tables and messages: the file's name without suffixes, or what the caller says
    kind: ExampleKind
    columns: tuple[str, ...]  # the text columns' names, one for each text of a row
    texts: TextRows = field(compare=False)  # a tuple a row, all of one length
    # (rows,) SCORED: as they are; LABELLED: 0 or 1; NLI and CLASSES: index into label_names
    labels: NDArray[np.float64] | None = field(compare=False)
    label_names: tuple[str, ...]  # NLI: entailment, neutral, contradiction; CLASSES: theirs; else none
    notes: tuple[str, ...]  # for the user: what was taken, what was left out and why
    sha256: str  # of kind, texts, labels and scores: the data hash of a run
    # (rows, passages) TUPLES: a teacher's score of each text but the first, on a scale of its own
    scores: NDArray[np.float64] | None = field(compare=False)

    def __init__(  # noqa: PLR0917 - a dataclass's
        self,
        name: str,
        kind: ExampleKind,
        columns: tuple[str, ...],
        texts: Sequence[tuple[str, ...]],
        labels: Sequence[float] | NDArray[np.float64] | None,
        label_names: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        sha256: str = "",
        scores: Sequence[Sequence[float]] | NDArray[np.float64] | None = None,
    ) -> None:
        """Write texts that are in memory to a file without a name; `sha256`: "" = worked out."""
        width = len(columns)
        if not kind.takes(width):
            raise BadInputError(
                f"{name}: rows of kind {kind} cannot have {width} texts; "
                "a text alone is texts or classes, two are pairs, scored, labelled or nli, more are tuples"
            )
        widths = texts.numbers.shape[1:] if isinstance(texts, TextRows) else map(len, texts)
        if any(one != width for one in widths):
            raise BadInputError(f"{name}: some rows do not have {width} texts; give each row as many")
        if (labels is not None) != kind.is_labelled:
            wants = "needs a label for each row" if kind.is_labelled else "has no labels"
            raise BadInputError(f"{name}: the kind {kind} {wants}; name another kind")
        if labels is not None and len(labels) != len(texts):
            raise BadInputError(f"{name}: {len(labels)} labels for {len(texts)} rows; give each row one")
        if scores is not None:
            _check_scores(name, kind, scores, rows=len(texts), passages=width - 1)
        values = {
            "name": name,
            "kind": kind,
            "columns": columns,
            "texts": (rows := TextRows.of(texts, width)),
            "labels": (numbers := None if labels is None else np.asarray(labels, np.float64)),
            "label_names": label_names,
            "notes": notes,
            "scores": (given := None if scores is None else np.asarray(scores, np.float64)),
            "sha256": sha256 or _content_sha256(kind, rows, numbers, given),
        }
        for field_name, value in values.items():
            object.__setattr__(self, field_name, value)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.texts)

    @property
    def said(self) -> str:
        """How many rows of what kind there are, for people."""
        if self.kind is not ExampleKind.CLASSES:
            return f"{len(self):,} {self.kind}"
        return f"{counted(len(self), 'text')} of {counted(len(self.label_names), 'class', 'classes')}"

    def select(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> "SentenceExamples":
        """Return the set of these rows (numbers from 0) in the order given; the notes stay."""
        chosen = np.asarray(rows, np.int64)
        labels = None if self.labels is None else self.labels[chosen]
        scores = None if self.scores is None else self.scores[chosen]
        return replace(self, texts=self.texts.take(chosen), labels=labels, scores=scores, sha256="")

    @property
    def label_range(self) -> tuple[float, float] | None:
        """The lowest and the highest label or score; None without any."""
        numbers = self.scores if self.labels is None else self.labels
        if numbers is None or not numbers.size:
            return None
        return float(numbers.min()), float(numbers.max())

    def noted(self, *notes: str) -> "SentenceExamples":
        """Return the same set with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def _check_scores(
    name: str,
    kind: ExampleKind,
    scores: Sequence[Sequence[float]] | NDArray[np.float64],
    *,
    rows: int,
    passages: int,
) -> None:
    if kind is not ExampleKind.TUPLES:
        raise BadInputError(f"{name}: the kind {kind} has no scores of passages; tuples have")
    widths = (scores.shape[1],) if isinstance(scores, np.ndarray) else map(len, scores)
    wrong = next((width for width in widths if width != passages), None)
    if wrong is not None or len(scores) != rows:
        raise BadInputError(
            f"{name}: {len(scores)} rows of scores for {rows} rows of {passages} passages, one with "
            f"{wrong or 0}; give each passage one"
        )


def _content_sha256(
    kind: ExampleKind,
    texts: TextRows,
    labels: NDArray[np.float64] | None,
    scores: NDArray[np.float64] | None,
) -> str:
    digest = hashlib.sha256(f"{kind} {len(texts)}\n".encode())
    for start in range(0, len(texts), _HASHED_ROWS):
        rows = list(texts[start : start + _HASHED_ROWS])
        digest.update(json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for numbers in (labels, scores):
        if numbers is not None:
            for part in _json_parts(numbers):
                digest.update(part.encode())
    return digest.hexdigest()


def _json_parts(numbers: NDArray[np.float64]) -> Iterator[str]:
    """One JSON list of all the numbers, in parts."""
    yield "["
    for start in range(0, len(numbers), _HASHED_ROWS):
        part = json.dumps(numbers[start : start + _HASHED_ROWS].tolist())[1:-1]
        yield f", {part}" if start else part
    yield "]"
