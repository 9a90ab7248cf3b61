"""The difference of two passages' scores is a teacher's: MarginMSE."""

from sentence_transformers.sentence_transformer.losses import MarginMSELoss
from sentence_transformers.util import pairwise_cos_sim
from torch import Tensor

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective, given_vectors


class MarginMseObjective(SentenceObjective):
    """`loss = mean over negatives n of (scale (cos(q, p) - cos(q, n)) - (t_p - t_n))^2`, t by a teacher.

    columns: query, positive, one or more negatives    labels: (rows, passages) t of each passage

    Only differences count: a teacher may score on any scale, and may put a negative above the positive. The
    usual scale is the distance between the lowest and the highest score of the data, so that cosines 0 to 1
    can give it. The paper takes dot products, scale 1, and one negative.

    Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666
    """

    labelled = True
    columns = (3, None)

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        scale = 1.0 if config.scale is None else config.scale
        self._loss = MarginMSELoss(
            given_vectors(), similarity_fct=lambda first, second: scale * pairwise_cos_sim(first, second)
        )

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        rows, passages = len(embeddings[0]), len(embeddings) - 1
        if labels is None or labels.shape != (rows, passages):
            raise ValueError(f"{passages} passages of {rows} queries need a score each")
        value: Tensor = self._loss.compute_loss_from_embeddings(embeddings, labels)
        return value
