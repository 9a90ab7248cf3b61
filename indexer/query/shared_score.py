"""A cosine similarity shared out over the words of one of its two texts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.query.explanation import WordShare
from nearsay.indexer.query.words import token_words
from nearsay.training.sentence.contributions import TextContributions

__all__ = ["SharedScore", "WordPart", "share_out"]


@dataclass(frozen=True, slots=True)
class WordPart:
    """One word's part of a score."""

    start: int  # characters of the encoded text
    end: int
    share: float


@dataclass(frozen=True, slots=True)
class SharedScore:
    """A text's words with their parts of a score; parts and rest sum to the score."""

    parts: tuple[WordPart, ...]  # in the text's order
    rest: float  # what belongs to no word
    score: float
    seen: int  # characters of the text that the encoder took

    def within(self, text: str, start: int, end: int) -> tuple[WordShare, ...]:
        """The words that begin in a stretch of the text, which is cut out to be a text of its own."""
        shares: list[WordShare] = []
        for part in self.parts:
            if start <= part.start < end:
                last = min(part.end, end)
                shares.append(
                    WordShare(text[part.start : last], part.start - start, last - start, part.share)
                )
        return tuple(shares)


def share_out(text: str, contributions: TextContributions, other: NDArray[np.float64]) -> SharedScore:
    """Share the cosine of a text and another vector out over the text's words.

    other: (dimension,) the other text's vector, of length 1

    The cosine is the dot product of `other` with the text's vector over its length, and that vector is the
    sum of its tokens' contributions and a constant, so each token's part is a dot product too.
    """
    length = float(np.linalg.norm(contributions.total)) or 1.0
    shares = contributions.vectors @ other / length
    spans = [(int(start), int(end)) for start, end in contributions.spans]
    words = token_words(text, spans)
    parts = tuple(WordPart(word.start, word.end, float(shares[list(word.tokens)].sum())) for word in words)
    wordless = np.ones(len(shares), dtype=bool)
    wordless[[token for word in words for token in word.tokens]] = False
    rest = float(shares[wordless].sum() + contributions.constant @ other / length)
    seen = len(text) if contributions.whole else max((end for _, end in spans), default=0)
    return SharedScore(parts, rest, float(shares.sum() + contributions.constant @ other / length), seen)
