"""What attention costs a training step on texts of many lengths: padded and masked, or texts laid end to end.

A training runs the first of these; the others say what would be gained.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from gpu_texts import HOW_MADE, made_passages
from torch import Tensor
from torch.nn import functional

from nearsay.training.encoder.bert import takes_bounds
from nearsay.training.sentence.batching import padded_widths
from nearsay.training.sentence.fine_tuning.sentence_task import group_cost, length_groups

__all__ = ["attention"]

HEADS, HEAD_WIDTH = 12, 64  # BERT-base's
TEXTS = 1024
DROPOUT = 0.1
ROUNDS, REPEATS = 7, 10


def attention(device: str, seed: int, *, dry: bool) -> dict[str, object]:
    """Milliseconds forward and backward of one layer's attention, by way; the median of the rounds."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    kind = torch.device(device).type
    _, lengths = made_passages(16 if dry else TEXTS, seed)
    lengths = np.sort(lengths)[::-1].copy()
    generator = torch.Generator(device=device).manual_seed(seed)
    packed = torch.randn(
        int(lengths.sum()), 3, HEADS, HEAD_WIDTH, device=device, dtype=dtype, generator=generator
    ).requires_grad_()
    widths = padded_widths(lengths, kind, longest=128)
    groups = length_groups(widths, group_cost=group_cost(kind), budget=2**30)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    bounds = torch.from_numpy(ends.astype(np.int32)).to(device)
    longest = int(lengths[0])
    padded = [_Padded(packed, lengths[group], int(ends[group[0]]), int(widths[group[0]])) for group in groups]
    whole = [_Padded(packed, lengths, 0, int(widths[0]))]

    def end_to_end(dropout: float) -> Tensor:
        query, key, value = packed.unbind(1)
        found = torch.ops.aten._flash_attention_forward(
            query, key, value, bounds, bounds, longest, longest, dropout, False, False
        )
        return found[0]

    ways: dict[str, Callable[[], Tensor]] = {
        "masked, in groups of like length": lambda: torch.cat([one.attended() for one in padded]),
        "masked, all padded to the longest": lambda: torch.cat([one.attended() for one in whole]),
    }
    if takes_bounds(device, dtype, HEAD_WIDTH):
        ways["end to end"] = lambda: end_to_end(0.0)
        ways["end to end, with dropout"] = lambda: end_to_end(DROPOUT)
    truth = ways["masked, in groups of like length"]().detach().float()
    told: dict[str, object] = {
        name: {
            "milliseconds": _milliseconds(way, packed, device, 1 if dry else ROUNDS, 1 if dry else REPEATS),
            "largest_difference": float((way().detach().float() - truth).abs().max()),
        }
        for name, way in ways.items()
    }
    if "end to end" not in ways:
        told["end to end"] = {"skipped": f"{device} has no kernel for texts of any lengths"}
    return {
        "texts": HOW_MADE,
        "count": len(lengths),
        "tokens": int(lengths.sum()),
        "groups": len(groups),
        "heads": HEADS,
        "head_width": HEAD_WIDTH,
        "ways": told,
    }


class _Padded:
    """Some of the texts, brought to one width."""

    def __init__(self, packed: Tensor, lengths: np.ndarray, first: int, width: int) -> None:
        device = packed.device
        real = np.arange(width) < lengths[:, None]
        self._packed = packed[first : first + int(lengths.sum())]
        self._mask = torch.from_numpy(real).to(device)[:, None, None, :]
        self._places = torch.from_numpy(np.flatnonzero(real)).to(device)
        padded = packed.new_zeros(real.size, *packed.shape[1:])
        padded = padded.index_copy(0, self._places, self._packed)
        shape = (len(lengths), width, *packed.shape[1:])
        # A training's states are padded already: this is not timed.
        self._rows = padded.view(shape).permute(2, 0, 3, 1, 4).contiguous().detach().requires_grad_()

    def attended(self) -> Tensor:
        """Give (tokens, heads, width of a head), those of the texts one after another."""
        found = functional.scaled_dot_product_attention(*self._rows.unbind(0), attn_mask=self._mask)
        return found.transpose(1, 2).flatten(0, 1)[self._places]


def _milliseconds(way: Callable[[], Tensor], packed: Tensor, device: str, rounds: int, repeats: int) -> float:
    def settle() -> None:
        if device != "cpu":
            torch.accelerator.synchronize(device)

    seconds = []
    for _ in range(rounds + 1):  # the first warms up and is not counted
        settle()
        begin = time.perf_counter()
        for _ in range(repeats):
            way().float().sum().backward()
        settle()
        seconds.append((time.perf_counter() - begin) / repeats)
        packed.grad = None
    return round(1000 * statistics.median(seconds[1:]), 3)
