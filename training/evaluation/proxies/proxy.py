"""What a label-free figure is, and what it does not show."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Proxy", "ProxyFigure", "figure_of"]


class Proxy(StrEnum):
    """Questions that a corpus answers without a person's judgement; none is whether a search is good."""

    ADJACENT = "adjacent passages"
    TITLES = "title to body"
    DUPLICATES = "duplicates found again"
    LEXICAL = "agreement with BM25"

    @property
    def measure(self) -> str:
        """What its figure is."""
        return _MEASURES[self]

    @property
    def does_not_show(self) -> str:
        """A sentence on what must not be read into the figure."""
        return _LIMITS[self]


_MEASURES: Final = {
    Proxy.ADJACENT: "MRR of the next passage among it and passages of other documents",
    Proxy.TITLES: "MRR@10 of a document for its title",
    Proxy.DUPLICATES: "recall@1 of a passage for its copy with typos, lost words and other case",
    Proxy.LEXICAL: "overlap@10 of a passage's neighbours with those of BM25",
}
_LIMITS: Final = {
    Proxy.ADJACENT: "It shows that topics hold together, not that answers are found: neighbours share names "
    "and style, which an encoder may follow without understanding.",
    Proxy.TITLES: "Titles repeat words of their texts and are written by those who know the answer; what "
    "people ask is worded otherwise, so a high figure promises nothing for their questions.",
    Proxy.DUPLICATES: "It shows robustness against noise, not meaning: an encoder of spelling alone would "
    "do well, and one that maps paraphrases together may lose a little.",
    Proxy.LEXICAL: "It is no quality at all: near 1 the encoder adds nothing to a search by words, near 0 "
    "it looks at something else, for better or worse.",
}


@dataclass(frozen=True, slots=True, eq=False)
class ProxyFigure:
    """One encoder's figure for one proxy."""

    proxy: Proxy
    each: NDArray[np.float64]  # (items,) of which the figure is the mean
    chance: float  # what vectors drawn by chance would reach

    @property
    def figure(self) -> float:
        """The mean over the items, 0 to 1."""
        return float(self.each.mean())


def figure_of(proxy: Proxy, each: list[float], chance: float) -> ProxyFigure | None:
    """Give the figure, or None when the corpus has no item to measure it on."""
    return ProxyFigure(proxy, np.array(each, dtype=np.float64), chance) if each else None
