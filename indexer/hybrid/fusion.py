"""One ranking out of two: by vectors and by words."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

__all__ = ["FIRST", "Fusion", "WordWeight", "reciprocal_rank_fusion", "weighted_fusion", "word_weight"]

FIRST: Final = 5  # passages of either ranking that say how much words count
_FIXED: Final = 0.5  # the share of words where it follows nothing
_WORTH: Final = 0.25  # of the rarest word's worth: below it a best BM25 counts in proportion
_LEAST, _MOST = 0.2, 0.7  # the share of words where it follows the encoder's regard for the best of them


class Fusion(StrEnum):
    """How hybrid search puts the two rankings together."""

    ADAPTIVE = "adaptive"  # by their scores, words as much as the query's own evidence says
    WEIGHTED = "weighted"  # by their scores, both alike
    RECIPROCAL_RANK = "rrf"  # by their ranks alone


@dataclass(frozen=True, slots=True)
class WordWeight:
    """How much words count for one query."""

    share: float  # of the words in the ranking, 0 to 1; the cosine has the rest
    regard: (
        float | None
    )  # what the share follows, see `word_weight`; None: it is fixed, or no words were found
    full_score: float  # the best BM25: its passage gains all that there is to gain
    gain: float  # how much that is, on the scale of the cosine

    def __str__(self) -> str:
        """As a person is told."""
        if self.regard is None:
            return f"words count {self.share:.0%} of the ranking"
        return (
            f"words count {self.share:.0%} of the ranking: the encoder holds the first {FIRST} by words for "
            f"{self.regard:.0%} as near as its own first {FIRST}"
        )


def reciprocal_rank_fusion(
    rankings: Sequence[NDArray[np.int64]], k: int = 60, weights: Sequence[float] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fuse rankings by rank: a passage's score is the sum over the rankings of weight / (k + rank).

    rankings: passage numbers, best first, each; a passage may be missing from some
    weights:  one a ranking; None = 1 each
    returns:  every passage by falling score, ties by rising number, (n,), and the scores, (n,)

    Cormack, Clarke & Buettcher 2009, https://doi.org/10.1145/1571941.1572114
    """
    given = [1.0] * len(rankings) if weights is None else list(weights)
    if k < 0 or len(given) != len(rankings):
        raise BadInputError(
            f"{len(given)} weights for {len(rankings)} rankings, k = {k}. Give a weight a ranking and k >= 0"
        )
    if not rankings:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
    ids, places = np.unique(np.concatenate(rankings).astype(np.int64), return_inverse=True)
    shares = [
        weight / (k + np.arange(1, ranking.size + 1)) for weight, ranking in zip(given, rankings, strict=True)
    ]
    scores = np.zeros(ids.size)
    np.add.at(scores, places, np.concatenate(shares))
    order = np.lexsort((ids, -scores))
    return ids[order], scores[order]


def word_weight(
    nearest: NDArray[np.float64],
    by_words: NDArray[np.float64],
    centre: float,
    best_score: float,
    rarest: float,
    *,
    fixed: bool = False,
) -> WordWeight:
    """How much words count, by how near the encoder holds what they find.

    nearest:    (n,) cosines, falling, of what is found by vectors
    by_words:   (m,) cosines of what is found by words, best first
    centre:     the query's mean cosine over the collection: what a passage has by chance
    best_score: the best BM25 found
    rarest:     the inverse document frequency of a word that a single passage has

    fixed:      count both alike, whatever the cosines say

    Cosines are measured from the centre, so that encoders whose cosines all lie close together are judged as
    others are. The regard is the mean of the first five by words over that of the first five by vectors:
    where the encoder finds the best matches by words hardly nearer than any passage, the words have met by
    chance. The share of words is the regard, within bounds, and less where the words are so common that the
    best BM25 is under a quarter of what a word is worth that a single passage has: "the" counts for nothing.
    """
    if not by_words.size or not nearest.size or best_score <= 0:
        return WordWeight(0.0, None, 1.0, 0.0)
    spread = max(float(nearest[0]) - centre, 0.0)
    own = max(float(nearest[:FIRST].mean()) - centre, 1e-9)
    regard = min(max(float(by_words[:FIRST].mean()) - centre, 0.0) / own, 1.0)
    share = _FIXED if fixed else min(max(regard, _LEAST), _MOST)
    share *= min(best_score / max(_WORTH * rarest, 1e-9), 1.0)
    return WordWeight(share, None if fixed else regard, best_score, spread * share / (1 - share))


def weighted_fusion(
    cosines: NDArray[np.float64], scores: NDArray[np.float64], weight: WordWeight
) -> NDArray[np.float64]:
    """Fuse by score: cosine + gain · BM25 / full score.

    cosines, scores: (n,), of the same passages; 0 where there is none
    returns:         (n,), comparable within one query only; a passage without words keeps its cosine

    It orders as the convex combination of Bruch, Gai & Ingber 2023 (https://doi.org/10.1145/3596512) does,
    (1 - share) · (cosine - centre) / (best - centre) + share · BM25 / full score: an encoder whose cosines
    all lie close together gives the same order as one whose cosines are spread.
    """
    return cosines + weight.gain * scores / weight.full_score
