"""Pairs that mean the same are near, others are a margin apart."""

from sentence_transformers.sentence_transformer.losses import (
    ContrastiveLoss,
    OnlineContrastiveLoss,
    SiameseDistanceMetric,
)
from torch import Tensor

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective, given_vectors, loss_of_vectors
from nearsay.training.sentence.objectives.table import Distance

__all__ = ["ContrastiveObjective"]


class ContrastiveObjective(SentenceObjective):
    """`loss = mean over pairs of 1/2 (y d^2 + (1 - y) max(0, margin - d)^2)`, d the distance of u and v.

    columns: u, v    labels: (rows,) 1 when they mean the same, 0 when not

    Online, only the hard pairs of a batch count, each without the 1/2: those that mean the same and are
    farther apart than the nearest that do not, and those that do not and are nearer than the farthest that
    do. sentence-transformers adds these up; here their sum is divided by the rows, so that the loss does not
    grow with the batch. Where all pairs of a batch are of one kind, those beyond its mean distance are the
    hard ones.

    Hadsell et al. 2006, http://yann.lecun.com/exdb/publis/pdf/hadsell-chopra-lecun-06.pdf
    """

    labelled = True

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        metrics = {
            Distance.COSINE: SiameseDistanceMetric.COSINE_DISTANCE,
            Distance.EUCLIDEAN: SiameseDistanceMetric.EUCLIDEAN,
            Distance.MANHATTAN: SiameseDistanceMetric.MANHATTAN,
        }
        made = OnlineContrastiveLoss if config.online else ContrastiveLoss
        self._loss = made(
            given_vectors(),
            distance_metric=metrics[config.distance or Distance.COSINE],
            margin=0.5 if config.margin is None else config.margin,
        )

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        value = loss_of_vectors(self._loss, embeddings, labels)
        return value / len(embeddings[0]) if self.config.online else value
