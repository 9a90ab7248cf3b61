"""The number format that an encoder computes in; its vectors are float32 in every case."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import torch

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.processor import Processor

__all__ = ["Precision", "computing_in", "narrow_linear_weights", "product_format", "resolve_precision"]

logger = logging.getLogger("nearsay")


class Precision(StrEnum):
    """AUTO is bfloat16 where the device has units for it and float32, the exact one, elsewhere."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


_NARROW = {Precision.BFLOAT16: torch.bfloat16, Precision.FLOAT16: torch.float16}


def resolve_precision(requested: Precision, device: str, processor: Processor) -> Precision:
    """Turn AUTO into what the device is fast at, and check what was asked for by name.

    device: "cpu", "cuda", "cuda:1", "mps"
    Raises BadInputError for float16 on a CPU, which cannot multiply it.
    """
    kind = torch.device(device).type
    fast_bfloat16 = {
        "cpu": processor.multiplies_bfloat16,
        "cuda": kind == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False),
    }.get(kind, False)
    if requested is Precision.AUTO:
        return Precision.BFLOAT16 if fast_bfloat16 else Precision.FLOAT32
    if requested is Precision.FLOAT16 and kind == "cpu":
        raise BadInputError("float16 needs a GPU. Take precision float32, bfloat16 or auto on the CPU")
    if requested is Precision.BFLOAT16 and not fast_bfloat16:
        logger.warning("%s has no bfloat16 units: this will be many times slower than float32", device)
    return requested


def product_format(precision: Precision) -> torch.dtype:
    """Give the number format of a resolved precision's matrix products."""
    return _NARROW.get(precision, torch.float32)


def narrow_linear_weights(model: torch.nn.Module, precision: Precision) -> None:
    """Store the linear layers' weights in the narrow format, in place; float32 changes nothing.

    The layer norms, the residual sums and the pooling stay float32. Converting once matters because autocast
    keeps no converted copy of weights that need no gradient: it would convert them again for every batch.
    """
    if precision in _NARROW:
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.to(_NARROW[precision])


@contextmanager
def computing_in(precision: Precision, device: str) -> Iterator[None]:
    """Run what is inside without gradients, its matrix products in the precision's format."""
    narrow = _NARROW.get(precision)
    with (
        torch.inference_mode(),
        torch.autocast(torch.device(device).type, dtype=narrow, enabled=narrow is not None),
    ):
        yield
