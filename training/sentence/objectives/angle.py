"""CoSENT with the difference of angles in complex space: AnglE."""

from collections.abc import Sequence

from sentence_transformers.sentence_transformer.losses import AnglELoss
from torch import Tensor

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective, given_vectors, loss_of_vectors


class AngleObjective(SentenceObjective):
    """`loss = log(1 + sum of exp(scale * (s(u_k, v_k) - s(u_i, v_i))))`, over all i, k with y_i > y_k.

    columns: u, v with labels: (rows,) scores, of which only the order counts; or anchor, positive, negatives
    without labels: every positive pair ranks above every negative one

    s is `|cos(u, v) + sin(u, v)|` with u and v of unit length, dimension d and the one half the vector later
    read as a complex number. Where the cosine is flat, near 1, the angle is not. As the authors' code has it;
    their equation 3 has the opposite sign.

    Li & Li 2023, section 3.3, https://arxiv.org/abs/2309.12871
    """

    columns = (2, None)

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        self._loss = AnglELoss(given_vectors(), scale=20.0 if config.scale is None else config.scale)

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        _require_labels(embeddings, labels)
        return loss_of_vectors(self._loss, embeddings, labels if len(embeddings) == 2 else None)


def _require_labels(embeddings: Sequence[Tensor], labels: Tensor | None) -> None:
    if len(embeddings) == 2 and labels is None:
        raise BadInputError(
            "the objective angle learns from the scores of pairs, and the data have none. "
            "Name the score's column, or give a third column of negatives"
        )
