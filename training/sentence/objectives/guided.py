"""Ranking without the texts that a guide holds for false negatives: GISTEmbed."""

import torch
from torch import Tensor
from torch.nn import functional

from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import SentenceObjective

_ROUNDING = 1e-6  # a text as near as the positive is one too: the same text twice, but for rounding


class GuidedObjective(SentenceObjective):
    """`loss = mean over rows i of -log softmax_j(scale * s_ij)[i]`, over what the guide lets pass.

    columns: anchor, positive, any number of hard negatives    labels: none    guide: its vectors, a column
    each

    s_i holds the cosines of the anchor with all positives and all negatives, with all other anchors, and of
    the positive with all other positives. A candidate is left out when the guide finds it at least as near
    (less `margin`) as it finds the row's own anchor and positive to each other.

    Written out here as sentence-transformers' GISTEmbedLoss asks for a guide that it can run itself, takes
    one negative at most, and keeps (rows x rows x dimension) numbers at once. It differs in two points: what
    is exactly as near as the positive is left out, and so is a text's comparison with itself in every case.

    Solatorio 2024, https://arxiv.org/abs/2402.16829
    """

    distinct = True
    columns = (2, None)

    def __init__(self, config: ObjectiveConfig) -> None:
        super().__init__(config)
        self._scale = 100.0 if config.scale is None else config.scale
        self._margin = config.margin or 0.0

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del labels
        if guide is None or len(guide) != len(embeddings):
            raise ValueError(f"{len(embeddings)} columns need as many of the guide's, not {len(guide or ())}")
        similarities = _similarities(embeddings)
        guided = _similarities(guide)
        rows = len(embeddings[0])
        own = torch.eye(rows, dtype=torch.bool, device=similarities.device)
        none = torch.zeros_like(own)
        positives = torch.cat([own] + [none] * len(embeddings), dim=1)
        themselves = torch.cat([none] * (len(embeddings) - 1) + [own, own], dim=1)
        threshold = guided[:, :rows].diagonal().unsqueeze(1) - self._margin
        left_out = ((guided >= threshold - _ROUNDING) & ~positives) | themselves
        scores = (self._scale * similarities).masked_fill(left_out, -torch.inf)
        return functional.cross_entropy(scores, torch.arange(rows, device=scores.device))


def _similarities(columns: list[Tensor]) -> Tensor:
    """Cosines of anchors with the other columns and anchors, and of positives: (rows, (columns + 1) rows)."""
    anchor, positive, *negatives = (functional.normalize(column, dim=-1) for column in columns)
    candidates = torch.cat([positive, *negatives, anchor])
    return torch.cat([anchor @ candidates.T, positive @ positive.T], dim=1)
