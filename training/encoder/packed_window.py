"""A window of texts laid one after another, without padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.training.encoder.blocks import Blocks, fill, lay

__all__ = ["EqualLengths", "PackedBatch", "PackedWindow", "pack"]


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
        """Give the window with its tokens on a device; a copy to a GPU is begun and not waited for."""
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
