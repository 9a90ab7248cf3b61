"""Texts as careless people would write them again: typos, lost words, other case."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from nearsay.data.errors import BadInputError

__all__ = ["Perturbation", "perturbed"]

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_KINDS: Final = 3  # of a typo: two letters swapped, one lost, one replaced


@dataclass(frozen=True, slots=True)
class Perturbation:
    """How much of a text is changed, as probabilities; BadInputError for what is none."""

    typos: float = 0.1  # of a word of 3 letters or more
    drops: float = 0.1  # of a word being left out; the last one that is left stays
    case: float = 0.5  # of the whole text losing its capitals; else it keeps them

    def __post_init__(self) -> None:
        for share in (self.typos, self.drops, self.case):
            if not 0 <= share <= 1:
                raise BadInputError(f"a probability is {share}; give one from 0 to 1")


def perturbed(text: str, random: np.random.Generator, how: Perturbation | None = None) -> str:
    """Give the text with typos, lost words and perhaps no capitals; white space becomes single spaces."""
    how = how or Perturbation()
    words = text.split()
    kept = [word for word in words if random.random() >= how.drops] or words[-1:]
    changed = [
        _mistyped(word, random) if len(word) >= 3 and random.random() < how.typos else word for word in kept
    ]
    written = " ".join(changed)
    return written.lower() if random.random() < how.case else written


def _mistyped(word: str, random: np.random.Generator) -> str:
    place = int(random.integers(len(word) - 1))
    kind = int(random.integers(_KINDS))
    if kind == 0:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    new = "" if kind == 1 else _LETTERS[int(random.integers(len(_LETTERS)))]
    return word[:place] + new + word[place + 1 :]
