"""Be near another encoder's vectors: distillation."""

from typing import Self

from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss
from torch import Tensor, nn

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import LearnedData, SentenceObjective, given_vectors
from nearsay.training.sentence.objectives.table import Distance


class TeacherObjective(SentenceObjective):
    """`loss = mean of 1 - cos(P u, t)` over rows, or of `(P u - t)^2` over rows and dimensions.

    columns: texts, and perhaps their translations, of equal weight    labels: not looked at
    guide: the teacher's t for each column. In training, t of every column is the teacher's vector of the
    *first* one, the text in the teacher's language: the student learns to give a text and its translations
    one vector, also in languages that the teacher has never learned.

    P is a learned linear layer, drawn from torch's generator, when the teacher's vectors have another
    dimension, and nothing otherwise. The cosine, the default, leaves the vectors' length free; the square
    does not.

    Reimers & Gurevych 2020, section 2, https://arxiv.org/abs/2004.09813 (with the square)
    """

    columns = (1, None)

    def __init__(self, config: ObjectiveConfig, *, dimension: int, teacher_dimension: int) -> None:
        super().__init__(config)
        self.teacher_dimension = teacher_dimension
        self._loss = EmbedDistillLoss(
            given_vectors(dimension),
            distance_metric="mse" if config.distance is Distance.EUCLIDEAN else "cosine",
            projection_dim=None if teacher_dimension == dimension else teacher_dimension,
        )

    @classmethod
    def make(cls, config: ObjectiveConfig, data: LearnedData) -> Self:
        return cls(config, dimension=data.dimension, teacher_dimension=data.guide_dimension)

    @property
    def projection(self) -> nn.Linear | None:
        """P, from the encoder's vectors into the teacher's space; None when they are compared as they are."""
        return self._loss.projection

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del labels
        if guide is None or len(guide) != len(embeddings):
            raise ValueError(
                f"{len(embeddings)} columns need as many of the teacher's, not {len(guide or ())}"
            )
        value: Tensor = self._loss.compute_loss_from_embeddings(embeddings, guide)
        return value
