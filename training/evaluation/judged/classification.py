"""Labelled texts with a train file, as a judged set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np

from nearsay.training.evaluation.accuracy import accuracy
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts
from nearsay.training.evaluation.f1_score import Averaging, f1_score
from nearsay.training.evaluation.judged.drawing import drawn_note, drawn_rows, drawn_training
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.linear_layer import linear_predictions
from nearsay.training.evaluation.judged.outcome import Outcome, mean_of_drawn
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["ClassificationSet"]


@dataclass(frozen=True, slots=True)
class ClassificationSet:
    """Labelled texts; the accuracy of logistic regression on frozen vectors decides."""

    kind: ClassVar = EvaluationKind.CLASSIFICATION
    name: str
    items: tuple[tuple[str, str], ...]  # text, label
    train: tuple[tuple[str, str], ...]  # what the linear layer learns from
    train_name: str  # its file, for people
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def texts(self) -> Iterator[str]:
        """The texts that are measured on; those of the train file are for learning."""
        for text, _ in self.items:
            yield text

    def held_out(self) -> Iterator[str]:
        """The texts."""
        return self.texts()

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its texts, and five times as many training rows."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        learned, training = drawn_training(len(self.train), most, seed)
        note = drawn_note(self.name, len(rows), len(self), seed)
        return replace(
            self,
            items=tuple(self.items[row] for row in rows),
            train=tuple(self.train[row] for row in learned),
            notes=(*self.notes, f"{note}; {training}"),
        )

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """As `linear_predictions`; a draw takes texts with what was predicted: nothing is fitted again."""
        started = perf_counter()
        texts = [text for text, _ in (*self.train, *self.items)]
        vectors, truncated = encoded_texts(
            encoder, texts, listener=None if progress is None else lambda done: progress(done, len(texts))
        )
        rows = len(self.train)
        found = linear_predictions(
            vectors[:rows], [label for _, label in self.train], vectors[rows:], self.name
        )
        gold = [label for _, label in self.items]
        right = np.array([truth == guess for truth, guess in zip(gold, found.labels, strict=True)])
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics={
                "accuracy": accuracy(gold, found.labels),
                "macro_f1": f1_score(gold, found.labels, Averaging.MACRO),
            },
            main="accuracy",
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=mean_of_drawn(right.astype(np.float64)),
            details={
                "texts": len(self),
                "labels": len({*gold}),
                "train": self.train_name,
                "train_rows": rows,
                "regularisation": found.regularisation,
            },
        )
