"""Of two pairs, the one with the higher score has the higher cosine: CoSENT."""

from sentence_transformers.sentence_transformer.losses import CoSENTLoss
from torch import Tensor

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective, given_vectors, loss_of_vectors


class CosentObjective(SentenceObjective):
    """`loss = log(1 + sum of exp(scale * (cos(u_k, v_k) - cos(u_i, v_i))))`, over all i, k with y_i > y_k.

    columns: u, v    labels: (rows,) scores, of which only the order counts

    The batch as a whole has one loss. Equal scores ask for nothing; a batch in which all are equal, such as
    one row, has the loss 0.

    Su 2022, https://kexue.fm/archives/8847
    """

    labelled = True

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        self._loss = CoSENTLoss(given_vectors(), scale=20.0 if config.scale is None else config.scale)

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        return loss_of_vectors(self._loss, embeddings, labels)
