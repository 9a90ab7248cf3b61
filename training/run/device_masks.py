"""Attention masks of a GPU that nobody waits for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

_ATTENTION = "sdpa"


@contextmanager
def masks_without_waiting() -> Iterator[None]:
    """Let transformers make every mask that it is given, until the block ends.

    It leaves out a mask that hides nothing, so that a quicker kernel can run; to know, it reads the mask, and
    the host waits until the GPU has done all that it was given, in every forward pass. A training knows on
    the CPU which batches are not padded, and gives those no mask.
    """
    usual = ALL_MASK_ATTENTION_FUNCTIONS[_ATTENTION]

    def made(*parts: Any, **settings: Any) -> Tensor | None:  # noqa: ANN401 - whatever transformers gives
        if settings.get("attention_mask") is not None:
            settings |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        mask: Tensor | None = usual(*parts, **settings)
        return mask

    ALL_MASK_ATTENTION_FUNCTIONS[_ATTENTION] = made
    try:
        yield
    finally:
        ALL_MASK_ATTENTION_FUNCTIONS[_ATTENTION] = usual
