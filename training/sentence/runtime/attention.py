"""Self-attention over texts that lie one after another, without padding and without a mask."""

from importlib.util import find_spec

import torch
from torch.nn import functional

from nearsay.training.sentence.runtime.packed_window import PackedBatch

__all__ = ["attend", "attend_by_bounds", "attend_by_groups", "takes_bounds"]


_LEAST_GPU = 8, 0  # compute capability that the kernel for texts of any lengths is built for: Ampere
_HEAD_WIDTHS = 8  # it takes multiples of this


def attend(mixed: torch.Tensor, heads: int, batch: PackedBatch, *, by_bounds: bool = False) -> torch.Tensor:
    """Let each text's tokens attend to one another.

    mixed:     (tokens, 3 * width) queries, keys and values side by side
    by_bounds: what `takes_bounds` says
    returns:   (tokens, width)

    Vaswani et al. 2017, section 3.2, https://arxiv.org/abs/1706.03762
    """
    if by_bounds and len(batch.groups) > 1:
        return attend_by_bounds(mixed, heads, batch)
    return attend_by_groups(mixed, heads, batch)


def takes_bounds(device: str, dtype: torch.dtype, head_width: int) -> bool:
    """Whether the device has a kernel for texts of any lengths, so that `attend_by_bounds` runs."""
    return (
        torch.device(device).type == "cuda"
        and dtype in {torch.bfloat16, torch.float16}
        and head_width % _HEAD_WIDTHS == 0
        and find_spec("torch.nn.attention.varlen") is not None
        and torch.cuda.get_device_capability(device) >= _LEAST_GPU
    )


def attend_by_groups(mixed: torch.Tensor, heads: int, batch: PackedBatch) -> torch.Tensor:
    """As `attend`, on any device: the texts of one length at a time."""
    width = mixed.shape[1] // 3
    result = mixed.new_empty(len(mixed), width)
    for group in batch.groups:
        shape = (group.texts, group.tokens, 3, heads, width // heads)
        query, key, value = mixed[group.rows].view(shape).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value)
        result[group.rows].view(group.texts, group.tokens, heads, -1).copy_(attended.transpose(1, 2))
    return result


def attend_by_bounds(mixed: torch.Tensor, heads: int, batch: PackedBatch) -> torch.Tensor:
    """As `attend`, in one kernel for texts of any lengths, where `takes_bounds` says so.

    https://docs.pytorch.org/docs/stable/nn.attention.varlen.html
    """
    from torch.nn.attention import varlen

    query, key, value = mixed.view(len(mixed), 3, heads, -1).unbind(1)
    attended = varlen.varlen_attn(query, key, value, batch.bounds, batch.bounds, batch.longest, batch.longest)
    attended = attended[0] if isinstance(attended, tuple) else attended
    return attended.reshape(len(mixed), -1)
