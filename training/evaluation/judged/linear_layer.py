"""What a linear layer on frozen vectors tells: how classification and NLI are measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.regularisation import REGULARISATIONS, chosen_head, every_tenth

__all__ = ["LinearPredictions", "linear_predictions"]

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
