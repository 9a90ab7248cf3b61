"""Which parts of a BERT stay as they are while its head is trained."""

from dataclasses import dataclass
from enum import StrEnum

import torch

from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.network import HeadNetwork

__all__ = ["FreezeRule", "Freezing", "freeze"]


class FreezeRule(StrEnum):
    """The named choices."""

    NONE = "none"  # everything is trained
    ALL_BUT_LAST = "all-but-last"  # the last transformer layer is trained
    ALL = "all"  # no transformer layer is


@dataclass(frozen=True, slots=True)
class Freezing:
    """How much is frozen, from the embeddings up; the pooler and the head are trained in every case."""

    rule: FreezeRule = FreezeRule.NONE
    layers: int | None = None  # instead of the rule: the embeddings and so many transformer layers

    @classmethod
    def parse(cls, text: str) -> "Freezing":
        """Read `none`, `all-but-last`, `all`, or a number of layers; BadInputError for anything else."""
        asked = text.strip().lower()
        if asked.isdecimal() and len(asked) < 6:
            return cls(layers=int(asked))
        try:
            return cls(FreezeRule(asked))
        except ValueError as error:
            raise BadInputError(
                f"{text!r} does not say what to freeze. Take {', '.join(FreezeRule)}, or a number of layers: "
                "0 for the embeddings alone"
            ) from error

    def __str__(self) -> str:
        """What `parse` takes."""
        return str(self.rule) if self.layers is None else str(self.layers)

    def frozen_layers(self, layers: int) -> int | None:
        """Give how many of a BERT's transformer layers are frozen, the embeddings with them; None: nothing.

        BadInputError when it has fewer than are to be frozen.
        """
        if self.layers is not None:
            if self.layers > layers:
                raise BadInputError(
                    f"{self.layers} layers are to be frozen, and the BERT has {layers}. Freeze fewer, or all"
                )
            return self.layers
        return {FreezeRule.NONE: None, FreezeRule.ALL_BUT_LAST: layers - 1, FreezeRule.ALL: layers}[self.rule]


def freeze(network: HeadNetwork, freezing: Freezing) -> int:
    """Stop the training of a network's lower parts, and their dropout, in place.

    returns: how many of its numbers are still trained
    """
    bert = network.transformer.bert
    layers = list(bert.encoder.layer)
    frozen = freezing.frozen_layers(len(layers))
    parts: list[torch.nn.Module] = [] if frozen is None else [bert.embeddings, *layers[:frozen]]
    for part in parts:
        part.requires_grad_(requires_grad=False)
    network.frozen = tuple(parts)
    return sum(weights.numel() for weights in network.parameters() if weights.requires_grad)
