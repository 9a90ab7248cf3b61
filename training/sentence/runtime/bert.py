"""BERT's layers on packed texts."""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch.nn import functional
from transformers import BertModel
from transformers.activations import GELUActivation
from transformers.models.bert.modeling_bert import BertLayer

from nearsay.training.sentence.runtime.attention import attend, takes_bounds
from nearsay.training.sentence.runtime.packed_window import PackedBatch
from nearsay.training.sentence.runtime.product import Product

__all__ = ["PackedBert"]


class PackedBert:
    """A BERT encoder that runs over texts without padding.

    Devlin et al. 2019, section 3, https://arxiv.org/abs/1810.04805. The sums between the layers and their
    normalising are float32 in every precision: narrow sums would cost the vectors' least cosine.
    """

    def __init__(self, model: BertModel, *, dtype: torch.dtype, device: str) -> None:
        """`dtype`: the products' format; the weights are copied from the model, which `runs` must accept."""
        embeddings: Any = model.embeddings
        self._words = embeddings.word_embeddings.weight.detach()
        # Every token is of the first segment.
        self._places = (
            embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
        ).detach()
        self._normalise = embeddings.LayerNorm
        heads = model.config.num_attention_heads
        by_bounds = takes_bounds(device, dtype, model.config.hidden_size // heads)
        self._layers = [
            _Layer(layer, heads=heads, by_bounds=by_bounds, dtype=dtype, device=device)
            for layer in cast("Iterable[BertLayer]", model.encoder.layer)
        ]

    @staticmethod
    def runs(model: object) -> bool:
        """Whether a model is a BERT encoder as transformers makes it, its layers unchanged."""
        if type(model) is not BertModel:
            return False
        config = model.config
        layers = [module for name, module in model.named_modules() if _is_linear_place(name)]
        return (
            not config.is_decoder
            and not config.add_cross_attention
            and getattr(config, "position_embedding_type", None) in {None, "absolute"}
            and len(layers) == 6 * config.num_hidden_layers
            and all(type(layer) is torch.nn.Linear and layer.bias is not None for layer in layers)
        )

    def __call__(self, batch: PackedBatch) -> torch.Tensor:
        """Give the last layer's states, (tokens, width) float32."""
        states = functional.embedding(batch.token_ids, self._words)
        states += functional.embedding(batch.places, self._places)
        states = self._normalise(states)
        for layer in self._layers:
            states = layer(states, batch)
        return states


class _Layer:
    def __init__(
        self, layer: BertLayer, *, heads: int, by_bounds: bool, dtype: torch.dtype, device: str
    ) -> None:
        attention: Any = layer.attention
        activation = layer.intermediate.intermediate_act_fn
        exact_gelu = _is_exact_gelu(activation)
        self._heads = heads
        self._by_bounds = by_bounds
        self._dtype = dtype
        own = attention.self
        self._mix = Product([own.query, own.key, own.value], dtype=dtype, device=device)
        self._attended = Product([attention.output.dense], dtype=dtype, device=device)
        self._normalise_attended = attention.output.LayerNorm
        self._widen = Product([layer.intermediate.dense], dtype=dtype, device=device, gelu=exact_gelu)
        self._activate = None if exact_gelu else activation
        self._narrow = Product([layer.output.dense], dtype=dtype, device=device)
        self._normalise = layer.output.LayerNorm

    def __call__(self, states: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """`states`: (tokens, width) float32, which is used up; so is the result."""
        mixed = self._mix(states.to(self._dtype))
        states += self._attended(attend(mixed, self._heads, batch, by_bounds=self._by_bounds))
        states = self._normalise_attended(states)
        wide = self._widen(states.to(self._dtype))
        if self._activate is not None:
            wide = self._activate(wide)
        states += self._narrow(wide)
        normalised: torch.Tensor = self._normalise(states)
        return normalised


def _is_exact_gelu(activation: object) -> bool:
    """Whether the rows' product may go through GELU in the same step; other activations run after it."""
    return isinstance(activation, GELUActivation) and activation.act is functional.gelu


def _is_linear_place(name: str) -> bool:
    return name.startswith("encoder.layer.") and name.endswith(("dense", "query", "key", "value"))
