"""Labelled texts with a train file, as a judged set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.linear_head import REGULARISATIONS, chosen_head, every_tenth
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    drawn_note,
    drawn_rows,
    drawn_training,
    mean_of_drawn,
)
from nearsay.training.evaluation.label_metrics import Averaging, accuracy, f1_score
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "ClassificationSet",
    "NliSet",
]


_REGULARISATIONS: Final = (0.0001, *REGULARISATIONS)  # pairs have four times the width, so hold it back more


@dataclass(frozen=True, slots=True)
class LinearPredictions:
    """What the layer said."""

    labels: tuple[str, ...]  # one for each row that was measured on
    regularisation: float  # the C that was best on the rows held out of training


def linear_predictions(
    train: NDArray[np.float32], train_labels: Sequence[str], test: NDArray[np.float32], name: str
) -> LinearPredictions:
    """Fit multinomial logistic regression on vectors, its L2 penalty chosen on every tenth row, and predict.

    train, test: (rows, width) float32; name: of the set, for messages
    A label that the training rows lack is never predicted. Deterministic. Raises BadInputError for training
    rows of one label, or fewer than 10.

    Conneau & Kiela 2018 (SentEval), https://arxiv.org/abs/1803.05449
    """
    names, targets = np.unique(np.asarray(train_labels), return_inverse=True)
    if len(names) < 2 or len(train) < 10:
        raise BadInputError(
            f"{name}: the training file has {len(train)} rows of the labels {', '.join(names[:9]) or '-'}; "
            "a linear layer needs 10 rows or more, of 2 labels or more"
        )
    held_out = every_tenth(len(train))
    chosen = chosen_head(
        train,
        targets.astype(np.int64),
        lambda head: float((head.logits(train[held_out]).argmax(axis=1) == targets[held_out]).mean()),
        labels=len(names),
        held_out=held_out,
        regularisations=_REGULARISATIONS,
    )
    predicted = chosen.head.logits(test).argmax(axis=1)
    return LinearPredictions(tuple(str(names[label]) for label in predicted), chosen.regularisation)


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
