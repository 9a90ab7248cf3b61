"""The cosine of a pair is its score: SBERT's regression objective."""

from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from torch import Tensor

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective, given_vectors, loss_of_vectors


class CosineObjective(SentenceObjective):
    """`loss = mean over pairs of (cos(u, v) - y)^2`, y the score brought from its scale to 0..1 (or -1..1).

    columns: u, v    labels: (rows,) scores on the data's own scale, `config.score_range`

    Reimers & Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084
    """

    labelled = True

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        self._scores = config.score_range or (0.0, 1.0)
        self._loss = CosineSimilarityLoss(given_vectors())

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        return loss_of_vectors(self._loss, embeddings, None if labels is None else self.cosines(labels))

    def cosines(self, scores: Tensor) -> Tensor:
        """Return the cosines that scores stand for, (rows,) float32."""
        least, most = self._scores
        low, high = self.config.cosine_range
        return low + (scores.float() - least) / (most - least) * (high - low)
