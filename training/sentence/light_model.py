"""A pooled encoder of BERT's family, or a static one, in numpy: one float32 forward pass for few texts.

torch, transformers and sentence-transformers take seconds to import; a question of fifteen tokens takes
five to seven milliseconds in all.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from nearsay.training.encoder.plain_encoder import (
    Array,
    DenseStep,
    LayerWeights,
    LinearWeights,
    NormWeights,
    PlainEncoder,
    PlainTransformer,
    UnsupportedEncoderError,
    relative_bias,
)

__all__ = ["LightModel", "gelu"]

_BATCH_TOKENS = 512  # more at once is no quicker: the activations leave the cache
_LEAST_LENGTH = 1e-12  # what sentence-transformers' Normalize divides a vector by at least
# OpenBLAS copies both matrices of a product into an order of its own before it multiplies. That takes longer
# than multiplying a dozen tokens, and for products of up to a million multiplications it has kernels that
# read the matrices as they lie: so weights lie in blocks of so many outputs, and take few tokens at a time.
_BLOCK = 32
_SMALL_PRODUCT = 1_000_000

# numpy's BLAS divides every larger product among its threads, which wait for one another: beside one other
# busy program a question took ten times as long. The number of threads is the process's, so calls take turns.
_turn = threading.Lock()


class LightModel:
    """Token numbers in, vectors out, in float32 on one core; threads may share it and take turns."""

    def __init__(self, plain: PlainEncoder) -> None:
        """Read the layers' weights into memory."""
        self._body = _Transformer(plain.transformer) if plain.transformer else _Table(plain.words)
        self._modes = plain.modes
        self._include_prompt = plain.include_prompt
        self._steps = [_step(step) for step in plain.steps]
        self._truncate = plain.truncate
        self._cores = ThreadpoolController().select(user_api="blas")

    def vectors(self, token_ids: Sequence[Sequence[int]], *, prompt_length: int = 0) -> Array:
        """Give the texts' vectors, (texts, dimension).

        token_ids:     of each text, special tokens included; a transformer's have at least one each
        prompt_length: first tokens of every text that are its prompt, for a pooling that leaves them out
        """
        prompt = 0 if self._include_prompt else prompt_length
        pooled = np.stack([_pooled(states, self._modes, prompt) for states in self.token_states(token_ids)])
        for step in self._steps:
            pooled = step(pooled)
        return np.ascontiguousarray(pooled[:, : self._truncate], dtype=np.float32)

    def token_states(self, token_ids: Sequence[Sequence[int]]) -> list[Array]:
        """Give each text's tokens as the pooling gets them, (tokens, width)."""
        states: list[Array] = []
        for batch in _batches(token_ids):
            with _turn, self._cores.limit(limits=1):  # a question waits for a batch of another's, not for all
                states += self._body(batch)
        return states


class _Table:
    """A static encoder's tokens, looked up."""

    def __init__(self, words: Array) -> None:
        self._words = words
        self._blank = int(words.any(axis=1).argmax())  # for a text without tokens: the first that is not zero

    def __call__(self, token_ids: Sequence[Sequence[int]]) -> list[Array]:
        return [self._words[np.asarray(ids or [self._blank])] for ids in token_ids]


class _Transformer:
    """The layers of BERT's family."""

    def __init__(self, plain: PlainTransformer) -> None:
        self._heads = plain.heads
        self._words = plain.words
        self._positions = plain.positions
        self._padding = plain.padding
        self._bias = plain.distances
        self._normalise = _LayerNorm(plain.norm)
        self._project = _Linear(plain.project) if plain.project else None
        activation = _ACTIVATIONS[plain.activation]
        self._layers = [_Layer(layer, activation) for layer in plain.layers()]

    def __call__(self, token_ids: Sequence[Sequence[int]]) -> list[Array]:
        bounds = list(pairwise(accumulate((len(ids) for ids in token_ids), initial=0)))
        states = self._words[np.concatenate([np.asarray(ids) for ids in token_ids])]
        states = states + self._positions[np.concatenate([self._places(ids) for ids in token_ids])]
        states = self._normalise(states)
        if self._project is not None:
            states = self._project(states)
        biases = [
            None if self._bias is None else relative_bias(self._bias, end - start) for start, end in bounds
        ]
        for layer in self._layers:
            states = layer(states, bounds, biases, self._heads)
        return [states[start:end] for start, end in bounds]

    def _places(self, ids: Sequence[int]) -> NDArray[np.int64]:
        if self._padding is None:
            return np.arange(len(ids))
        real = np.asarray(ids) != self._padding
        places: NDArray[np.int64] = np.cumsum(real) * real + self._padding
        return places


class _Linear:
    """inputs @ weight.T + bias, for layers that read the same inputs, side by side."""

    def __init__(self, *layers: LinearWeights) -> None:
        weight = layers[0].weight if len(layers) == 1 else np.concatenate([layer.weight for layer in layers])
        self._outputs, inputs = weight.shape
        if self._outputs % _BLOCK:
            weight = np.pad(weight, ((0, -self._outputs % _BLOCK), (0, 0)))
        # (blocks, inputs, outputs of a block)
        self._blocks = np.ascontiguousarray(weight.reshape(-1, _BLOCK, inputs).transpose(0, 2, 1))
        biases = [np.zeros(len(layer.weight)) if layer.bias is None else layer.bias for layer in layers]
        self._bias = np.concatenate(biases).astype(np.float32)
        self._rows = max(_SMALL_PRODUCT // (inputs * _BLOCK), 1)

    def __call__(self, inputs: Array) -> Array:
        blocks = len(self._blocks)
        outputs = np.empty((len(inputs), blocks * _BLOCK), dtype=np.float32)
        by_block = outputs.reshape(len(inputs), blocks, _BLOCK).transpose(1, 0, 2)
        for start in range(0, len(inputs), self._rows):
            rows = slice(start, start + self._rows)
            np.matmul(inputs[rows], self._blocks, out=by_block[:, rows])
        outputs = outputs[:, : self._outputs]
        outputs += self._bias
        return outputs


class _LayerNorm:
    """Ba et al. 2016, https://arxiv.org/abs/1607.06450."""

    def __init__(self, plain: NormWeights) -> None:
        self._weight = plain.weight
        self._bias = plain.bias
        self._epsilon = np.float32(plain.epsilon)
        self._share = np.float32(1 / len(plain.weight))

    def __call__(self, states: Array) -> Array:
        mean = np.add.reduce(states, axis=1, keepdims=True)
        mean *= self._share
        centred: Array = states - mean
        variance = np.einsum("tw,tw->t", centred, centred)[:, None]
        variance *= self._share
        variance += self._epsilon
        centred /= np.sqrt(variance, out=variance)
        centred *= self._weight
        centred += self._bias
        return centred


class _Layer:
    """One layer of Devlin et al. 2019, section 3, https://arxiv.org/abs/1810.04805."""

    def __init__(self, plain: LayerWeights, activation: Callable[[Array], Array]) -> None:
        self._mix = _Linear(plain.query, plain.key, plain.value)
        self._attended, self._up, self._down = (
            _Linear(linear) for linear in (plain.attended, plain.up, plain.down)
        )
        self._attended_norm = _LayerNorm(plain.attended_norm)
        self._norm = _LayerNorm(plain.norm)
        self._activate = activation

    def __call__(
        self, states: Array, bounds: Sequence[tuple[int, int]], biases: Sequence[Array | None], heads: int
    ) -> Array:
        """states: (tokens, width), the texts one after another; bounds: where each begins and ends."""
        mixed = self._mix(states)
        seen = np.empty((len(states), mixed.shape[1] // 3), dtype=np.float32)
        for (start, end), bias in zip(bounds, biases, strict=True):
            seen[start:end] = _attend(mixed[start:end], heads, bias)
        states = self._attended_norm(self._attended(seen) + states)
        return self._norm(self._down(self._activate(self._up(states))) + states)


def _attend(mixed: Array, heads: int, bias: Array | None) -> Array:
    """Vaswani et al. 2017, section 3.2, https://arxiv.org/abs/1706.03762.

    mixed:   (tokens, 3 * width), one text's queries, keys and values side by side
    returns: (tokens, width)
    """
    tokens, width = len(mixed), mixed.shape[1] // 3
    query, key, value = mixed.reshape(tokens, 3, heads, width // heads).transpose(1, 2, 0, 3)
    scores: Array = query @ key.transpose(0, 2, 1)
    scores *= np.float32(1 / math.sqrt(width // heads))
    if bias is not None:
        scores += bias
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    attended: Array = (scores @ value).transpose(1, 0, 2).reshape(tokens, width)
    return attended


# Activations: arrays that may be used up, and are.


def gelu(values: Array) -> Array:
    """GELU by the error function, within 5e-7 of the exact one times the input.

    Hendrycks & Gimpel 2016, https://arxiv.org/abs/1606.08415; the error function by Abramowitz & Stegun 1964,
    formula 7.1.26, whose error is at most 1.5e-7. scipy has it exactly, and takes longer to import than the
    rest of a question takes. New arrays cost more here than arithmetic.
    """
    size = np.abs(values)
    nearness = size * np.float32(0.3275911 * math.sqrt(0.5))
    nearness += 1
    np.divide(1, nearness, out=nearness)
    series = nearness * np.float32(1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series += np.float32(coefficient)
        series *= nearness
    exponent = np.multiply(values, values, out=nearness)
    exponent *= np.float32(-0.5)
    series *= np.exp(exponent, out=exponent)  # 1 - erf of the absolute value over the root of 2
    series *= size
    size += values
    size -= series
    size *= np.float32(0.5)
    return size


def _tanh_gelu(values: Array) -> Array:
    inner = np.float32(math.sqrt(2 / math.pi)) * (values + np.float32(0.044715) * values**3)
    activated: Array = np.float32(0.5) * values * (1 + np.tanh(inner))
    return activated


def _relu(values: Array) -> Array:
    return np.maximum(values, 0, out=values)


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "gelu": gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": _relu,
}


# After the last layer


def _pooled(states: Array, modes: Sequence[str], prompt: int) -> Array:
    """From one text's token states to its vector; Reimers & Gurevych 2019, section 3."""
    pooled = states[prompt:]
    if not len(pooled):
        raise UnsupportedEncoderError("a text has no tokens beside its prompt")
    parts = {
        "cls": lambda: states[0],
        "max": lambda: pooled.max(axis=0),
        "mean": lambda: pooled.mean(axis=0),
        "mean_sqrt_len_tokens": lambda: pooled.sum(axis=0) / np.float32(math.sqrt(len(pooled))),
    }
    return np.concatenate([parts[mode]() for mode in modes])


def _step(step: DenseStep | None) -> Callable[[Array], Array]:
    if step is None:
        return _unit
    linear = _Linear(step.linear)
    return (lambda vectors: np.tanh(linear(vectors))) if step.tanh else linear


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Array = vectors / np.maximum(lengths, np.float32(_LEAST_LENGTH))
    return unit


def _batches(token_ids: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    batch: list[Sequence[int]] = []
    tokens = 0
    for ids in token_ids:
        if batch and tokens + len(ids) > _BATCH_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(ids)
        tokens += len(ids)
    if batch:
        yield batch
