"""The texts that several rows of a set have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.sentence_examples.normalised_text import normalised_text

__all__ = ["SharedTexts", "no_shared_texts", "shared_texts"]


@dataclass(frozen=True, slots=True)
class SharedTexts:
    """Which rows hold a text that another row holds too; texts are numbered from 0."""

    rows: NDArray[np.int64]  # (sharing rows,) their numbers, rising
    others: NDArray[np.int64]  # the numbers of the rows that share nothing, rising
    texts: list[tuple[int, ...]]  # for each sharing row, its shared texts, each once
    commonest: list[int]  # for each sharing row, the one of them that most rows hold
    often: NDArray[np.int64]  # (sharing rows,) how many rows hold that one
    count: int  # of different shared texts

    @property
    def most(self) -> int:
        """How many rows hold the text that is in most of them."""
        return int(self.often.max(initial=1))


def no_shared_texts(rows: int) -> SharedTexts:
    """Give what `shared_texts` gives for rows of which no two share a text."""
    none = np.zeros(0, np.int64)
    return SharedTexts(none, np.arange(rows), [], [], none, 0)


def shared_texts(texts: Sequence[tuple[str, ...]]) -> SharedTexts:
    """Find the rows that share a normalised text with another row, in whichever column.

    A text that a row holds twice itself counts once.
    """
    numbers = _sorted_numbers(texts)
    again = np.zeros(numbers.shape, np.bool_)
    again[:, 1:] = numbers[:, 1:] == numbers[:, :-1]
    counts = np.bincount(numbers[~again])
    new_numbers = np.cumsum(counts > 1) - 1
    held = np.where(again, 0, counts[numbers])  # (rows, width): in how many rows each text is
    sharing = (held > 1).any(axis=1)
    rows = np.flatnonzero(sharing)
    numbers, held = new_numbers[numbers[rows]], held[rows]
    flat: list[int] = numbers[held > 1].tolist()
    ends: list[int] = np.cumsum((held > 1).sum(axis=1)).tolist()
    return SharedTexts(
        rows=rows,
        others=np.flatnonzero(~sharing),
        texts=[tuple(flat[start:end]) for start, end in zip([0, *ends], ends, strict=False)],
        commonest=numbers[np.arange(len(rows)), held.argmax(axis=1)].tolist(),
        often=held.max(axis=1),
        count=int((counts > 1).sum()),
    )


def _sorted_numbers(texts: Sequence[tuple[str, ...]]) -> NDArray[np.integer[Any]]:
    """Number the normalised texts: (rows, width), rising in each row."""
    known: dict[str, int] = {}
    width = len(texts[0])
    numbers = np.fromiter(
        (known.setdefault(normalised_text(text), len(known)) for row in texts for text in row),
        np.int64,
        len(texts) * width,
    )
    return np.sort(numbers.reshape(-1, width), axis=1)
