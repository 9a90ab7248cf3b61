"""Pairs that mean the same are near, others are a margin apart."""

from collections.abc import Callable

import torch
from sentence_transformers.sentence_transformer.losses import SiameseDistanceMetric
from torch import Tensor
from torch.nn import functional

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective
from nearsay.training.sentence.objectives.table import Distance


class ContrastiveObjective(SentenceObjective):
    """`loss = mean over pairs of 1/2 (y d^2 + (1 - y) max(0, margin - d)^2)`, d the distance of u and v.

    columns: u, v    labels: (rows,) 1 when they mean the same, 0 when not

    Online, only the hard pairs of a batch count, each without the 1/2: those that mean the same and are
    farther apart than the nearest that do not, and those that do not and are nearer than the farthest that
    do. sentence-transformers adds these up; here their sum is divided by the rows, so that the loss does not
    grow with the batch. Where all pairs of a batch are of one kind, those beyond its mean distance are the
    hard ones.

    Written out here as sentence-transformers' losses read labels and distances, for which a step waits until
    the GPU is done.

    Hadsell et al. 2006, http://yann.lecun.com/exdb/publis/pdf/hadsell-chopra-lecun-06.pdf
    """

    labelled = True

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        metrics: dict[Distance, Callable[[Tensor, Tensor], Tensor]] = {
            Distance.COSINE: SiameseDistanceMetric.COSINE_DISTANCE,
            Distance.EUCLIDEAN: SiameseDistanceMetric.EUCLIDEAN,
            Distance.MANHATTAN: SiameseDistanceMetric.MANHATTAN,
        }
        self._distance = metrics[config.distance or Distance.COSINE]
        self._margin = 0.5 if config.margin is None else config.margin

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        if labels is None or labels.shape != (len(embeddings[0]),):
            raise ValueError(f"{len(embeddings[0])} pairs need a label each")
        distances = self._distance(*embeddings)
        same = labels.float()
        too_far, too_near = distances.square(), functional.relu(self._margin - distances).square()
        if not self.config.online:
            return (same * too_far + (1 - same) * too_near).mean() / 2
        alike, other = labels == 1, labels == 0
        nearest = torch.where(
            other.any(), distances.masked_fill(~other, torch.inf).min(), _mean(distances, alike)
        )
        farthest = torch.where(
            alike.any(), distances.masked_fill(~alike, -torch.inf).max(), _mean(distances, other)
        )
        hard = (alike & (distances > nearest)) * too_far + (other & (distances < farthest)) * too_near
        return hard.sum() / len(distances)


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    return (values * counted).sum() / counted.sum()
