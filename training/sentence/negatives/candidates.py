"""From the ranking of an anchor to the texts that may be its negatives."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.negatives.mining_config import MiningConfig

__all__ = ["Candidates", "Filter", "candidates"]


class Filter(StrEnum):
    """What takes a candidate away, in the order in which they are asked."""

    KNOWN = "known"
    RANK = "rank"
    MIN_SCORE = "min-score"
    MAX_SCORE = "max-score"
    ABSOLUTE_MARGIN = "absolute-margin"
    RELATIVE_MARGIN = "relative-margin"
    JUDGE = "judge"

    @property
    def reason(self) -> str:
        """Why a text was left out, for people."""
        return _REASONS[self]


_REASONS: Final = {
    Filter.KNOWN: "known to belong to the anchor",
    Filter.RANK: "nearer than the first rank",
    Filter.MIN_SCORE: "below the lowest score",
    Filter.MAX_SCORE: "above the highest score",
    Filter.ABSOLUTE_MARGIN: "within the absolute margin",
    Filter.RELATIVE_MARGIN: "within the relative margin",
    Filter.JUDGE: "false negatives to a judge",
}


@dataclass(frozen=True, slots=True)
class Candidates:
    """Corpus texts in falling order of score; all arrays (candidates,)."""

    rows: NDArray[np.int64]  # in the corpus
    scores: NDArray[np.float32]  # cosine similarity to the anchor
    ranks: NDArray[np.int64]  # 1 = the nearest that is not known to belong to the anchor

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, positions: NDArray[np.int64] | NDArray[np.bool_]) -> "Candidates":
        """The candidates at positions, or where a mask is true."""
        return Candidates(self.rows[positions], self.scores[positions], self.ranks[positions])


def candidates(
    rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    known: NDArray[np.bool_],
    positive: float,
    config: MiningConfig,
) -> tuple[Candidates, Counter[Filter]]:
    """Give what ranks, margins and score bounds leave of an anchor's ranking, and how many each took.

    rows, scores: (k,), best first
    known:        (k,), True = belongs to the anchor; such texts are taken away before ranks are counted
    positive:     the lowest score of the anchor's positives

    A candidate counts for the first filter that takes it; texts beyond the last rank are not counted at all.
    """
    kept = np.flatnonzero(~known)[: config.last_rank]
    left = Candidates(rows[kept], scores[kept], np.arange(1, len(kept) + 1, dtype=np.int64))
    looked_at = len(known) if len(kept) < config.last_rank else int(kept[-1]) + 1
    taken = Counter({Filter.KNOWN: int(known[:looked_at].sum())})
    alive = np.ones(len(left), dtype=np.bool_)
    for name, passes in _bounds(left, positive, config):
        taken[name] += int((alive & ~passes).sum())
        alive &= passes
    return left.at(alive), taken


def _bounds(
    left: Candidates, positive: float, config: MiningConfig
) -> Iterator[tuple[Filter, NDArray[np.bool_]]]:
    yield Filter.RANK, left.ranks >= config.first_rank
    if config.min_score is not None:
        yield Filter.MIN_SCORE, left.scores >= config.min_score
    if config.max_score is not None:
        yield Filter.MAX_SCORE, left.scores <= config.max_score
    if config.absolute_margin is not None:
        yield Filter.ABSOLUTE_MARGIN, left.scores <= positive - config.absolute_margin
    if config.relative_margin is not None:
        # Not (1 - margin) times the score: of a positive below 0 that would be above it.
        yield Filter.RELATIVE_MARGIN, left.scores <= positive - abs(positive) * config.relative_margin
