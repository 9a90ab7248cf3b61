"""Which of a BERT's layers give the features.

Layer 0 is the output of the embeddings, layers 1 to N those of the N transformer layers.
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import MODEL_MAPPING, PreTrainedModel

from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder, load_model
from nearsay.training.encoder.hardware import Precision, computing_in, narrow_linear_weights
from nearsay.training.encoder.memory import inference_tokens
from nearsay.training.sentence.batching import token_batches
from nearsay.training.sentence.forward import padded


class Pooling(StrEnum):
    """How the real tokens are pooled; [CLS], [SEP] and a prompt count, as in sentence-transformers."""

    CLS = "cls"  # the first token's vector
    MEAN = "mean"
    MAX = "max"  # the highest value of each dimension


def pooled(states: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Pool each text's tokens into one vector, ignoring padding.

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


_BATCH_TOKENS = {"cpu": 2048}  # as for sentence vectors: more leaves the cache
_BATCH_TEXTS = 512

# Gets a batch: where its texts are among the given ones, (texts,) int64; each layer's states from the
# embeddings up, (texts, tokens, width) float32; and the mask, (texts, tokens) bool, True = real token.
TakeStates = Callable[[NDArray[np.int64], Sequence[torch.Tensor], torch.Tensor], None]


class HiddenStates:
    """Runs a BERT's layers on tokenized texts. Thread-safe."""

    def __init__(
        self,
        bert: BertFolder,
        *,
        device: str,
        precision: Precision,
        deepest: int | None = None,
        model_class: type[PreTrainedModel] | None = None,
    ) -> None:
        """Load the model.

        precision:   a resolved one
        deepest:     the highest layer that is needed, from 0; those above it are neither loaded nor run
        model_class: that it has to be of; None: whatever its kind is
        """
        layers = int(bert.config.num_hidden_layers)
        self.layers = layers if deepest is None else max(deepest, 1)
        self._device = device
        self._precision = precision
        self._pad_id = int(bert.config.pad_token_id or 0)
        self._turn = threading.Lock()
        model_class = model_class or cast("type[PreTrainedModel]", MODEL_MAPPING[type(bert.config)])
        # The pooler was trained for next-sentence prediction; no layer's states come from it.
        self._model = load_model(bert, model_class, fresh=("pooler",), num_hidden_layers=self.layers)
        self._model.to(device)  # type: ignore[arg-type]  # transformers wraps torch's method
        narrow_linear_weights(self._model, precision)
        kept = 2 * (self.layers + 1) * int(bert.config.hidden_size)  # each layer's states, and in float32
        self._batch_tokens = _BATCH_TOKENS.get(device) or inference_tokens(device, self._model, kept=kept)

    def run(
        self,
        token_ids: Sequence[Sequence[int] | NDArray[np.int32]],
        take: TakeStates,
        segments: Sequence[NDArray[np.int32]] | None = None,
    ) -> None:
        """Call `take` with every batch of texts of similar length, longest first.

        segments: of each text's tokens, 0 or 1; None: all are 0

        The arguments of `take` must not be changed; no gradients are computed.
        """
        lengths = [len(ids) for ids in token_ids]
        with self._turn, computing_in(self._precision, self._device):
            for batch in token_batches(lengths, token_budget=self._batch_tokens, max_texts=_BATCH_TEXTS):
                numbers, mask = padded([token_ids[index] for index in batch], pad_id=self._pad_id)
                real = torch.from_numpy(mask).to(self._device)
                more = {}
                if segments is not None:
                    types, _ = padded([segments[index] for index in batch], pad_id=0)
                    more["token_type_ids"] = torch.from_numpy(types).to(self._device)
                output = self._model(
                    input_ids=torch.from_numpy(numbers).to(self._device),
                    attention_mask=real,
                    **more,
                    output_hidden_states=True,
                )
                take(batch, [states.float() for states in output.hidden_states], real.bool())


_SUMMED = 4  # the paper's "last four"


class LayerRule(StrEnum):
    """The named choices; of N transformer layers they use:"""

    LAST = "last"  # layer N
    SECOND_TO_LAST = "second-to-last"  # layer N - 1
    SUM_LAST_4 = "sum-last-4"  # the sum of layers N - 3 to N
    CONCAT_LAST_4 = "concat-last-4"  # layers N - 3 to N side by side, the lowest first
    SUM_ALL = "sum-all"  # the sum of layers 1 to N; the embeddings, layer 0, are not in it


_LAYERS_NEEDED = {LayerRule.SECOND_TO_LAST: 2, LayerRule.SUM_LAST_4: 4, LayerRule.CONCAT_LAST_4: 4}


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """A named choice of layers, or a single layer by number.

    Includes the six feature-based choices of the BERT paper's table 7: the embeddings (0), the second-to-last
    layer, the last one, the sum of the last four, the last four concatenated, and the sum of all. The paper's
    second version calls the sums weighted without giving the weights; they are plain sums here, as in its
    first version.

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
        """Parse `last`, `second-to-last`, `sum-last-4`, `concat-last-4`, `sum-all` or a layer's number.

        Raises BadInputError, listing the choices, for anything else.
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
        """Whether a model with this many transformer layers has the chosen ones."""
        if self.number is not None:
            return self.number <= layers
        return layers >= _LAYERS_NEEDED.get(self.rule or LayerRule.LAST, 1)

    def taken(self, layers: int, *, name: str = "the model") -> tuple[int, ...]:
        """The layers that are used of a model with this many transformer layers, ascending.

        Raises BadInputError, with the range, if the model, called `name`, has too few.
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
        """The dimension of a feature vector, for a model whose layers are `hidden_size` wide."""
        return hidden_size * (_SUMMED if self.rule is LayerRule.CONCAT_LAST_4 else 1)

    def combined(self, states: Sequence[torch.Tensor]) -> torch.Tensor:
        """Combine the layers that `taken` returned into one feature.

        states:  each (..., width) float, in the order of `taken`
        returns: (..., width), or (..., 4 * width) if they are concatenated
        """
        if len(states) == 1:
            return states[0]
        if self.rule is LayerRule.CONCAT_LAST_4:
            return torch.cat(tuple(states), dim=-1)
        return torch.stack(tuple(states)).sum(dim=0)


def layer_choices(layers: int) -> list[LayerChoice]:
    """All distinct choices for a model with this many transformer layers.

    Each layer, from the embeddings up, then the combinations for which it has enough layers.
    """
    combinations = (LayerRule.SUM_LAST_4, LayerRule.CONCAT_LAST_4, LayerRule.SUM_ALL)
    single = [LayerChoice(number=layer) for layer in range(layers + 1)]
    return single + [choice for rule in combinations if (choice := LayerChoice(rule)).fits(layers)]
