"""Dropout that does not hold up a CPU.

torch draws one Bernoulli number after another there: 8 ns each, a seventh of a small BERT's training step.
Here 16 random bits decide on an element, from numpy's SFC64, which gives four such decisions in 2 ns. The
rate is rounded to a 65,536th, and what is kept is scaled by the rounded rate, so that the mean stays exact.

Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

_STEPS = 1 << 16
_ATTENTION = "nearsay_cpu_dropout"
# Kinds of model (`config.model_type`) whose attention is softmax(q k^T * scaling + mask) v and nothing else;
# a test compares each with transformers' own. Others add a position bias to the scores (T5), share keys
# between heads (Qwen3, Gemma3) or cap scores, and keep transformers' attention, with torch's dropout in it.
_PLAIN_ATTENTION = frozenset(
    {
        "albert",
        "bert",
        "camembert",
        "distilbert",
        "electra",
        "ernie",
        "modernbert",
        "nomic_bert",
        "roberta",
        "xlm-roberta",
    }
)


class CpuDropout:
    """A stream of random decisions; the same seed gives the same ones."""

    def __init__(self) -> None:
        self._generator = np.random.Generator(np.random.SFC64(0))

    def seed(self, *numbers: int) -> None:
        """Begin a new stream."""
        self._generator = np.random.Generator(np.random.SFC64(list(numbers)))

    def replaying(self) -> AbstractContextManager[None]:
        """Return a block in which the decisions that follow now are made again; what comes after goes on."""
        return self._from(self._generator.bit_generator.state)

    @contextmanager
    def _from(self, state: Mapping[str, Any]) -> Iterator[None]:
        now = self._generator.bit_generator.state
        self._generator.bit_generator.state = state
        try:
            yield
        finally:
            self._generator.bit_generator.state = now

    def __call__(self, values: Tensor, rate: float) -> Tensor:
        """Return `values` with a share of `rate` set to 0 and the rest scaled so that the mean stays."""
        dropped = round(rate * _STEPS)
        if not dropped:
            return values
        count = values.numel()
        words = self._generator.integers(0, 2**64 - 1, -(-count // 4), dtype=np.uint64, endpoint=True)
        bits = torch.from_numpy(words.view(np.int16)[:count]).view(values.shape)
        kept = (bits >= dropped - _STEPS // 2).to(values.dtype)
        scale = _STEPS / (_STEPS - dropped) if dropped < _STEPS else 0.0
        if values.dtype is torch.float32:
            return values * kept.mul_(scale)
        return values * kept * scale  # a narrow mask would round the scale, and move the mean


class _Dropout(nn.Module):
    """Takes the place of `nn.Dropout`."""

    def __init__(self, decisions: CpuDropout, p: float) -> None:
        super().__init__()
        self.decisions = decisions
        self.p = p  # read by the attention layers

    def forward(self, values: Tensor) -> Tensor:
        return self.decisions(values, self.p) if self.training else values


def cpu_dropout_of(model: nn.Module) -> CpuDropout | None:
    """The stream that the model's dropout draws from inside `cpu_dropout`; None where it is torch's."""
    return next((module.decisions for module in model.modules() if isinstance(module, _Dropout)), None)


@contextmanager
def cpu_dropout(model: nn.Module) -> Iterator[CpuDropout]:
    """Let the model's dropout draw from the stream that is given, until the block ends.

    Dropout inside attention draws from it too where the attention is a BERT's; other kinds of attention keep
    transformers' own, whose dropout comes from torch's generator.
    """
    decisions = CpuDropout()
    switch = f"{_ATTENTION}_{id(decisions)}"  # of this block alone: another may run inside it
    places = [
        (module, name, child)
        for module in model.modules()
        for name, child in module.named_children()
        if isinstance(child, nn.Dropout)
    ]
    configs = {id(config): config for module in model.modules() if (config := _attention_config(module))}
    before = {key: config._attn_implementation for key, config in configs.items()}  # noqa: SLF001

    def attention(
        _: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float = 1.0,
        **__: Any,  # noqa: ANN401 - such as a sliding window, which the mask already holds
    ) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(query * scaling, key.transpose(2, 3))
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = decisions(torch.softmax(scores, dim=-1), dropout)
        return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights

    ALL_ATTENTION_FUNCTIONS.register(switch, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(switch, eager_mask)
    replaced = [_Dropout(decisions, child.p).train(child.training) for _, _, child in places]
    try:
        for (module, name, _), dropout in zip(places, replaced, strict=True):
            setattr(module, name, dropout)
        for config in configs.values():
            config._attn_implementation = switch  # noqa: SLF001 - transformers' own switch has no setter
        yield decisions
    finally:
        for (module, name, child), dropout in zip(places, replaced, strict=True):
            setattr(module, name, child.train(dropout.training))  # the mode may have been changed
        for key, config in configs.items():
            config._attn_implementation = before[key]  # noqa: SLF001
        for registry in (ALL_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS):
            registry._global_mapping.pop(switch)  # noqa: SLF001 - there is `register`, but no way back


def _attention_config(module: nn.Module) -> Any:  # noqa: ANN401 - a transformers configuration
    """The module's configuration when its attention may be replaced, else None."""
    config = getattr(module, "config", None)
    return config if getattr(config, "model_type", None) in _PLAIN_ATTENTION else None
