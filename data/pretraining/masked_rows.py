"""Rows of tokens with some of them masked, by the way that was chosen."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Masking
from nearsay.data.pretraining.packed_rows import TokenRows, ranges
from nearsay.data.pretraining.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MASKED_SHARE = 0.8  # of the chosen tokens; [MASK] takes their place
_RANDOM_SHARE = 0.1  # of the chosen tokens; a random token takes their place; the rest stays


class Vocabulary:
    """Which tokens stand for text."""

    def __init__(self, size: int, special: SpecialTokens) -> None:
        """`size`: tokens, special ones included."""
        self.mask = special.mask
        self.is_text = np.ones(size, np.bool_)  # (size,) False: special
        self.is_text[list(special.ids)] = False
        self.text_ids = np.flatnonzero(self.is_text).astype(np.int32)  # all that are not special


def budgets(maskable: NDArray[np.bool_], share: float, most: int) -> NDArray[np.int64]:
    """How many tokens of each row are to be chosen: round(share x maskable), at least 1, at most `most`.

    maskable: (rows, width), True: a token of text
    returns:  (rows,); 0 for a row without any
    """
    available: NDArray[np.int64] = maskable.sum(axis=1)
    wanted = np.rint(share * available).astype(np.int64)
    budget: NDArray[np.int64] = np.minimum(np.clip(wanted, 1, most), available)
    return budget


def choose_tokens(
    maskable: NDArray[np.bool_], budget: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.bool_]:
    """Choose exactly `budget` of each row's maskable tokens, every set with the same chance but for ties.

    maskable: (rows, width); budget: (rows,), at most the row's maskable tokens
    returns:  (rows, width)

    Each token draws one of 2^(31 - bits) numbers, where `bits` are those of the last column's: 2^24 in rows
    of 128 tokens, 2^22 in rows of 512. The lowest are chosen; of two that are the same, the earlier token's.
    """
    rows, width = maskable.shape
    if not width:
        return maskable.copy()
    bits = max(1, (width - 1).bit_length())  # the column in the low bits makes every key of a row another
    keys = random.integers(0, 2 ** (31 - bits), (rows, width), dtype=np.uint32)
    keys = (keys << np.uint32(bits)) | np.arange(width, dtype=np.uint32)
    keys[~maskable] |= np.uint32(2**31)
    last = np.sort(keys, axis=1)[np.arange(rows), np.maximum(budget - 1, 0)]
    return (keys <= last[:, None]) & (budget > 0)[:, None]


def replacements(
    labels: NDArray[np.int32],
    groups: NDArray[np.int64],
    vocabulary: Vocabulary,
    random: np.random.Generator,
) -> NDArray[np.int32]:
    """Return what the model sees in place of the chosen tokens: 80 % [MASK], 10 % random, 10 % as it was.

    labels: (chosen,) the tokens
    groups: (chosen,) ascending from 0: tokens with the same number share one draw, each its own random token
    """
    count = int(groups[-1]) + 1 if len(groups) else 0
    draw = random.random(count)[groups]
    seen = labels.copy()
    seen[draw < _MASKED_SHARE] = vocabulary.mask
    at_random = (draw >= _MASKED_SHARE) & (draw < _MASKED_SHARE + _RANDOM_SHARE)
    size = len(vocabulary.text_ids)
    seen[at_random] = vocabulary.text_ids[random.integers(0, size, int(at_random.sum()))]
    return seen


@dataclass(frozen=True, slots=True)
class Words:
    """The words of rows of tokens, in order. All arrays but the last are (rows, most words of a row)."""

    starts: NDArray[np.int64]  # the column of the first piece
    sizes: NDArray[np.int64]  # pieces; 0 beyond a row's words
    stretches: NDArray[np.int64]  # grows where a word does not follow the word before it without a gap
    counts: NDArray[np.int64]  # (rows,) words of each


def continuations(tokenizer: "Tokenizer") -> NDArray[np.bool_]:
    """Tell the pieces that go on with a word, `##ing`, from those that begin one.

    returns: (vocabulary,) bool
    BadInputError unless the tokenizer is a WordPiece one, whose pieces say so.
    """
    model = json.loads(tokenizer.to_str())["model"]
    if model.get("type") != "WordPiece":
        raise BadInputError(
            f"whole words and spans need a WordPiece tokenizer; this one is {model.get('type')}. "
            "Mask single tokens instead: --masking tokens"
        )
    prefix = model["continuing_subword_prefix"]
    table = np.zeros(max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1, np.bool_)
    table[
        [
            number
            for piece, number in model["vocab"].items()
            if len(piece) > len(prefix) > 0 and piece.startswith(prefix)
        ]
    ] = True
    return table


def find_words(
    token_ids: NDArray[np.int32], maskable: NDArray[np.bool_], continues: NDArray[np.bool_]
) -> tuple[Words, NDArray[np.int64]]:
    """Find the words of rows of tokens.

    token_ids: (rows, width)
    maskable:  (rows, width), True: a token of text; a piece behind one that is not begins a word
    continues: (vocabulary,), see `continuations`
    returns: the words, and (rows, width) the number in its row of the word that a token is in; only where
        maskable
    """
    begins = maskable.copy()
    begins[:, 1:] &= ~(continues[token_ids[:, 1:]] & maskable[:, :-1])
    number = np.cumsum(begins, axis=1) - 1
    counts = begins.sum(axis=1)
    shape = (len(token_ids), int(counts.max(initial=0)))
    row, column = np.nonzero(begins)
    starts = np.zeros(shape, np.int64)
    starts[row, number[row, column]] = column
    row, column = np.nonzero(maskable)
    sizes = np.bincount(row * shape[1] + number[row, column], minlength=shape[0] * shape[1]).reshape(shape)
    gaps = np.ones(shape, np.bool_)
    gaps[:, 1:] = starts[:, 1:] != starts[:, :-1] + sizes[:, :-1]
    return Words(starts, sizes, np.cumsum(gaps, axis=1), counts), number


def choose_words(words: Words, budget: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.bool_]:
    """Choose words of each row in random order, passing over those that would overshoot the budget.

    budget:  (rows,) pieces to be chosen
    returns: (rows, most words) bool

    Fewer pieces than the budget come out where no word is left that fits. Where none fits at all, the
    shortest word is chosen, so that there is something to predict.

    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """
    rows, most = words.sizes.shape
    exists = words.sizes > 0
    order = np.argsort(np.where(exists, random.random((rows, most), np.float32), np.float32(2)), axis=1)
    sizes = np.ascontiguousarray(np.take_along_axis(words.sizes, order, axis=1).T)
    taken = np.zeros_like(sizes, np.bool_)
    left = budget.copy()
    for rank in range(most):
        size = sizes[rank]
        take = (size <= left) & (size > 0)
        taken[rank] = take
        left -= size * take
        if not left.any():
            break
    chosen = np.zeros((rows, most), np.bool_)
    np.put_along_axis(chosen, order, taken.T, axis=1)
    nothing = np.flatnonzero((left == budget) & (budget > 0))
    if len(nothing):
        shortest = np.argmin(np.where(exists[nothing], words.sizes[nothing], np.iinfo(np.int64).max), axis=1)
        chosen[nothing, shortest] = True
    return chosen


@dataclass(frozen=True, slots=True)
class Spans:
    """Chosen runs of tokens, in order of row and column; at least one token lies between two of a row."""

    rows: NDArray[np.int64]  # (spans,)
    starts: NDArray[np.int64]  # (spans,) first column
    ends: NDArray[np.int64]  # (spans,) one past the last column
    words: NDArray[np.int64]  # (spans,) how many words


def span_length_shares(p: float, longest: int) -> NDArray[np.float64]:
    """Return the chance of a span of 1, 2, … `longest` words: geometric, what is longer left out.

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


@dataclass(frozen=True, slots=True)
class MaskedRows:
    """Rows as the model sees them, and what it has to find out."""

    token_ids: NDArray[np.int32]  # (rows, width)
    positions: NDArray[np.int32]  # (masked,) row x width + column, ascending
    labels: NDArray[np.int32]  # (masked,) the tokens that stood there, or that come next
    span_edges: NDArray[np.int32] | None  # (masked, 2) the places before and after the span; None: no spans
    span_offsets: NDArray[np.int32] | None  # (masked,) place in the span, from 0


class RowMasker:
    """Masks rows of tokens; which ones is up to the random numbers it is given."""

    def __init__(
        self, config: ExampleConfig, vocabulary: Vocabulary, continues: NDArray[np.bool_] | None
    ) -> None:
        """`continues`: (vocabulary,) which pieces go on with a word; needed for whole words and spans."""
        if continues is None and config.masking.needs_words:
            raise BadInputError(
                f"{config.masking} need to know which pieces go on with a word; give the table"
            )
        self._config = config
        self._vocabulary = vocabulary
        self._continues = continues
        self._span_shares = span_length_shares(config.span_p, config.span_max)

    def mask(self, rows: TokenRows, random: np.random.Generator) -> MaskedRows:
        """Choose tokens and replace 80 % of them by [MASK] and 10 % by random ones; [UNK] is never chosen.

        With single tokens and whole words each token is replaced for itself, with spans each span as a whole.
        With causal masking all stay as they are, and each is predicted at the place before it.
        """
        maskable = self._vocabulary.is_text[rows.token_ids]
        if self._config.masking is Masking.CAUSAL:
            places = np.flatnonzero(maskable)  # none is a row's first, which is [CLS]
            labels = rows.token_ids.reshape(-1)[places]
            return MaskedRows(rows.token_ids, (places - 1).astype(np.int32), labels, None, None)
        budget = budgets(maskable, self._config.masked_share, self._config.most_predictions)
        if self._continues is not None and self._config.masking is Masking.SPANS:
            return self._spans(rows, maskable, budget, self._continues, random)
        if self._continues is not None and self._config.masking is Masking.WHOLE_WORDS:
            words, number = find_words(rows.token_ids, maskable, self._continues)
            taken = choose_words(words, budget, random)
            row, column = np.nonzero(maskable)
            chosen = np.zeros_like(maskable)
            chosen[row, column] = taken[row, number[row, column]]
        else:
            chosen = choose_tokens(maskable, budget, random)
        positions = np.flatnonzero(chosen)
        return self._replaced(rows, positions, np.arange(len(positions)), random)

    def _spans(
        self,
        rows: TokenRows,
        maskable: NDArray[np.bool_],
        budget: NDArray[np.int64],
        continues: NDArray[np.bool_],
        random: np.random.Generator,
    ) -> MaskedRows:
        words, _ = find_words(rows.token_ids, maskable, continues)
        spans = choose_spans(words, budget, self._span_shares, random)
        before = spans.rows * rows.token_ids.shape[1]
        starts, sizes = before + spans.starts, spans.ends - spans.starts
        edges = np.repeat(np.stack((starts - 1, starts + sizes), axis=1), sizes, axis=0)
        offsets = ranges(np.zeros_like(sizes), sizes)
        groups = np.repeat(np.arange(len(sizes)), sizes)
        return self._replaced(
            rows, ranges(starts, sizes), groups, random, edges.astype(np.int32), offsets.astype(np.int32)
        )

    def _replaced(
        self,
        rows: TokenRows,
        positions: NDArray[np.int64],
        groups: NDArray[np.int64],
        random: np.random.Generator,
        edges: NDArray[np.int32] | None = None,
        offsets: NDArray[np.int32] | None = None,
    ) -> MaskedRows:
        token_ids = rows.token_ids.copy()
        labels = token_ids.reshape(-1)[positions]
        token_ids.reshape(-1)[positions] = replacements(labels, groups, self._vocabulary, random)
        return MaskedRows(token_ids, positions.astype(np.int32), labels, edges, offsets)
