"""A query's passages get the distribution that a teacher's scores give them: distillation of a ranking."""

import torch
from sentence_transformers.util import pairwise_cos_sim
from torch import Tensor
from torch.nn import functional

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective


class KlDivergenceObjective(SentenceObjective):
    """`loss = mean over queries of KL(softmax(t / teacher_temperature) || softmax(scale cos(q, p)))`.

    columns: query, two or more passages    labels: (rows, passages) t, the teacher's score of each passage

    Both softmaxes go over the passages of the query's own row, whose order does not count. The usual
    temperature of the teacher is the distance between the lowest and the highest score of the data, divided
    by `scale`, so that cosines 0 to 1 can give the teacher's distribution. As sentence-transformers'
    DistillKLDivLoss with `scale * cos` for the similarity and a student's temperature of 1.

    Lin et al. 2020, https://arxiv.org/abs/2010.11386
    """

    labelled = True
    columns = (3, None)

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        self._scale = 20.0 if config.scale is None else config.scale
        self._temperature = config.teacher_temperature or 1.0

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        query, *passages = embeddings
        if labels is None or labels.shape != (len(query), len(passages)):
            raise ValueError(f"{len(passages)} passages of {len(query)} queries need a score each")
        scores = torch.stack([pairwise_cos_sim(query, passage) for passage in passages], dim=1)
        return functional.kl_div(
            torch.log_softmax(self._scale * scores, dim=1),
            torch.softmax(labels.float() / self._temperature, dim=1),
            reduction="batchmean",
        )
