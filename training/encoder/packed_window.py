"""A window of texts laid one after another, without padding."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

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
    """Return a batch's texts, longest first, and where their tokens are in its blocks.

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


@dataclass(frozen=True, slots=True)
class EqualLengths:
    """Neighbouring texts of a batch that have the same number of tokens."""

    texts: int
    tokens: int  # of each text
    start: int  # the row of the batch where the first text begins

    @property
    def rows(self) -> slice:
        """The rows of the batch's matrix that the texts fill."""
        return slice(self.start, self.start + self.texts * self.tokens)


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Texts that go through the model together; a row of its matrices is a token."""

    token_ids: torch.Tensor  # (tokens,) int32, text after text
    places: torch.Tensor  # (tokens,) int32, each token's place in its own text, from 0
    bounds: torch.Tensor  # (texts + 1,) int32, where each text begins, and the end
    groups: tuple[EqualLengths, ...]  # the texts in their order, longest first
    at: NDArray[np.int64]  # (texts,) the places of its texts among the window's sorted texts
    blocks: Blocks | None = None  # None: the tokens stay as they lie

    @property
    def texts(self) -> int:
        """How many texts."""
        return sum(group.texts for group in self.groups)

    @property
    def place(self) -> slice | torch.Tensor:
        """`at` as an index; a slice where it can be one, as a GPU waits while an index is copied to it."""
        first, last = int(self.at[0]), int(self.at[-1]) + 1
        return slice(first, last) if last - first == len(self.at) else torch.from_numpy(self.at)

    @property
    def longest(self) -> int:
        """The tokens of the longest text."""
        return self.groups[0].tokens


@dataclass(frozen=True, slots=True)
class PackedWindow:
    """Texts sorted by length, longest first, all their tokens in one array."""

    order: NDArray[np.int64]  # (texts,) which given text is at each sorted place
    lengths: NDArray[np.int64]  # (texts,) tokens of the sorted texts
    token_ids: torch.Tensor  # (tokens,) int32
    places: torch.Tensor  # (tokens,) int32
    bounds: torch.Tensor  # (texts + 1,) int32, where each text begins, and the end

    def to(self, device: str) -> "PackedWindow":
        """Return the window with its tokens on a device; a copy to a GPU is begun and not waited for."""
        parts = self.token_ids, self.places, self.bounds
        if torch.device(device).type == "cuda":
            copies = [part.pin_memory().to(device, non_blocking=True) for part in parts]
        else:
            copies = [part.to(device) for part in parts]
        return PackedWindow(self.order, self.lengths, *copies)

    def batches(self, token_budget: int, *, by_blocks: bool = False) -> Iterator[PackedBatch]:
        """Cut the window into batches of at most `token_budget` tokens; a longer text is alone.

        by_blocks: lay texts that fill them well into `Blocks`, whose padding counts as tokens
        """
        rest = np.ones(len(self.lengths), bool)
        if by_blocks and self.lengths.sum() > token_budget:
            for size, blocks in fill(self.lengths):
                count = max(token_budget // size, 1)
                for first in range(0, len(blocks), count):
                    texts, laid = lay(size, blocks[first : first + count], self.lengths)
                    rest[texts] = False
                    yield self._batch(texts, laid)
        left = np.flatnonzero(rest)
        ends = np.cumsum(self.lengths[left])
        first = 0
        while first < len(left):
            begin = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, begin + token_budget, side="right")), first + 1)
            yield self._batch(left[first:last])
            first = last

    def _batch(self, texts: NDArray[np.int64], blocks: Blocks | None = None) -> PackedBatch:
        """`texts`: places among the sorted texts, in their order."""
        lengths = self.lengths[texts]
        first, last = int(texts[0]), int(texts[-1]) + 1
        begins = np.cumsum(self.lengths[:last]) - self.lengths[:last]
        if last - first == len(texts):  # they lie together
            rows: slice | torch.Tensor = slice(int(begins[first]), int(begins[-1] + lengths[-1]))
            bounds = self.bounds[first : last + 1] - int(begins[first])
        else:
            ends = np.cumsum(lengths)
            rows = torch.from_numpy(np.repeat(begins[texts] - ends + lengths, lengths) + np.arange(ends[-1]))
            bounds = torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32))
        return PackedBatch(
            token_ids=self.token_ids[rows],
            places=self.places[rows],
            bounds=bounds,
            groups=_groups(lengths),
            at=texts,
            blocks=blocks,
        )


def pack(token_ids: Sequence[Sequence[int]]) -> PackedWindow:
    """Sort texts by length, longest first, and lay them one after another.

    Raises ValueError for a text without tokens, which has no vector here.
    """
    given = np.fromiter((len(ids) for ids in token_ids), dtype=np.int64, count=len(token_ids))
    if not given.all():
        raise ValueError("a text has no tokens")
    order = np.argsort(-given, kind="stable")
    lengths = given[order]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.fromiter(chain.from_iterable(token_ids[text] for text in order), np.int32, count=bounds[-1])
    places = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
    return PackedWindow(
        order,
        lengths,
        torch.from_numpy(flat),
        torch.from_numpy(places.astype(np.int32)),
        torch.from_numpy(bounds.astype(np.int32)),
    )


def _groups(lengths: NDArray[np.int64]) -> tuple[EqualLengths, ...]:
    """Find the stretches of equal lengths."""
    firsts = np.flatnonzero(np.diff(lengths, prepend=-1))
    counts = np.diff(firsts, append=len(lengths))
    starts = np.cumsum(lengths) - lengths
    return tuple(
        EqualLengths(int(count), int(lengths[first]), int(starts[first]))
        for first, count in zip(firsts, counts, strict=True)
    )
