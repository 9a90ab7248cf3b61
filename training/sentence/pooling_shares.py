"""From the vectors of a text's tokens to what each of them adds to the text's vector.

A mean is linear, so a mean-pooled vector is a sum over tokens; so are a static table's. Linear layers after
the pooling keep it a sum, and normalisations only divide all of it by one number. Two steps that are not
linear are shared out by a rule that keeps the sum whole: a maximum goes to the token that gave it, dimension
by dimension, and an activation scales its input's parts alike (the rescale rule of DeepLIFT, Shrikumar et al.
2017, section 3.5.1, https://arxiv.org/abs/1704.02685). A vector that is one token's alone, as [CLS] pooling
gives, has no such parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from nearsay.training.encoder.plain_encoder import DenseStep, PlainEncoder

if TYPE_CHECKING:  # a question is explained without torch
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling

_POOLED = "sentence_embedding"
_LEAST = 1e-12  # what sentence-transformers divides a vector by at least

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shares:
    """A text's vector, or an intermediate stage of it, split into contributions."""

    tokens: Array  # (tokens, width)
    constant: Array  # (width,), what no token contributes

    @property
    def total(self) -> Array:
        """The sum of the contributions (width,)."""
        total: Array = self.tokens.sum(axis=0) + self.constant
        return total

    def scaled(self, by: "Array | float") -> "Shares":
        """All contributions multiplied by a number, or by (width,) numbers."""
        return Shares(self.tokens * by, self.constant * by)


_Step: TypeAlias = Callable[[Shares], Shares]
_Pool: TypeAlias = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True, slots=True)
class PoolingShares:
    """The last steps of a model, from its tokens' states to a text's vector, as contributions."""

    exact: bool  # whether all steps are linear up to factors common to all tokens
    include_prompt: bool  # whether the prompt's tokens are pooled too
    _pools: tuple[_Pool, ...]
    _steps: tuple[_Step, ...]
    _dimension: int | None  # of the vector that is kept

    def shares(self, token_vectors: Array, *, prompt_length: int = 0) -> Shares:
        """The contribution of each token of one text to its vector.

        token_vectors: (tokens, width), last hidden states without padding; at least one token
        prompt_length: number of leading tokens that are the prompt
        """
        places = np.arange(1, len(token_vectors) + 1, dtype=np.float64)
        pooled = np.ones(len(token_vectors))
        if not self.include_prompt:
            pooled[:prompt_length] = 0.0
        parts = [pool(token_vectors, pooled, places) for pool in self._pools]
        tokens = np.concatenate(parts, axis=1)
        shares = Shares(tokens, np.zeros(tokens.shape[1]))
        for step in self._steps:
            shares = step(shares)
        return Shares(shares.tokens[:, : self._dimension], shares.constant[: self._dimension])


def shares_of_plain(plain: PlainEncoder) -> PoolingShares | None:
    """Return an encoder's last steps in parts, or None when its vectors are no sum over tokens."""
    if not set(plain.modes) <= _POOLS.keys():
        return None
    exact = "max" not in plain.modes and not any(step is not None and step.tanh for step in plain.steps)
    steps = tuple(_normalised if step is None else _dense(step) for step in plain.steps)
    pools = tuple(_POOLS[mode] for mode in plain.modes)
    return PoolingShares(exact, plain.include_prompt, pools, steps, plain.truncate)


def pooling_shares(model: "SentenceTransformer") -> PoolingShares | None:
    """Return the model's last steps in parts, or None when its vectors are no sum over tokens."""
    from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding

    modules = list(model)
    if isinstance(modules[0], StaticEmbedding):
        pools: list[_Pool] = [_mean]
        further, exact, include_prompt = modules[1:], True, True
    else:
        place = next((i for i, module in enumerate(modules) if isinstance(module, Pooling)), None)
        if place is None:
            return None
        pooling = cast("Pooling", modules[place])
        modes = [pooling.pooling_mode] if isinstance(pooling.pooling_mode, str) else [*pooling.pooling_mode]
        if not set(modes) <= _POOLS.keys():
            return None
        further, pools = modules[place + 1 :], [_POOLS[mode] for mode in modes]
        exact, include_prompt = "max" not in modes, bool(pooling.include_prompt)
    steps: list[_Step] = []
    for module in further:
        known = _step(module)
        if known is None:
            return None
        linear, step = known
        exact = exact and linear
        steps.append(step)
    return PoolingShares(exact, include_prompt, tuple(pools), tuple(steps), model.truncate_dim)


# Pooling: tokens' vectors (tokens, width); 1 or 0 for each that is pooled or not; the tokens' places from 1.


def _mean(vectors: Array, pooled: Array, _places: Array) -> Array:
    return _weighted(vectors, pooled / max(pooled.sum(), 1e-9))


def _mean_by_root_length(vectors: Array, pooled: Array, _places: Array) -> Array:
    return _weighted(vectors, pooled / np.sqrt(max(pooled.sum(), 1e-9)))


def _mean_by_place(vectors: Array, pooled: Array, places: Array) -> Array:
    weights = pooled * places
    return _weighted(vectors, weights / max(weights.sum(), 1e-9))


def _weighted(vectors: Array, weights: Array) -> Array:
    weighted: Array = vectors * weights[:, None]
    return weighted


def _maximum(vectors: Array, pooled: Array, _places: Array) -> Array:
    """Each dimension's maximum, given to the token that has it."""
    if not len(vectors):
        return vectors
    winners = np.where(pooled[:, None] > 0, vectors, -np.inf).argmax(axis=0)
    return np.where(np.arange(len(vectors))[:, None] == winners, vectors, 0.0)


_POOLS: dict[str, _Pool] = {
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_by_root_length,
    "weightedmean": _mean_by_place,
    "max": _maximum,
}


# After the pooling


def _step(module: "torch.nn.Module") -> tuple[bool, _Step] | None:
    """Whether a module is linear (but for a common factor), and what it does; None for an unknown one."""
    import torch
    from sentence_transformers.base.modules import Dense, Normalize
    from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm

    ends = (getattr(module, "module_input_name", _POOLED), getattr(module, "module_output_name", _POOLED))
    if ends != (_POOLED, _POOLED):
        return None
    if isinstance(module, Normalize):
        return True, _normalised
    if isinstance(module, Dropout):  # of the training alone
        return True, lambda shares: shares
    if isinstance(module, LayerNorm):
        return True, lambda shares: _layer_normalised(shares, module.norm)
    if isinstance(module, Dense):
        linear = isinstance(module.activation_function, torch.nn.Identity)
        return linear, lambda shares: _through_dense(shares, module)
    return None


def _normalised(shares: Shares) -> Shares:
    return shares.scaled(1 / max(float(np.linalg.norm(shares.total)), _LEAST))


def _layer_normalised(shares: Shares, norm: "torch.nn.LayerNorm") -> Shares:
    factor = 1 / np.sqrt(shares.total.var() + norm.eps)
    centred = Shares(
        shares.tokens - shares.tokens.mean(axis=1, keepdims=True), shares.constant - shares.constant.mean()
    )
    weighted = centred.scaled(factor * _array(norm.weight))
    return Shares(weighted.tokens, weighted.constant + _array(norm.bias))


def _through_dense(shares: Shares, dense: "Dense") -> Shares:
    bias = _array(dense.linear.bias) if dense.linear.bias is not None else 0.0
    outcome = _through_linear(shares, dense.linear)
    activation = _on_array(dense.activation_function)
    outcome = _activated(Shares(outcome.tokens, outcome.constant + bias), activation)
    if not dense.use_residual:
        return outcome
    beside = shares if dense.in_features == dense.out_features else _through_linear(shares, dense.residual)
    return Shares(outcome.tokens + beside.tokens, outcome.constant + beside.constant)


def _through_linear(shares: Shares, linear: "torch.nn.Linear") -> Shares:
    turned = _array(linear.weight).T
    return Shares(shares.tokens @ turned, shares.constant @ turned)


def _activated(shares: Shares, activation: Callable[[Array], Array]) -> Shares:
    """Scale all parts by what the activation did to their sum; what it makes of zero is no token's."""
    total = shares.total
    outcome, of_nothing = activation(total), activation(np.zeros(len(total)))
    told = np.abs(total) > 1e-9
    scaled = shares.scaled(np.divide(outcome - of_nothing, total, out=np.zeros_like(total), where=told))
    return Shares(scaled.tokens, scaled.constant + np.where(told, of_nothing, outcome))


def _on_array(activation: "Callable[[torch.Tensor], torch.Tensor]") -> Callable[[Array], Array]:
    import torch

    return lambda values: _array(activation(torch.from_numpy(values).float()))


def _dense(step: DenseStep) -> _Step:
    weight = step.weight.T.astype(np.float64)
    bias = 0.0 if step.bias is None else step.bias

    def through(shares: Shares) -> Shares:
        outcome = Shares(shares.tokens @ weight, shares.constant @ weight + bias)
        return _activated(outcome, np.tanh) if step.tanh else outcome

    return through


def _array(tensor: "torch.Tensor") -> Array:
    array: Array = tensor.detach().double().cpu().numpy()
    return array
