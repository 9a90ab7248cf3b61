"""Self-attention over texts that lie one after another."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TypeAlias

import torch
from torch.nn import functional

from nearsay.training.encoder.blocks import Blocks
from nearsay.training.encoder.packed_window import PackedBatch
from nearsay.training.encoder.processor import Processor

__all__ = [
    "Attention",
    "attend_by_blocks",
    "attend_by_bounds",
    "attend_by_groups",
    "attention",
    "takes_blocks",
    "takes_bounds",
]

Attention: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

_LEAST_GPU = 8, 0  # compute capability that the kernel for texts of any lengths is built for: Ampere
_HEAD_WIDTHS = 8  # it takes multiples of this


def attention(batch: PackedBatch, heads: int, *, by_bounds: bool = False) -> Attention:
    """Give the function that lets each text's tokens attend to one another.

    It takes (rows, 3 * width) queries, keys and values side by side and gives (rows, width); rows after the
    batch's tokens stay without meaning.

    by_bounds: what `takes_bounds` says

    Vaswani et al. 2017, section 3.2, https://arxiv.org/abs/1706.03762
    """
    if batch.blocks is not None:
        return partial(attend_by_blocks, heads=heads, blocks=batch.blocks)
    if by_bounds and len(batch.groups) > 1:
        return partial(attend_by_bounds, heads=heads, batch=batch)
    return partial(attend_by_groups, heads=heads, batch=batch)


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


def attend_by_groups(mixed: torch.Tensor, heads: int, batch: PackedBatch) -> torch.Tensor:
    """As `attention` says, on any device: the texts of one length at a time."""
    width = mixed.shape[1] // 3
    result = mixed.new_zeros(len(mixed), width)
    for group in batch.groups:
        shape = (group.texts, group.tokens, 3, heads, width // heads)
        query, key, value = mixed[group.rows].view(shape).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value)
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
