"""Texts of one class are nearer to each other than to those of others: supervised contrastive learning."""

import torch
from torch import Tensor
from torch.nn import functional

from nearsay.training.sentence.objectives.objective import SentenceObjective


class SupervisedContrastiveObjective(SentenceObjective):
    """`loss = mean over i and over p of i's class of -log(exp(s_ip) / sum over j != i of exp(s_ij))`.

    columns: texts, and another text of each one's class    labels: (rows,) numbers of the classes

    s is scale * cosine, and i, p and j go through both columns: every text has one of its class in the batch.
    The paper puts a second view of the same picture beside each; p's mean is taken for each i.

    Khosla et al. 2020, equation 2, https://arxiv.org/abs/2004.11362
    """

    labelled = True

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        if labels is None or labels.shape != (len(embeddings[0]),):
            raise ValueError(f"{len(embeddings[0])} texts need a class each")
        vectors = functional.normalize(torch.cat(embeddings), dim=1)
        classes = labels.repeat(2)
        itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
        scores = (self.config.scale or 1.0) * vectors @ vectors.T
        shares = functional.log_softmax(scores.masked_fill(itself, -torch.inf), dim=1)
        alike = (classes[:, None] == classes[None, :]) & ~itself
        return -(shares.masked_fill(~alike, 0.0).sum(dim=1) / alike.sum(dim=1)).mean()
