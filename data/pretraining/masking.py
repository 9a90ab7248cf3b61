"""Choosing the tokens to be predicted, and what stands in their place."""

import numpy as np
from numpy.typing import NDArray

from nearsay.data.pretraining.special_tokens import SpecialTokens

__all__ = ["Vocabulary", "budgets", "choose_tokens", "replacements"]

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
    """Say how many tokens of each row are to be chosen: round(share x maskable), at least 1, at most `most`.

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
    """Give what the model sees in place of the chosen tokens: 80 % [MASK], 10 % random, 10 % as it was.

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
