"""Labelled texts with a train file, as a judged set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.linear_head import REGULARISATIONS, chosen_head, held_out_tenth
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    RowSet,
    drawn_rows,
    mean_of_drawn,
)
from nearsay.training.evaluation.label_metrics import accuracy, macro_f1
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import pair_features

_TRAIN_A_TEST: Final = 5  # training rows for each item of a quick look
_REGULARISATIONS: Final = (0.0001, *REGULARISATIONS)  # pairs have four times the width, so hold it back more


def linear_predictions(
    train: NDArray[np.float32], train_labels: Sequence[str], test: NDArray[np.float32], name: str
) -> tuple[list[str], float]:
    """Fit multinomial logistic regression on vectors, its L2 penalty chosen on a tenth of them, and predict.

    train, test: (rows, width) float32; name: of the set, for messages
    returns:     a label for each test row, and the C that was best on the rows held out of training

    A label that the training rows lack is never predicted. Deterministic. Raises as `require_learnable` does.

    Conneau & Kiela 2018 (SentEval), https://arxiv.org/abs/1803.05449
    """
    require_learnable(train_labels, name)
    names, targets = np.unique(np.asarray(train_labels), return_inverse=True)
    held_out = held_out_tenth(targets)
    measured = slice(None) if held_out is None else held_out
    chosen = chosen_head(
        train,
        targets.astype(np.int64),
        lambda head: float((head.logits(train[measured]).argmax(axis=1) == targets[measured]).mean()),
        labels=len(names),
        held_out=held_out,
        regularisations=_REGULARISATIONS,
    )
    predicted = chosen.head.logits(test).argmax(axis=1)
    return [str(names[label]) for label in predicted], chosen.regularisation


def require_learnable(labels: Sequence[str], name: str) -> None:
    """Raise BadInputError for training rows of one label, or fewer than 10."""
    different = sorted({*labels})
    if len(different) < 2 or len(labels) < 10:
        raise BadInputError(
            f"{name}: the training file has {len(labels)} rows of the labels "
            f"{', '.join(different[:9]) or '-'}; a linear layer needs 10 rows or more, of 2 labels or more"
        )


@dataclass(frozen=True, slots=True)
class LearnedSet(RowSet[tuple[str, ...]]):
    """Rows of one or two texts and their label; the accuracy of logistic regression on vectors decides."""

    train: tuple[tuple[str, ...], ...]  # what the linear layer learns from, as the rows
    train_name: str  # its file, for people
    most_train_rows: int | None = None  # of the train file, drawn with seed 0

    def texts_of(self, row: tuple[str, ...]) -> tuple[str, ...]:
        """All but the label."""
        return row[:-1]

    def content(self) -> Iterator[object]:
        """The rows, and those that the linear layer learns from."""
        yield from self.rows
        yield from ("train", *self.train)

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its rows, and five times as many training rows."""
        some = RowSet.limited(self, most, seed)
        if some is self:
            return self
        learned = drawn_rows(len(self.train), max(_TRAIN_A_TEST * most, 10), seed)
        train = tuple(self.train[row] for row in learned)
        note = f"{some.notes[-1]}; {len(train):,} of {len(self.train):,} training rows"
        return replace(some, train=train, notes=(*self.notes, note))

    def measure(self, encoder: VectorEncoder, progress: Progress | None = None) -> Outcome:
        """Fit the layer on frozen vectors of the train file, and let it label; the encoder learns nothing.

        So it measures what the vectors hold, not what fine-tuning on the set would reach; of two texts they
        have the structure of Conneau et al. 2017, https://arxiv.org/abs/1705.02364. A draw takes rows with
        what was predicted: nothing is fitted again.
        """
        started = perf_counter()
        most = self.most_train_rows
        learned = (
            self.train if most is None else [self.train[row] for row in drawn_rows(len(self.train), most, 0)]
        )
        require_learnable([row[-1] for row in learned], self.name)  # before everything is encoded
        texts = [text for row in (*learned, *self.rows) for text in self.texts_of(row)]
        vectors, truncated = encoded_texts(encoder, texts, progress=progress)
        of_pairs = self.kind is EvaluationKind.NLI
        features = pair_features(vectors[::2], vectors[1::2]) if of_pairs else vectors
        known, unknown = features[: len(learned)], features[len(learned) :]
        labels, regularisation = linear_predictions(known, [row[-1] for row in learned], unknown, self.name)
        gold = [row[-1] for row in self.rows]
        right = np.array([truth == guess for truth, guess in zip(gold, labels, strict=True)])
        return self.outcome(
            {
                "accuracy": accuracy(gold, labels),
                "macro_f1": macro_f1(gold, labels),
            },
            mean_of_drawn(right.astype(np.float64)),
            truncated=truncated,
            started=started,
            details={
                **({"pairs": len(self)} if of_pairs else {"texts": len(self), "labels": len({*gold})}),
                "train": self.train_name,
                "train_rows": len(learned),
                "regularisation": regularisation,
            },
        )


class ClassificationSet(LearnedSet):
    """Text and label."""

    kind = EvaluationKind.CLASSIFICATION


@dataclass(frozen=True, slots=True)
class NliSet(LearnedSet):
    """Premise, hypothesis and label; the layer stands on (u, v, |u-v|, u*v)."""

    kind = EvaluationKind.NLI
    most_train_rows: int | None = 20_000  # more add little to a linear layer
