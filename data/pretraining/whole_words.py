"""Words as runs of a vocabulary's pieces, and choosing whole ones to be predicted."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Words", "choose_words", "continuations", "find_words"]


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
