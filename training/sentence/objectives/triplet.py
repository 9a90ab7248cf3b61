"""The positive is nearer to the anchor than the negative, by a margin: SBERT's triplet objective."""

import torch
from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric, TripletLoss
from torch import Tensor

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective, given_vectors, loss_of_vectors
from nearsay.training.sentence.objectives.table import Distance


class TripletObjective(SentenceObjective):
    """`loss = mean over triplets of max(0, d(a, p) - d(a, n) + margin)`; of several negatives, their mean.

    columns: anchor, positive, one or more negatives    labels: none

    d is the Euclidean (margin 1, as in the paper), Manhattan or cosine distance. A Euclidean distance of 0
    has no direction; its gradient is taken as 0. Reimers & Gurevych 2019, section 3,
    https://arxiv.org/abs/1908.10084
    """

    columns = (3, None)

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        metrics = {
            Distance.EUCLIDEAN: TripletDistanceMetric.EUCLIDEAN,
            Distance.MANHATTAN: TripletDistanceMetric.MANHATTAN,
            Distance.COSINE: TripletDistanceMetric.COSINE,
        }
        self._loss = TripletLoss(
            given_vectors(),
            distance_metric=metrics[config.distance or Distance.EUCLIDEAN],
            triplet_margin=1.0 if config.margin is None else config.margin,
        )

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        anchor, positive, *negatives = embeddings
        return torch.stack(
            [loss_of_vectors(self._loss, (anchor, positive, negative), labels) for negative in negatives]
        ).mean()
