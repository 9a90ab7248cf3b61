"""Rows of sentences to learn from, of one kind and width."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Final

from nearsay.data.errors import BadInputError

__all__ = [
    "NLI_LABELS",
    "ExampleKind",
    "SentenceExamples",
]


class ExampleKind(StrEnum):
    """What is known of a row's texts, and so which objectives can learn from it."""

    NLI = "nli"  # premise, hypothesis, and entailment, neutral or contradiction
    SCORED = "scored"  # two texts and a score on any scale; higher is more alike
    LABELLED = "labelled"  # two texts and 1 = they mean the same, 0 = they do not
    PAIRS = "pairs"  # two texts that belong together: anchor, positive
    TUPLES = "tuples"  # anchor, positive, then one negative or more: triplets and n-tuples
    TEXTS = "texts"  # one text a row and nothing else

    @property
    def is_labelled(self) -> bool:
        """Whether every row has a label or a score."""
        return self in {ExampleKind.NLI, ExampleKind.SCORED, ExampleKind.LABELLED}

    def takes(self, texts: int) -> bool:
        """Say whether a row of this kind may have so many texts."""
        if self is ExampleKind.TEXTS:
            return texts == 1
        return texts >= 3 if self is ExampleKind.TUPLES else texts == 2


NLI_LABELS: Final = ("entailment", "neutral", "contradiction")
_HASHED_ROWS: Final = 10_000  # rows that are serialised at a time


@dataclass(frozen=True, slots=True)
class SentenceExamples:
    """A set of sentence examples, whole in memory.

    BadInputError when texts, labels and kind do not fit each other. A set may be empty (everything leaked).
    """

    name: str  # for tables and messages: the file's name without suffixes, or what the caller says
    kind: ExampleKind
    columns: tuple[str, ...]  # the text columns' names, one for each text of a row
    texts: tuple[tuple[str, ...], ...]  # a tuple a row, all of one length
    labels: tuple[float, ...] | None  # SCORED: as they are; LABELLED: 0 or 1; NLI: index into label_names
    label_names: tuple[str, ...] = ()  # NLI: entailment, neutral, contradiction; else none
    notes: tuple[str, ...] = ()  # for the user: what was taken, what was left out and why
    sha256: str = ""  # of kind, texts, labels and scores: the data hash of a run; "" = worked out
    # TUPLES: a teacher's score of each passage, that is of each text but the first, on a scale of its own.
    scores: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        width = len(self.columns)
        if not self.kind.takes(width):
            raise BadInputError(
                f"{self.name}: rows of kind {self.kind} cannot have {width} texts; "
                "a text alone is texts, two are pairs, scored, labelled or nli, more are tuples"
            )
        if any(len(row) != width for row in self.texts):
            raise BadInputError(f"{self.name}: some rows do not have {width} texts; give each row as many")
        if (self.labels is not None) != self.kind.is_labelled:
            wants = "needs a label for each row" if self.kind.is_labelled else "has no labels"
            raise BadInputError(f"{self.name}: the kind {self.kind} {wants}; name another kind")
        if self.labels is not None and len(self.labels) != len(self.texts):
            raise BadInputError(
                f"{self.name}: {len(self.labels)} labels for {len(self.texts)} rows; give each row one"
            )
        if self.scores is not None:
            self._check_scores(self.scores)
        if not self.sha256:
            object.__setattr__(
                self, "sha256", _content_sha256(self.kind, self.texts, self.labels, self.scores)
            )

    def _check_scores(self, scores: Sequence[Sequence[float]]) -> None:
        if self.kind is not ExampleKind.TUPLES:
            raise BadInputError(f"{self.name}: the kind {self.kind} has no scores of passages; tuples have")
        wrong = next((len(row) for row in scores if len(row) != len(self.columns) - 1), None)
        if wrong is not None or len(scores) != len(self.texts):
            raise BadInputError(
                f"{self.name}: {len(scores)} rows of scores for {len(self.texts)} rows of "
                f"{len(self.columns) - 1} passages, one with {wrong or 0}; give each passage one"
            )

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.texts)

    def select(self, rows: Sequence[int]) -> "SentenceExamples":
        """Give the set of these rows (numbers from 0) in the order given; the notes stay."""
        texts = tuple(self.texts[row] for row in rows)
        labels = None if self.labels is None else tuple(self.labels[row] for row in rows)
        scores = None if self.scores is None else tuple(self.scores[row] for row in rows)
        return replace(self, texts=texts, labels=labels, scores=scores, sha256="")

    @property
    def label_range(self) -> tuple[float, float] | None:
        """The lowest and the highest label or score; None without any."""
        numbers = self.labels or [score for row in self.scores or () for score in row]
        return (min(numbers), max(numbers)) if numbers else None

    def noted(self, *notes: str) -> "SentenceExamples":
        """Give the same set with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def _content_sha256(
    kind: ExampleKind,
    texts: Sequence[tuple[str, ...]],
    labels: tuple[float, ...] | None,
    scores: tuple[tuple[float, ...], ...] | None,
) -> str:
    digest = hashlib.sha256(f"{kind} {len(texts)}\n".encode())
    for rows in _blocks(texts):
        digest.update(json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if labels is not None:
        digest.update(json.dumps(labels).encode())
    if scores is not None:
        digest.update(json.dumps(scores).encode())
    return digest.hexdigest()


def _blocks(rows: Sequence[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    left = iter(rows)
    while block := list(islice(left, _HASHED_ROWS)):
        yield block
