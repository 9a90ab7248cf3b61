"""Which of a BERT's layers give the features.

Layer 0 is the output of the embeddings, layers 1 to N those of the N transformer layers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

from nearsay.data.errors import BadInputError

__all__ = ["LayerChoice", "LayerRule", "layer_choices"]

_SUMMED = 4  # the paper's "last four"


class LayerRule(StrEnum):
    """The named choices; of N transformer layers they take:"""

    LAST = "last"  # layer N
    SECOND_TO_LAST = "second-to-last"  # layer N - 1
    SUM_LAST_4 = "sum-last-4"  # the sum of layers N - 3 to N
    CONCAT_LAST_4 = "concat-last-4"  # layers N - 3 to N side by side, the lowest first
    SUM_ALL = "sum-all"  # the sum of layers 1 to N; the embeddings, layer 0, are not in it


_LAYERS_NEEDED = {LayerRule.SECOND_TO_LAST: 2, LayerRule.SUM_LAST_4: 4, LayerRule.CONCAT_LAST_4: 4}


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """A named choice, or one layer by its number.

    These hold the six feature-based choices of the BERT paper's table 7: the embeddings (0), the hidden layer
    before the last, the last one, the sum of the last four, the last four concatenated, and the sum of all.
    Its second version calls the sums weighted without telling the weights; they are plain sums here, as its
    first version has them.

    Devlin et al. 2019, section 5.3, https://arxiv.org/abs/1810.04805
    """

    rule: LayerRule | None = None  # None: one layer, by number
    number: int | None = None  # the layer, from 0; None: by rule

    def __post_init__(self) -> None:
        """Exactly one of the two says which layers."""
        if (self.rule is None) == (self.number is None):
            raise ValueError(f"rule {self.rule!r} and number {self.number!r}: give one of the two")
        if self.number is not None and self.number < 0:
            raise ValueError(f"layer {self.number} is below 0, the embeddings")

    @classmethod
    def parse(cls, text: str) -> "LayerChoice":
        """Read `last`, `second-to-last`, `sum-last-4`, `concat-last-4`, `sum-all` or a layer's number.

        Raises BadInputError, naming what there is, for anything else.
        """
        asked = text.strip().lower()
        if re.fullmatch(r"[0-9]{1,6}", asked):
            return cls(number=int(asked))
        try:
            return cls(LayerRule(asked))
        except ValueError as error:
            raise BadInputError(
                f"{text!r} names no layers. Take one of {', '.join(LayerRule)}, or a layer's number: "
                "0 for the embeddings, 1 for the first layer and so on"
            ) from error

    def __str__(self) -> str:
        """What `parse` takes."""
        return str(self.number) if self.rule is None else str(self.rule)

    def fits(self, layers: int) -> bool:
        """Whether a model of so many transformer layers has what is chosen."""
        if self.number is not None:
            return self.number <= layers
        return layers >= _LAYERS_NEEDED.get(self.rule or LayerRule.LAST, 1)

    def taken(self, layers: int, *, name: str = "the model") -> tuple[int, ...]:
        """Give the layers that are taken of a model with so many transformer layers, ascending.

        Raises BadInputError, naming the range, when the model, called `name`, has too few.
        """
        if not self.fits(layers):
            wanted = (
                f"there is no layer {self.number}"
                if self.rule is None
                else f"{self.rule} needs {_LAYERS_NEEDED[self.rule]} transformer layers"
            )
            raise BadInputError(
                f"{wanted}: {name} has {layers}. Take a layer from 0 (the embeddings) to {layers}, or last"
            )
        match self.rule:
            case None:
                return (self.number or 0,)
            case LayerRule.LAST:
                return (layers,)
            case LayerRule.SECOND_TO_LAST:
                return (layers - 1,)
            case LayerRule.SUM_ALL:
                return tuple(range(1, layers + 1))
            case LayerRule.SUM_LAST_4 | LayerRule.CONCAT_LAST_4:
                return tuple(range(layers - _SUMMED + 1, layers + 1))

    def width(self, hidden_size: int) -> int:
        """Give the numbers in one feature vector, of a model whose layers are `hidden_size` wide."""
        return hidden_size * (_SUMMED if self.rule is LayerRule.CONCAT_LAST_4 else 1)

    def combined(self, states: Sequence[torch.Tensor]) -> torch.Tensor:
        """Make one feature of the layers that `taken` gave.

        states:  each (..., width) float, in the order of `taken`
        returns: (..., width), or (..., 4 * width) when they are concatenated
        """
        if len(states) == 1:
            return states[0]
        if self.rule is LayerRule.CONCAT_LAST_4:
            return torch.cat(tuple(states), dim=-1)
        return torch.stack(tuple(states)).sum(dim=0)


def layer_choices(layers: int) -> list[LayerChoice]:
    """Give every choice that differs, of a model of so many transformer layers.

    That is each layer, from the embeddings up, and then the combinations that it has the layers for.
    """
    combinations = (LayerRule.SUM_LAST_4, LayerRule.CONCAT_LAST_4, LayerRule.SUM_ALL)
    single = [LayerChoice(number=layer) for layer in range(layers + 1)]
    return single + [choice for rule in combinations if (choice := LayerChoice(rule)).fits(layers)]
