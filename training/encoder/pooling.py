"""From token states to one vector a text, on packed texts."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from nearsay.training.encoder.packed_window import PackedBatch

__all__ = ["Pooling", "PoolingOfModes", "pool"]


class Pooling(Protocol):
    """sentence-transformers' module, or `PoolingOfModes`."""

    include_prompt: bool
    pooling_mode: Any

    @property
    def pooling_output_dimension(self) -> int:
        """Dimensions of a pooled vector."""

    def __call__(self, features: dict[str, Any], /) -> dict[str, Any]:
        """Put the vectors of `token_embeddings` in as `sentence_embedding`."""


class PoolingOfModes:
    """Pools texts of one length, which hold no padding, without sentence-transformers."""

    def __init__(self, modes: Sequence[str], *, width: int, include_prompt: bool) -> None:
        """`modes`: cls, max, mean, mean_sqrt_len_tokens, whose vectors stand side by side."""
        self.include_prompt = include_prompt
        self.pooling_mode = modes[0] if len(modes) == 1 else tuple(modes)
        self.pooling_output_dimension = width * len(modes)
        self._modes = tuple(modes)

    def __call__(self, features: dict[str, Any], /) -> dict[str, Any]:
        """Take (texts, tokens, width); without its prompt a text may be empty, and gives zeros."""
        texts: torch.Tensor = features["token_embeddings"]
        rest = texts[:, features["prompt_length"] :]
        parts = [_pooled(mode, texts, rest) for mode in self._modes]
        return {**features, "sentence_embedding": torch.cat(parts, dim=1)}


def _pooled(mode: str, texts: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    if mode == "cls":
        return texts[:, 0]
    if mode == "max" and rest.shape[1]:
        return rest.amax(dim=1)
    total = rest.sum(dim=1)
    return total / (max(rest.shape[1], 1) if mode == "mean" else math.sqrt(max(rest.shape[1], 1)))


def pool(states: torch.Tensor, batch: PackedBatch, pooling: Pooling, prompt_length: int) -> torch.Tensor:
    """Give the batch's vectors, (texts, dimension), as the encoder's pooling does on padded texts.

    states:        (tokens, width), the last layer's
    prompt_length: first tokens of every text that are its prompt, for a pooling that leaves them out
    """
    vectors = states.new_empty(batch.texts, pooling.pooling_output_dimension)
    prompt = 0 if pooling.include_prompt else prompt_length
    first = 0
    for group in batch.groups:
        texts = states[group.rows].view(group.texts, group.tokens, -1)
        place = slice(first, first + group.texts)
        if pooling.pooling_mode == "mean" and group.tokens > prompt:
            vectors[place] = texts[:, prompt:].mean(dim=1)
        else:
            vectors[place] = _pooled_by_module(texts, pooling, prompt)
        first = place.stop
    return vectors


def _pooled_by_module(texts: torch.Tensor, pooling: Pooling, prompt: int) -> torch.Tensor:
    """`texts`: (texts, tokens, width), none of it padding."""
    mask = torch.ones(texts.shape[:2], dtype=torch.int64, device=texts.device)
    features = {"token_embeddings": texts, "attention_mask": mask, "prompt_length": prompt}
    vectors: torch.Tensor = pooling(features)["sentence_embedding"]
    return vectors
