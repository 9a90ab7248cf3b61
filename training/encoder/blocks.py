"""Texts of many lengths laid into equal blocks, so that a processor meets few shapes of matrices."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["Blocks", "fill", "lay"]

_SIZES = 64, 128  # tokens that the CPU's attention takes quickly
_LEAST_FILLED = 0.9  # of the places, below which the padding costs more than the blocks save


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where a batch's tokens are in blocks of one size, each text within one block."""

    size: int  # tokens
    rows: torch.Tensor  # (blocks * size,) int64, the batch's row at each place; 0 where there is none
    places: torch.Tensor  # (tokens,) int64, where each of the batch's rows is
    mask: torch.Tensor  # (blocks, 1, size, size) float32: 0 within a text, -inf between texts


def fill(lengths: NDArray[np.int64]) -> Iterator[tuple[int, list[list[int]]]]:
    """Yield a size and its blocks, each a list of places in `lengths`, where they are filled well.

    lengths: (texts,) tokens, longest first. A text is in one block, or in none
    """
    longest = None  # of the texts that are not laid yet
    for size in _SIZES:
        begin = int(np.searchsorted(-lengths, -size))
        end = len(lengths) if longest is None else int(np.searchsorted(-lengths, -longest))
        blocks = _pack_into(lengths[begin:end].tolist(), begin, size)
        if blocks and lengths[begin:end].sum() >= _LEAST_FILLED * size * len(blocks):
            yield size, blocks
            longest = size


def _pack_into(lengths: Sequence[int], first: int, size: int) -> list[list[int]]:
    """Fill each block with the longest texts that fit, longest first; `first` numbers the first text."""
    waiting: dict[int, list[int]] = {}
    for text, length in enumerate(lengths, first):
        waiting.setdefault(length, []).append(text)
    known = sorted(waiting)
    blocks = []
    while known:
        block = []
        room = size
        while (place := bisect_right(known, room)) > 0:
            length = known[place - 1]
            block.append(waiting[length].pop())
            room -= length
            if not waiting[length]:
                del known[place - 1]
        blocks.append(block)
    return blocks


def lay(
    size: int, blocks: Sequence[Sequence[int]], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Blocks]:
    """Give a batch's texts, longest first, and where their tokens are in its blocks.

    blocks:  places in `lengths`, as `fill` gives them
    lengths: (texts of the window,) tokens, longest first
    """
    given = np.fromiter((text for block in blocks for text in block), np.int64)
    block = np.repeat(np.arange(len(blocks)), [len(texts) for texts in blocks])
    before = np.cumsum(lengths[given]) - lengths[given]
    starts = block * size + before - before[np.searchsorted(block, block)]
    order = np.argsort(given)
    texts, starts = given[order], starts[order]
    counts = lengths[texts]
    tokens = int(counts.sum())
    places = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(tokens)
    rows = np.zeros(len(blocks) * size, np.int64)
    rows[places] = np.arange(tokens)
    owner = np.full(len(blocks) * size, -1)
    owner[places] = np.repeat(np.arange(len(texts)), counts)
    in_blocks = torch.from_numpy(owner).view(len(blocks), 1, size)
    apart = in_blocks[:, :, :, None] != in_blocks[:, :, None, :]
    mask = torch.zeros(apart.shape).masked_fill_(apart, -torch.inf)
    return texts, Blocks(size, torch.from_numpy(rows), torch.from_numpy(places), mask)
