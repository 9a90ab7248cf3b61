"""Choosing runs of whole words to be predicted, as SpanBERT does."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.pretraining.whole_words import Words

__all__ = ["Spans", "choose_spans", "span_length_shares"]


@dataclass(frozen=True, slots=True)
class Spans:
    """Chosen runs of tokens, in order of row and column; at least one token lies between two of a row."""

    rows: NDArray[np.int64]  # (spans,)
    starts: NDArray[np.int64]  # (spans,) first column
    ends: NDArray[np.int64]  # (spans,) one past the last column
    words: NDArray[np.int64]  # (spans,) how many words


def span_length_shares(p: float, longest: int) -> NDArray[np.float64]:
    """Give the chance of a span of 1, 2, … `longest` words: geometric, what is longer left out.

    returns: (longest,), summing to 1; mean 3.8 for p = 0.2 and 10 words

    Joshi et al. 2020, section 3.1, https://arxiv.org/abs/1907.10529
    """
    shares = p * (1 - p) ** np.arange(longest, dtype=np.float64)
    return np.asarray(shares / shares.sum(), np.float64)


def choose_spans(
    words: Words, budget: NDArray[np.int64], shares: NDArray[np.float64], random: np.random.Generator
) -> Spans:
    """Choose spans of each row until the budget is used, at places drawn from all where the length fits.

    budget: (rows,) tokens to be chosen
    shares: (longest,) the chance of each length in words

    A span does not cross a special token and does not touch another. A length that fits nowhere, or not into
    what is left of the budget, is made shorter word by word: the spans placed are therefore shorter on
    average than those drawn. Where no word fits the budget, the shortest one is chosen.
    """
    search = _Search(words, budget, random)
    through = np.cumsum(shares)[:-1]
    active = np.flatnonzero(budget > 0)
    wanted = np.zeros(len(budget), np.int64)
    while len(active):
        new = active[wanted[active] == 0]
        wanted[new] = 1 + np.searchsorted(through, random.random(len(new)), side="right")
        wanted[active] = np.minimum(wanted[active], search.left[active])  # a word is a token or more
        placed = search.place(active, wanted[active])
        wanted[active[placed]] = 0
        failed = active[~placed]
        wanted[failed] -= 1
        active = np.concatenate((active[placed], failed[wanted[failed] > 0]))
        active = np.sort(active[search.left[active] > 0])
    search.place_shortest(np.flatnonzero((budget > 0) & (search.left == budget)))
    return search.spans()


class _Search:
    """Where there is room for spans, and those that were placed."""

    def __init__(self, words: Words, budget: NDArray[np.int64], random: np.random.Generator) -> None:
        self._words = words
        self._random = random
        self._ends = words.starts + words.sizes
        self._taken = words.sizes == 0  # words that are no more, or masked, or next to a masked one
        self._placed: list[NDArray[np.int64]] = []  # (4, spans) row, start, end, words
        self.left = budget.copy()  # (rows,) tokens

    def place(self, rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Place a span of `lengths` words in each of `rows`; say where that could be done."""
        starts, ends = self._words.starts[rows], self._ends[rows]
        stretches, taken = self._words.stretches[rows], self._taken[rows]
        most = starts.shape[1]
        first = np.arange(most)[None, :]
        last = first + lengths[:, None] - 1
        inside = last < most
        last = np.minimum(last, most - 1)
        through = np.cumsum(taken, axis=1)
        free = ~taken & (np.take_along_axis(through, last, axis=1) == through)
        connected = np.take_along_axis(stretches, last, axis=1) == stretches
        affordable = np.take_along_axis(ends, last, axis=1) - starts <= self.left[rows][:, None]
        possible = inside & free & connected & affordable
        keys = self._random.random(possible.shape, np.float32)
        keys[~possible] = -1
        chosen = np.argmax(keys, axis=1)
        placed = np.asarray(possible[np.arange(len(rows)), chosen], np.bool_)
        self._take(rows[placed], chosen[placed], lengths[placed])
        return placed

    def place_shortest(self, rows: NDArray[np.int64]) -> None:
        """Place the shortest word of each row, whatever is left of the budget."""
        if not len(rows):
            return
        sizes = self._words.sizes[rows]
        chosen = np.argmin(np.where(sizes > 0, sizes, np.iinfo(np.int64).max), axis=1)
        self._take(rows, chosen, np.ones(len(rows), np.int64))

    def _take(self, rows: NDArray[np.int64], first: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        start, end = self._words.starts[rows, first], self._ends[rows, first + lengths - 1]
        self._placed.append(np.stack((rows, start, end, lengths)))
        self.left[rows] -= end - start
        word_starts, word_ends = self._words.starts[rows], self._ends[rows]
        touching = (word_starts <= end[:, None]) & (word_ends >= start[:, None])
        self._taken[rows] |= touching

    def spans(self) -> Spans:
        found = np.concatenate([np.zeros((4, 0), np.int64), *self._placed], axis=1)
        rows, starts, ends, words = found[:, np.lexsort((found[1], found[0]))]
        return Spans(rows, starts, ends, words)
