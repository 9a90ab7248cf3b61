"""Sentences of words as rows of tokens for a tagger."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.example import NO_TARGET, HeadExample
from nearsay.training.bert.heads.example_tokens import ExampleTokens
from nearsay.training.bert.heads.windows import sliding_windows

__all__ = ["WordExample", "word_examples"]


@dataclass(frozen=True, slots=True)
class WordExample:
    """A window of a sentence, and which of its tokens speak for which words."""

    example: HeadExample  # its targets stand at `positions`
    sentence: int  # which sentence it is of
    first_word: int  # the first word that it speaks for; one a position, in order
    positions: NDArray[np.int64]  # (words,) the first token of each word that it speaks for


def word_examples(
    tokens: ExampleTokens,
    sentences: Sequence[Sequence[str]],
    *,
    length: int,
    targets: Sequence[NDArray[np.int64]] | None = None,
) -> list[WordExample]:
    """Make rows of sentences: a word's first token carries its tag, the others none.

    length:  most tokens of a row; a longer sentence becomes several rows that overlap by half, and the row in
             which a word has the most context speaks for it. Of a word with more tokens than a row has room
             for, the first ones stay
    targets: of each sentence, (words,) numbers of the tags

    Devlin et al. 2019, section 5.3, https://arxiv.org/abs/1810.04805
    """
    room = length - 2
    if room < 1:
        raise BadInputError(f"a length of {length} tokens leaves no room for words; take 8 or more")
    found = []
    for number, words in enumerate(tokens.words(sentences)):
        pieces = [ids[:room] for ids in words]
        sizes = [len(ids) for ids in pieces]
        for window in sliding_windows(sizes, room=room, step=max(room // 2, 1)):
            starts = 1 + np.cumsum([0, *sizes[window.start : window.end]])[:-1]
            own = slice(window.own_start - window.start, window.own_end - window.start)
            positions = starts[own].astype(np.int64)
            ids, begins = tokens.row([i for word in pieces[window.start : window.end] for i in word])
            row_targets = np.full(len(ids), NO_TARGET, dtype=np.int64)
            if targets is not None:
                row_targets[positions] = targets[number][window.own_start : window.own_end]
            found.append(
                WordExample(HeadExample(ids, begins, row_targets), number, window.own_start, positions)
            )
    return found
