"""Any objective over the first dimensions of the vectors as well: Matryoshka."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective
from nearsay.training.sentence.objectives.teacher import TeacherObjective


class MatryoshkaObjective(SentenceObjective):
    """`loss = sum over dimensions d of loss_d(u[:d], v[:d], …)`, all of equal weight.

    columns, labels, guide: as the objective itself has them

    There is an objective for each d, so that a classifier or projection fits its vectors. Objectives that use
    the cosine normalise the truncated vectors; those that use the vectors themselves (softmax, Euclidean and
    Manhattan distances) take them unnormalised, where sentence-transformers' MatryoshkaLoss normalises all. A
    teacher's vectors are cut with the encoder's when both have one dimension, as
    there.

    Kusupati et al. 2022, https://arxiv.org/abs/2205.13147
    """

    def __init__(self, config: ObjectiveConfig, objective: Callable[[int], SentenceObjective]) -> None:
        """`objective`: makes the one for a dimension."""
        super().__init__(config)
        self.objectives = nn.ModuleList(objective(dimension) for dimension in config.matryoshka)
        first = self._each()[0]
        for name in ("distinct", "labelled", "columns"):
            setattr(self, name, getattr(first, name))

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        losses = []
        for dimension, objective in zip(self.config.matryoshka, self._each(), strict=True):
            cut = [column[:, :dimension] for column in embeddings]
            targets = guide
            if guide is not None and isinstance(objective, TeacherObjective):
                targets = [column[:, : objective.teacher_dimension] for column in guide]
            losses.append(objective(cut, labels, targets))
        return torch.stack(losses).sum()

    def _each(self) -> list[SentenceObjective]:
        return [objective for objective in self.objectives if isinstance(objective, SentenceObjective)]
