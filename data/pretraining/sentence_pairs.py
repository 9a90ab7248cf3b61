"""Packing sentences into pairs of segments for masked words and next-sentence prediction."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.pretraining.example_config import ExampleConfig
from nearsay.data.pretraining.packed_rows import PackedRows
from nearsay.data.pretraining.prepared_text import Shard

__all__ = ["pack_sentence_pairs"]

_MOST_DRAWS_AT_ONCE: Final = 8192


def pack_sentence_pairs(
    shard: Shard, others: Shard, config: ExampleConfig, random: np.random.Generator
) -> PackedRows:
    """Pack a shard's sentences into rows [CLS] A [SEP] B [SEP], document by document.

    others: where random segments come from, usually the shard itself; another one if it holds one document

    Sentences are gathered until they reach the target: the room for text (length - 3), or with `short_share`
    a random length from 2 to it. A is a random number of them, at least one, and B the rest; with
    `random_share` B begins at a random sentence of another document instead, goes on to the target or the
    document's end, and the sentences that A left are packed again. Each token over the room is taken from the
    longer segment, at random from its front or its back.

    Two points are the paper's text rather than its published code, which makes B random whenever one sentence
    fills the target, so that well over half are and the length of A tells: here such an A is followed by the
    next sentence in its share of cases (a document's last sentence, alone, becomes B behind what comes before
    it). Only a document of one sentence always gets a random B. And a random B begins at any sentence of the
    other documents with the same chance, not at any document, so that short documents are not seen more.

    Devlin et al. 2019, appendix A.2, https://arxiv.org/abs/1810.04805;
    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """
    sentences = _Sentences.of(shard)
    elsewhere = _OtherDocuments(sentences if others is shard else _Sentences.of(others))
    segments = np.array(list(_segments(sentences, elsewhere, config, random)), np.int64).reshape(-1, 5)
    starts = np.ascontiguousarray(segments[:, (0, 2)])
    ends = np.ascontiguousarray(segments[:, (1, 3)])
    _truncate(starts, ends, config.length - 3, random)
    return PackedRows(
        shard.tokens,
        others.tokens,
        2 * np.arange(len(segments) + 1),
        starts.reshape(-1),
        ends.reshape(-1),
        segments[:, 4].astype(np.bool_),
    )


class _Sentences(NamedTuple):
    """A shard's sentences and documents as lists, which single look-ups are quicker in."""

    starts: list[int]  # first token of each sentence, then the number of tokens
    bounds: list[int]  # first sentence of each document, then the number of sentences
    numbers: list[int]  # of the documents

    @classmethod
    def of(cls, shard: Shard) -> Self:
        arrays = shard.sentence_starts, shard.document_starts, shard.document_numbers
        return cls(*(array.tolist() for array in arrays))


def _segments(
    sentences: _Sentences, elsewhere: "_OtherDocuments", config: ExampleConfig, random: np.random.Generator
) -> Iterator[tuple[int, int, int, int, bool]]:
    """Give A's start and end, B's start and end, and whether B is random, in tokens, before truncation."""
    starts, bounds, numbers = sentences
    room = config.length - 3
    short_share, random_share = config.short_share, config.random_share
    draws = _draws(random)
    for number, (begin, end) in zip(numbers, pairwise(bounds), strict=True):
        elsewhere.leave_out(number)
        first = begin
        while first < end:
            short, length, coin, cut, place = next(draws)
            target = 2 + int(length * (room - 1)) if short < short_share else room
            after = bisect_left(starts, starts[first] + target, first + 1, end)
            is_random = coin < random_share
            if not is_random and after - first == 1:
                if after < end:
                    after += 1
                elif first > begin:
                    front = bisect_left(starts, starts[end] - target, begin, first - 1)
                    yield starts[front], starts[first], starts[first], starts[end], False
                    break
                else:
                    is_random = True
            middle = first + 1 + int(cut * (after - first - 1)) if after - first > 1 else after
            if not is_random:
                yield starts[first], starts[middle], starts[middle], starts[after], False
                first = after
            else:
                if elsewhere.sentences:
                    taken = starts[middle] - starts[first]
                    yield starts[first], starts[middle], *elsewhere.segment(place, target - taken), True
                first = middle


class _OtherDocuments:
    """Random segments from all documents but one."""

    def __init__(self, sentences: _Sentences) -> None:
        self._starts, self._bounds, self._numbers = sentences
        self._left_out = self._left_out_size = 0
        self.sentences = 0  # how many there are to begin at

    def leave_out(self, number: int) -> None:
        """Draw from all documents but this one from now on."""
        place = bisect_left(self._numbers, number)
        after = bisect_right(self._numbers, number)
        self._left_out = self._bounds[place]
        self._left_out_size = self._bounds[after] - self._bounds[place]
        self.sentences = self._bounds[-1] - self._left_out_size

    def segment(self, place: float, target: int) -> tuple[int, int]:
        """Give the first token and the end of whole sentences that reach the target or a document's end.

        place: from 0 to below 1, which sentence it begins at
        """
        first = int(place * self.sentences)
        if first >= self._left_out:
            first += self._left_out_size
        document_end = self._bounds[bisect_right(self._bounds, first)]
        after = bisect_left(self._starts, self._starts[first] + target, first + 1, document_end)
        return self._starts[first], self._starts[after]


def _draws(random: np.random.Generator) -> Iterator[tuple[float, float, float, float, float]]:
    """Give five uniform numbers at a time, without end."""
    size = 32  # a small text needs few
    while True:
        yield from random.random((size, 5)).tolist()
        size = min(2 * size, _MOST_DRAWS_AT_ONCE)


def _truncate(
    starts: NDArray[np.int64], ends: NDArray[np.int64], room: int, random: np.random.Generator
) -> None:
    """Shorten pairs in place to the room: token by token the longer one, at its front or its back.

    starts, ends: (rows, 2) in tokens
    """
    sizes = ends - starts
    over = np.maximum(sizes.sum(axis=1) - room, 0)
    difference = sizes[:, 0] - sizes[:, 1]
    from_longer = np.minimum(over, np.abs(difference))
    rest = over - from_longer  # from two of the same length, by turns, the first one first
    cuts = np.stack((-(-rest // 2), rest // 2), axis=1)
    cuts[:, 0] += np.where(difference > 0, from_longer, 0)
    cuts[:, 1] += np.where(difference < 0, from_longer, 0)
    front = random.binomial(cuts, 0.5)
    starts += front
    ends -= cuts - front
