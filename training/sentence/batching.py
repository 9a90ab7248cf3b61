"""Which texts go through the model together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.training.encoder.memory import inference_tokens

if TYPE_CHECKING:
    from torch import nn

_BATCH_TOKENS = {"cpu": 2048}  # more is slower there: the activations leave the cache
_BATCH_TEXTS = 512
# A GPU's matrix units take widths in eights, and few different widths reuse its memory and its plans.
# https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/
_MULTIPLE = {"cpu": 1}
_GPU_MULTIPLE = 8


def token_batches(
    lengths: Sequence[int] | NDArray[np.int64], *, token_budget: int, max_texts: int
) -> list[NDArray[np.int64]]:
    """Batch texts of similar length, to minimise padding.

    lengths:      (texts,) tokens of each text
    token_budget: maximum padded tokens of a batch (its longest text times its number of texts); a longer text
                  is a batch of its own
    max_texts:    maximum texts of a batch
    returns:      arrays of indices into `lengths`, longest texts first, every index exactly once
    """
    if token_budget < 1 or max_texts < 1:
        raise ValueError(f"token_budget {token_budget} and max_texts {max_texts} must be at least 1")
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = max(int(sizes[order[start]]), 1)
        count = min(max(token_budget // longest, 1), max_texts)
        batches.append(order[start : start + count])
        start += count
    return batches


def padded_widths(
    lengths: Sequence[int] | NDArray[np.int64], device: str, *, longest: int
) -> NDArray[np.int64]:
    """The number of tokens to which texts are padded if each is the longest of its batch.

    lengths: (texts,) tokens of each text
    device:  its kind: "cpu", "cuda", "mps"
    longest: tokens that the model has positions for; longer texts are unchanged
    returns: (texts,) at least the lengths
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    multiple = _MULTIPLE.get(device, _GPU_MULTIPLE)
    return np.maximum(np.minimum(-(-sizes // multiple) * multiple, longest), sizes)


def inference_batches(
    lengths: Sequence[int], device: str, model: "nn.Module | None" = None
) -> list[NDArray[np.int64]]:
    """Batch texts as `token_batches` does, with the batch size that suits a device for inference.

    device: "cpu", "cuda", "cuda:1", "mps"
    model:  the model; None: one as wide as a large BERT
    """
    budget = _BATCH_TOKENS.get(device.partition(":")[0]) or inference_tokens(device, model)
    return token_batches(lengths, token_budget=budget, max_texts=_BATCH_TEXTS)


def distinct(texts: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct texts in order of appearance, and the index of each given text among them.

    returns: (distinct texts, (texts,) positions): `distinct[positions[i]] == texts[i]`
    """
    place: dict[str, int] = {}
    positions = np.fromiter(
        (place.setdefault(text, len(place)) for text in texts), dtype=np.int64, count=len(texts)
    )
    return list(place), positions
