"""A linear layer whose weight is made ready once for the processor that multiplies by it."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch.nn import functional

from nearsay.training.encoder.processor import Processor

__all__ = ["LinearLayer", "Product"]

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
