"""One ranking out of two: by vectors and by words."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

__all__ = ["FLOOR", "WEIGHT", "Fusion", "reciprocal_rank_fusion", "weighted_fusion", "word_shares"]

WEIGHT: Final = 0.2  # of a full match by words, where cosines go from 0 (by chance) to 1
FLOOR: Final = 0.4  # the share of a full match that a passage needs before its words count


class Fusion(StrEnum):
    """How hybrid search puts the two rankings together."""

    WEIGHTED = "weighted"  # by their scores
    RECIPROCAL_RANK = "rrf"  # by their ranks alone


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


def word_shares(scores: NDArray[np.float64], full_score: float) -> NDArray[np.float64]:
    """How much of a full match by words passages are, by their BM25, 0 for none of the query's words.

    full_score: see `LexicalCandidates`; such a passage gets 1, one that has more, or repeats them, more.
    Measured by the best score found, the best of bad ones would count as good.
    """
    return scores / full_score if full_score > 0 else np.zeros_like(scores)


def weighted_fusion(
    cosines: NDArray[np.float64],
    shares: NDArray[np.float64],
    chance: float = 0.0,
    weight: float = WEIGHT,
    floor: float = FLOOR,
) -> NDArray[np.float64]:
    """Fuse by score: cosine + weight · (1 - chance) · max(0, share - floor) / (1 - floor).

    cosines, shares: (n,), of the same passages; 0 where there is none
    chance:          the mean cosine of two passages, so that the order is the same for an encoder whose
                     cosines all lie close together

    It orders as the convex combination does that Bruch, Gai & Ingber 2023 study
    (https://doi.org/10.1145/3596512), with BM25 measured by what a full match would get, and a floor: a
    passage that shares a few words by chance gains nothing, and its score is its cosine.
    """
    counted: NDArray[np.float64] = np.maximum(0.0, shares - floor) / (1.0 - floor)
    return cosines + weight * (1.0 - chance) * counted
