"""The vector of a text with words deleted is enough to write the whole text: TSDAE."""

import copy
from collections.abc import Sequence
from typing import Final, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.objective import LearnedData, SentenceObjective
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.quiet import quiet_libraries

DECODER_KINDS: Final = (
    "bert",
    "camembert",
    "roberta",
    "xlm-roberta",
)  # transformers can make decoders of these


class DenoisingObjective(SentenceObjective):
    """`loss = mean over tokens t of -log p(t | tokens before it, u)`, u the vector of the damaged text.

    columns: the texts with words deleted (`deleted_words`)    labels: (rows, tokens) long, the ids of the
    whole texts with their special tokens, padded at the right with the tokenizer's padding

    It owns the decoder: the base's own layers, whose weights are tied to the encoder's (the parameters are
    the same objects), made causal and given cross attention to u alone. Cross attention and the output
    layer's transform are its own, drawn from torch's generator. The decoder runs in the caller's precision,
    and the loss is computed in float32. A text of one token, or none, has nothing to be written.

    Wang et al. 2021, section 3, https://arxiv.org/abs/2104.06979
    """

    labelled = True
    generates = True
    columns = (1, 1)

    def __init__(
        self,
        base_transformer: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        config: ObjectiveConfig | None = None,
    ) -> None:
        """`base_transformer`: the encoder's transformer, on its device; `tokenizer`: its own.

        Raises BadInputError for a base that no decoder can be made of.
        """
        super().__init__((config or ObjectiveConfig(ObjectiveKind.TSDAE)).resolved())
        self.width = int(base_transformer.config.hidden_size)
        self._padding = _padding(tokenizer)
        self.decoder = _tied_decoder(base_transformer)

    @classmethod
    def make(cls, config: ObjectiveConfig, data: LearnedData) -> Self:
        if data.base is None or data.tokenizer is None:
            raise BadInputError(
                f"the objective {config.kind} makes its decoder of the encoder's transformer, and this "
                "encoder has none. Begin with a BERT, or give pairs of texts that belong together"
            )
        if data.dimension != data.base.config.hidden_size:
            raise BadInputError(
                f"the objective {config.kind} needs vectors as wide as the transformer, "
                f"{data.base.config.hidden_size}, and the encoder's have {data.dimension}. "
                f"Leave out the projection, or take {ObjectiveKind.SIMCSE}"
            )
        return cls(data.base, data.tokenizer, config)

    def forward(
        self,
        embeddings: Sequence[Tensor],
        labels: Tensor | None = None,
        guide: Sequence[Tensor] | None = None,
    ) -> Tensor:
        self.require(len(embeddings), has_labels=labels is not None, has_guide=guide is not None)
        return self.loss(list(embeddings), labels, None)

    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        del guide
        (vectors,) = embeddings
        if labels is None or labels.ndim != 2 or len(labels) != len(vectors):
            raise ValueError(f"{len(vectors)} vectors need as many rows of token ids for labels")
        if vectors.shape[1] != self.width:
            raise ValueError(
                f"vectors of {vectors.shape[1]} dimensions, and the decoder's width is {self.width}"
            )
        if labels.shape[1] < 2:
            return vectors.float().sum() * 0
        base = self.decoder.base_model
        states: Tensor = base(
            input_ids=labels[:, :-1], encoder_hidden_states=vectors.unsqueeze(1), use_cache=False
        ).last_hidden_state
        written = labels[:, 1:] != self._padding
        # Tokens beyond the text's end cost nothing: only those that are written reach the output layer.
        logits = _output_layer(self.decoder)(states[written])
        with torch.autocast(vectors.device.type, enabled=False):
            total = functional.cross_entropy(logits.float(), labels[:, 1:][written], reduction="sum")
            return total / written.sum().clamp(min=1)


def _tied_decoder(base: PreTrainedModel) -> PreTrainedModel:
    kind = base.config.model_type
    if kind not in DECODER_KINDS:
        raise BadInputError(
            f"the objective {ObjectiveKind.TSDAE} cannot make a decoder of a {kind}. "
            f"Begin with one of {', '.join(DECODER_KINDS)}, or take {ObjectiveKind.SIMCSE}"
        )
    config = copy.deepcopy(base.config)
    config.is_decoder = True
    config.add_cross_attention = True
    config.tie_word_embeddings = True
    with quiet_libraries():
        decoder: PreTrainedModel = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    decoder.to(base.device)  # type: ignore[arg-type]  # transformers' annotation wraps Module.to
    own = dict(decoder.base_model.named_modules())
    for name, parameter in base.named_parameters():
        module, _, attribute = name.rpartition(".")
        if module in own and isinstance(getattr(own[module], attribute, None), nn.Parameter):
            setattr(own[module], attribute, parameter)
    decoder.tie_weights()
    return decoder


def _output_layer(decoder: PreTrainedModel) -> nn.Module:
    """The layer from states to vocabulary: BERT's `cls`, RoBERTa's `lm_head`."""
    layer = getattr(decoder, "cls", None) or decoder.lm_head
    if not isinstance(layer, nn.Module):
        raise TypeError(f"{type(decoder).__name__} has no output layer")
    return layer


def _padding(tokenizer: PreTrainedTokenizerBase) -> int:
    if tokenizer.pad_token_id is None:
        raise BadInputError("the tokenizer has no padding token. Save one with it")
    return int(tokenizer.pad_token_id)
