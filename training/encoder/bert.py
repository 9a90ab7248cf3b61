"""BERT's layers on packed texts."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from nearsay.training.encoder.hardware import Processor
from nearsay.training.encoder.packed_window import Blocks, PackedBatch
from nearsay.training.encoder.plain_encoder import (
    LinearWeights,
    NormWeights,
    PlainTransformer,
    relative_bias,
)

if TYPE_CHECKING:
    from transformers import BertModel
    from transformers.models.bert.modeling_bert import BertLayer

Attention: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

_LEAST_GPU = 8, 0  # compute capability that the kernel for texts of any lengths is built for: Ampere
_HEAD_WIDTHS = 8  # it takes multiples of this


def attention(
    batch: PackedBatch,
    heads: int,
    *,
    by_bounds: bool = False,
    bias: Callable[[int], torch.Tensor] | None = None,
) -> Attention:
    """Return the function that lets each text's tokens attend to one another.

    It takes (rows, 3 * width) queries, keys and values side by side and gives (rows, width); rows after the
    batch's tokens stay without meaning.

    by_bounds: what `takes_bounds` says
    bias:      what is added to the scores of texts of so many tokens, (heads, tokens, tokens); such a batch
               has no blocks, and `by_bounds` is False

    Vaswani et al. 2017, section 3.2, https://arxiv.org/abs/1706.03762
    """
    if batch.blocks is not None:
        return partial(attend_by_blocks, heads=heads, blocks=batch.blocks)
    if by_bounds and len(batch.groups) > 1:
        return partial(attend_by_bounds, heads=heads, batch=batch)
    return partial(attend_by_groups, heads=heads, batch=batch, bias=bias)


def takes_bounds(device: str, dtype: torch.dtype, head_width: int) -> bool:
    """Whether the device has a kernel for texts of any lengths, so that `attend_by_bounds` runs."""
    return (
        torch.device(device).type == "cuda"
        and dtype in {torch.bfloat16, torch.float16}
        and head_width % _HEAD_WIDTHS == 0
        and find_spec("torch.nn.attention.varlen") is not None
        and torch.cuda.get_device_capability(device) >= _LEAST_GPU
    )


def takes_blocks(device: str, dtype: torch.dtype) -> bool:
    """Whether texts come quickest in `Blocks`: where AMX multiplies.

    A text's sums depend on its place in a block. Without AMX they do not depend on the texts beside it, which
    is worth more than the few percent that blocks would save there.
    """
    on_cpu = torch.device(device).type == "cpu"
    return on_cpu and dtype == torch.bfloat16 and Processor.detect().amx_bf16


def attend_by_groups(
    mixed: torch.Tensor, heads: int, batch: PackedBatch, bias: Callable[[int], torch.Tensor] | None = None
) -> torch.Tensor:
    """As `attention` says, on any device: the texts of one length at a time."""
    width = mixed.shape[1] // 3
    result = mixed.new_zeros(len(mixed), width)
    for group in batch.groups:
        shape = (group.texts, group.tokens, 3, heads, width // heads)
        query, key, value = mixed[group.rows].view(shape).permute(2, 0, 3, 1, 4)
        added = None if bias is None else bias(group.tokens).to(mixed.dtype)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=added)
        result[group.rows].view(group.texts, group.tokens, heads, -1).copy_(attended.transpose(1, 2))
    return result


def attend_by_bounds(mixed: torch.Tensor, heads: int, batch: PackedBatch) -> torch.Tensor:
    """As `attention` says, in one kernel for texts of any lengths, where `takes_bounds` says so.

    https://docs.pytorch.org/docs/stable/nn.attention.varlen.html
    """
    from torch.nn.attention import varlen

    query, key, value = mixed.view(len(mixed), 3, heads, -1).unbind(1)
    attended = varlen.varlen_attn(query, key, value, batch.bounds, batch.bounds, batch.longest, batch.longest)
    attended = attended[0] if isinstance(attended, tuple) else attended
    return attended.reshape(len(mixed), -1)


def attend_by_blocks(mixed: torch.Tensor, heads: int, blocks: Blocks) -> torch.Tensor:
    """As `attention` says, several texts in a block of which each sees itself alone."""
    width = mixed.shape[1] // 3
    query, key, value = mixed.view(-1, blocks.size, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=blocks.mask)
    return attended.transpose(1, 2).reshape(-1, width)


# torch's own compiler makes use of these; a torch without them multiplies by plain weights.
_REORDER: Callable[..., torch.Tensor] | None = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)
_MULTIPLY: Callable[..., torch.Tensor] | None = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_TAKES_BFLOAT16: Callable[[], bool] | None = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
_TYPICAL_ROWS = 2048  # the number of rows that the weight's order in memory is chosen for


class LinearLayer(Protocol):
    """torch.nn.Linear, or its two tensors alone."""

    @property
    def weight(self) -> torch.Tensor:
        """(outputs, inputs)."""

    @property
    def bias(self) -> torch.Tensor:
        """(outputs,)."""


class Product:
    """rows (tokens, inputs) -> rows @ weight.T + bias, (tokens, outputs), optionally through GELU."""

    def __init__(
        self, layers: Sequence[LinearLayer], *, dtype: torch.dtype, device: str, gelu: bool = False
    ) -> None:
        """Take copies of layers that read the same rows; their outputs come side by side.

        dtype: the format of the weights, of the rows given and of the result
        gelu:  whether the exact GELU of the result is given (Hendrycks & Gimpel 2016,
               https://arxiv.org/abs/1606.08415)
        """
        weight = torch.cat([layer.weight.detach() for layer in layers]).to(device, dtype).contiguous()
        self._bias = torch.cat([layer.bias.detach() for layer in layers]).to(device, dtype)
        self._gelu = gelu
        # oneDNN keeps such a weight in blocks as its kernels read it; F.linear would reorder it every time.
        self._multiply = _MULTIPLY if torch.device(device).type == "cpu" and _has_blocks(dtype) else None
        self._weight = _REORDER(weight, _TYPICAL_ROWS) if self._multiply and _REORDER else weight

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Multiply; nothing of `rows` is changed."""
        if self._multiply:
            after, kind = ("gelu", "none") if self._gelu else ("none", "")
            return self._multiply(rows, self._weight, self._bias, after, [], kind)
        result = functional.linear(rows, self._weight, self._bias)
        return functional.gelu(result) if self._gelu else result


def _has_blocks(dtype: torch.dtype) -> bool:
    """Whether this torch has the operators, and the processor is one that they were measured on.

    For 16-bit numbers they raise on a processor without AVX512, where F.linear works all the same; oneDNN can
    be told to make no use of AVX512 (ONEDNN_MAX_CPU_ISA), so it is asked as well.
    """
    built = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch does not annotate it
    if not built or _REORDER is None or _MULTIPLY is None:
        return False
    processor = Processor.detect()
    if dtype == torch.float32:
        return processor.avx2
    return dtype == torch.bfloat16 and processor.avx512 and bool(_TAKES_BFLOAT16 and _TAKES_BFLOAT16())


# The CPU's kernels are recreated for every number of rows that they meet, in milliseconds each.
_ROWS = 64  # larger batches are filled up to a multiple of this
_MANY_ROWS = 512
_OnStates: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class _LayerParts:
    """What a layer is made of, whoever read it."""

    mix: list[LinearLayer]  # queries, keys, values
    attended: LinearLayer
    attended_norm: _OnStates
    up: LinearLayer
    activation: _OnStates | None  # None: the exact GELU
    down: LinearLayer
    norm: _OnStates


class PackedBert:
    """An encoder of BERT's family that runs over texts without padding.

    Devlin et al. 2019, section 3, https://arxiv.org/abs/1810.04805. The sums between the layers and their
    normalising are float32 in every precision: narrow sums would cost the vectors' least cosine.
    """

    def __init__(self, model: "BertModel | PlainTransformer", *, dtype: torch.dtype, device: str) -> None:
        """`dtype`: the products' format; the layers' weights are copied from what `runs` must accept."""
        self._padding: int | None = None  # a token that takes no position; the first comes after its number
        self._project: Product | None = None
        self._distances: NDArray[np.float32] | None = None
        self._longest_bias = torch.empty(0, 0, 0)
        if isinstance(model, PlainTransformer):
            self._padding, self._distances = model.padding, model.distances
            if model.project is not None:
                self._project = Product([_linear(model.project)], dtype=torch.float32, device=device)
            self._words = torch.from_numpy(model.words).to(device)
            self._places = torch.from_numpy(model.positions).to(device)
            self._normalise = _norm(model.norm, device)
            self.width, heads, layers = model.width, model.heads, _read_layers(model, device)
        else:
            embeddings: Any = model.embeddings
            self._words = embeddings.word_embeddings.weight.detach()
            # Every token is of the first segment.
            self._places = (
                embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
            ).detach()
            self._normalise = embeddings.LayerNorm
            self.width, heads = model.config.hidden_size, model.config.num_attention_heads
            layers = map(_parts_of, cast("Iterable[BertLayer]", model.encoder.layer))
        self._heads = heads
        biased = self._distances is not None
        self._by_bounds = takes_bounds(device, dtype, self.width // heads) and not biased
        self.by_blocks = takes_blocks(device, dtype) and not biased  # whether batches should come in blocks
        self._layers = [_Layer(layer, dtype=dtype, device=device) for layer in layers]

    @staticmethod
    def runs(model: object) -> bool:
        """Whether its files were read, or it is a BERT as transformers has it, its layers unchanged."""
        if isinstance(model, PlainTransformer):
            return True
        if not isinstance(model, torch.nn.Module):
            return False
        from transformers import BertModel

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
        """Return the last layer's states, (tokens, width) float32."""
        token_ids, places = batch.token_ids, self._positions(batch)
        if batch.blocks is not None:
            token_ids, places = token_ids[batch.blocks.rows], places[batch.blocks.rows]
        elif (more := -len(token_ids) % _ROWS) and len(token_ids) >= _MANY_ROWS and not token_ids.is_cuda:
            token_ids, places = (functional.pad(part, (0, more)) for part in (token_ids, places))
        states = functional.embedding(token_ids, self._words)
        states += functional.embedding(places, self._places)
        states = self._normalise(states)
        if self._project is not None:
            states = self._project(states)
        bias = None if self._distances is None else self._bias
        attend = attention(batch, self._heads, by_bounds=self._by_bounds, bias=bias)
        for layer in self._layers:
            states = layer(states, attend)
        return states[: len(batch.token_ids)] if batch.blocks is None else states[batch.blocks.places]

    def _positions(self, batch: PackedBatch) -> torch.Tensor:
        if self._padding is None:
            return batch.places
        places = torch.empty_like(batch.places)
        for group in batch.groups:
            real = batch.token_ids[group.rows].view(group.texts, group.tokens) != self._padding
            places[group.rows] = (real.cumsum(1) * real + self._padding).flatten().to(places.dtype)
        return places

    def _bias(self, tokens: int) -> torch.Tensor:
        """MPNet's addition to the scores, by distances: that of the longest text holds all others."""
        longest = self._longest_bias
        if longest.shape[1] < tokens and self._distances is not None:
            longest = torch.from_numpy(relative_bias(self._distances, tokens)).to(self._words.device)
            self._longest_bias = longest
        return longest[:, :tokens, :tokens]


class _Layer:
    def __init__(self, parts: _LayerParts, *, dtype: torch.dtype, device: str) -> None:
        self._dtype = dtype
        self._mix = Product(parts.mix, dtype=dtype, device=device)
        self._attended = Product([parts.attended], dtype=dtype, device=device)
        self._normalise_attended = parts.attended_norm
        self._widen = Product([parts.up], dtype=dtype, device=device, gelu=parts.activation is None)
        self._activate = parts.activation
        self._narrow = Product([parts.down], dtype=dtype, device=device)
        self._normalise = parts.norm

    def __call__(self, states: torch.Tensor, attend: Attention) -> torch.Tensor:
        """`states`: (tokens, width) float32, which is used up; so is the result."""
        mixed = self._mix(states.to(self._dtype))
        states += self._attended(attend(mixed))
        states = self._normalise_attended(states)
        wide = self._widen(states.to(self._dtype))
        if self._activate is not None:
            wide = self._activate(wide)
        states += self._narrow(wide)
        normalised: torch.Tensor = self._normalise(states)
        return normalised


def _parts_of(layer: "BertLayer") -> _LayerParts:
    from transformers.activations import GELUActivation

    attention: Any = layer.attention
    activation = layer.intermediate.intermediate_act_fn
    # It may go into the same step as the product; other activations run after it.
    exact_gelu = isinstance(activation, GELUActivation) and activation.act is functional.gelu
    return _LayerParts(
        mix=[attention.self.query, attention.self.key, attention.self.value],
        attended=attention.output.dense,
        attended_norm=attention.output.LayerNorm,
        up=layer.intermediate.dense,
        activation=None if exact_gelu else activation,
        down=layer.output.dense,
        norm=layer.output.LayerNorm,
    )


@dataclass(frozen=True, slots=True)
class _Tensors:
    """A linear layer's tensors."""

    weight: torch.Tensor
    bias: torch.Tensor


def _read_layers(plain: PlainTransformer, device: str) -> Iterator[_LayerParts]:
    activations: dict[str, _OnStates | None] = {
        "gelu": None,
        "gelu_new": _gelu_by_tanh,
        "gelu_pytorch_tanh": lambda states: functional.gelu(states, approximate="tanh"),
        "relu": functional.relu,
    }
    for layer in plain.layers():
        yield _LayerParts(
            mix=[_linear(part) for part in (layer.query, layer.key, layer.value)],
            attended=_linear(layer.attended),
            attended_norm=_norm(layer.attended_norm, device),
            up=_linear(layer.up),
            activation=activations[plain.activation],
            down=_linear(layer.down),
            norm=_norm(layer.norm, device),
        )


def _gelu_by_tanh(states: torch.Tensor) -> torch.Tensor:
    """Hendrycks & Gimpel 2016, step by step as transformers rounds it; in one step half precision differs."""
    inner = math.sqrt(2 / math.pi) * (states + 0.044715 * torch.pow(states, 3.0))
    return 0.5 * states * (1.0 + torch.tanh(inner))


def _linear(plain: LinearWeights) -> _Tensors:
    if plain.bias is None:
        raise ValueError("a linear layer of BERT has no bias")
    return _Tensors(torch.from_numpy(plain.weight.read()), torch.from_numpy(plain.bias.read()))


def _norm(plain: NormWeights, device: str) -> _OnStates:
    weight, bias = (torch.from_numpy(part.read()).to(device) for part in (plain.weight, plain.bias))
    return lambda states: functional.layer_norm(states, weight.shape, weight, bias, plain.epsilon)


def _is_linear_place(name: str) -> bool:
    return name.startswith("encoder.layer.") and name.endswith(("dense", "query", "key", "value"))
