"""Premises and hypotheses with a train file, as a judged set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.training.evaluation.accuracy import accuracy
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts
from nearsay.training.evaluation.f1_score import Averaging, f1_score
from nearsay.training.evaluation.judged.drawing import drawn_note, drawn_rows, drawn_training
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.linear_layer import linear_predictions
from nearsay.training.evaluation.judged.outcome import Outcome, mean_of_drawn
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["NliSet", "pair_features"]


@dataclass(frozen=True, slots=True)
class NliSet:
    """Premise, hypothesis and label; the accuracy of logistic regression on (u, v, |u-v|, u*v) decides."""

    kind: ClassVar = EvaluationKind.NLI
    name: str
    rows: tuple[tuple[str, str, str], ...]  # premise, hypothesis, label
    train: tuple[tuple[str, str, str], ...]  # what the linear layer learns from
    train_name: str  # its file, for people
    notes: tuple[str, ...] = ()
    most_train_rows: int = 20_000  # of the train file, drawn with seed 0; more add little to a linear layer

    def __len__(self) -> int:
        return len(self.rows)

    def texts(self) -> Iterator[str]:
        """The texts that are measured on; those of the train file are for learning."""
        for premise, hypothesis, _ in self.rows:
            yield premise
            yield hypothesis

    def held_out(self) -> Iterator[tuple[str, ...]]:
        """Each premise with its hypothesis."""
        for premise, hypothesis, _ in self.rows:
            yield premise, hypothesis

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its pairs, and five times as many training rows."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        learned, training = drawn_training(len(self.train), most, seed)
        note = drawn_note(self.name, len(rows), len(self), seed)
        return replace(
            self,
            rows=tuple(self.rows[row] for row in rows),
            train=tuple(self.train[row] for row in learned),
            notes=(*self.notes, f"{note}; {training}"),
        )

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """Fit the layer on frozen vectors of the train file, and let it label; the encoder learns nothing.

        So it measures what the vectors hold, not what fine-tuning on the set would reach. The structure of
        Conneau et al. 2017, https://arxiv.org/abs/1705.02364
        """
        started = perf_counter()
        learned = [self.train[row] for row in drawn_rows(len(self.train), self.most_train_rows, 0)]
        texts = [text for premise, hypothesis, _ in (*learned, *self.rows) for text in (premise, hypothesis)]
        vectors, truncated = encoded_texts(
            encoder, texts, listener=None if progress is None else lambda done: progress(done, len(texts))
        )
        features = pair_features(vectors[::2], vectors[1::2])
        found = linear_predictions(
            features[: len(learned)], [label for _, _, label in learned], features[len(learned) :], self.name
        )
        gold = [label for _, _, label in self.rows]
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
                "pairs": len(self),
                "train": self.train_name,
                "train_rows": len(learned),
                "regularisation": found.regularisation,
            },
        )


def pair_features(u: NDArray[np.float32], v: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give (u, v, |u-v|, u*v) side by side: (pairs, dimension) twice in, (pairs, 4 · dimension) out."""
    return np.concatenate([u, v, np.abs(u - v), u * v], axis=1)
