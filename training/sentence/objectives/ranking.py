"""The positive is the nearest of all texts of the batch: multiple negatives ranking (InfoNCE)."""

from typing import ClassVar

from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective, given_vectors, loss_of_vectors


class RankingObjective(SentenceObjective):
    """`loss = mean over rows i of -log softmax_j(scale * cos(a_i, t_j))[i]`, t all positives, then negatives.

    columns: anchor, positive, any number of hard negatives    labels: none

    Symmetric, the mean of this and of the same where each positive looks for its anchor among all anchors.
    One row without negatives has nothing to be told from: its loss and gradients are 0.

    Henderson et al. 2017, section 4.4, https://arxiv.org/abs/1705.00652; van den Oord et al. 2018,
    https://arxiv.org/abs/1807.03748
    """

    distinct = True
    columns: ClassVar[tuple[int, int | None]] = (2, None)

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        self._loss = MultipleNegativesRankingLoss(
            given_vectors(),
            scale=20.0 if config.scale is None else config.scale,
            directions=("query_to_doc", "doc_to_query") if config.symmetric else ("query_to_doc",),
            partition_mode="per_direction" if config.symmetric else "joint",
        )

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        return loss_of_vectors(self._loss, embeddings, labels)
