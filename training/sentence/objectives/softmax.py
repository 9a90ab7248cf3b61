"""Tell the label of a pair by a linear layer over both vectors: SBERT's classification objective."""

from collections.abc import Sequence
from typing import Self

from sentence_transformers.sentence_transformer.losses import SoftmaxLoss
from torch import Tensor

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import (
    LearnedData,
    SentenceObjective,
    given_vectors,
    loss_of_vectors,
)


class SoftmaxObjective(SentenceObjective):
    """`loss = mean over pairs of -log softmax(W x)[label]`, x the concatenation, by default (u, v, |u-v|).

    columns: u, v    labels: (rows,) long, from 0    parameters: W and a bias, from torch's generator

    Reimers & Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084 (their W has no bias)
    """

    labelled = True

    def __init__(self, config: ObjectiveConfig, *, dimension: int, label_names: Sequence[str]) -> None:
        super().__init__(config)
        self.label_names = tuple(label_names)
        self._loss = SoftmaxLoss(
            given_vectors(dimension),
            dimension,
            len(self.label_names),
            concatenation_sent_rep=config.concatenation.both,
            concatenation_sent_difference=config.concatenation.difference,
            concatenation_sent_multiplication=config.concatenation.product,
        )

    @classmethod
    def make(cls, config: ObjectiveConfig, data: LearnedData) -> Self:
        if len(data.label_names) < 2:
            raise BadInputError(
                f"the objective {config.kind} tells labels apart, and the data have {len(data.label_names)}. "
                "Take data with two labels or more, or another objective"
            )
        return cls(config, dimension=data.dimension, label_names=data.label_names)

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        return loss_of_vectors(self._loss, embeddings, None if labels is None else labels.long())
