"""Texts, and pairs of texts, as rows of tokens for a classifier."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.example import NO_TARGET, HeadExample
from nearsay.training.bert.heads.example_tokens import ExampleTokens

__all__ = ["TextExamples", "text_examples"]


class TextExamples(NamedTuple):
    """The rows of texts."""

    examples: list[HeadExample]  # one a text, in order
    truncated: int  # texts that were cut at the length limit


def text_examples(
    tokens: ExampleTokens,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    length: int,
    targets: NDArray[np.int64] | None = None,
) -> TextExamples:
    """Make a row of each text: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP].

    pairs:   the second text of each row
    length:  most tokens of a row; of a pair, the longer text loses its last token until the row fits
    targets: (texts,) numbers of the labels
    """
    room = length - (2 if pairs is None else 3)
    if room < (1 if pairs is None else 2):
        raise BadInputError(f"a length of {length} tokens leaves no room for text; take 8 or more")
    first = [encoding.ids for encoding in tokens.texts(texts)]
    second = None if pairs is None else [encoding.ids for encoding in tokens.texts(pairs)]
    if second is not None and len(second) != len(first):
        raise ValueError(f"there are {len(first)} texts and {len(second)} second texts")
    if targets is None:
        targets = np.full(len(first), NO_TARGET, dtype=np.int64)
    examples = []
    truncated = 0
    for place, ids in enumerate(first):
        other = None if second is None else second[place]
        kept, other_kept = _kept(len(ids), 0 if other is None else len(other), room)
        truncated += kept < len(ids) or (other is not None and other_kept < len(other))
        numbers, begins = tokens.row(ids[:kept], None if other is None else other[:other_kept])
        examples.append(HeadExample(numbers, begins, targets[place : place + 1]))
    return TextExamples(examples, truncated)


def _kept(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of the two stay when the longer one gives up its last, over and over."""
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= half:
        return first, room - first
    if second <= half:
        return room - second, second
    return room - half, half  # an odd room: the second gave up the last one
