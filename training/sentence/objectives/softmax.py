"""Tell the label of a pair by a linear layer over both vectors: SBERT's classification objective."""

from collections.abc import Sequence

import torch
from sentence_transformers.sentence_transformer.losses import SoftmaxLoss
from torch import Tensor

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.given_vectors import given_vectors, loss_of_vectors
from nearsay.training.sentence.objectives.objective import SentenceObjective

__all__ = ["SoftmaxObjective"]


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

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        return loss_of_vectors(self._loss, embeddings, None if labels is None else labels.long())

    def logits(self, embeddings: Sequence[Tensor]) -> Tensor:
        with torch.autocast(embeddings[0].device.type, enabled=False):
            columns = [{"sentence_embedding": column.float()} for column in embeddings]
            scores: Tensor = self._loss(columns, None)[1]
        return scores
