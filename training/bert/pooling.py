"""One vector of a text's token vectors."""

from enum import StrEnum

import torch

__all__ = ["Pooling", "pooled"]


class Pooling(StrEnum):
    """What is made of the real tokens; [CLS], [SEP] and a prompt are real, as in sentence-transformers."""

    CLS = "cls"  # the first token's vector
    MEAN = "mean"
    MAX = "max"  # the highest value of each dimension


def pooled(states: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Make one vector of each text's tokens; padding has no part in it.

    states:  (texts, tokens, width) float
    mask:    (texts, tokens) bool, True = real token; a row of all False gives zeros
    returns: (texts, width)

    Reimers & Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084
    """
    empty = ~mask.any(dim=1, keepdim=True)
    match pooling:
        case Pooling.CLS:
            first = mask.int().argmax(dim=1)  # of equal values the first one: the first real token
            vectors = states[torch.arange(len(states), device=states.device), first]
        case Pooling.MEAN:
            total = states.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
            vectors = total / mask.sum(dim=1, keepdim=True).clamp(min=1)
        case Pooling.MAX:
            vectors = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)
    return vectors.masked_fill(empty, 0.0)
