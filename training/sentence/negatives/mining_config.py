"""Which of the texts near an anchor are taken as its negatives."""

import math
from dataclasses import dataclass
from enum import StrEnum

from nearsay.data.errors import BadInputError

__all__ = ["Incomplete", "MiningConfig", "NegativeSampling"]

_MOST_RANKS = 10_000


class NegativeSampling(StrEnum):
    """TOP takes the hardest that every filter lets through; RANDOM draws among all of them."""

    TOP = "top"
    RANDOM = "random"


class Incomplete(StrEnum):
    """What becomes of an anchor with some negatives, but fewer than were asked for.

    DROP leaves it out. KEEP takes what there is: a row that lacks some repeats those that it has, since all
    rows of a file are equally wide (triplets have nothing to fill). Without any it is left out in both.
    """

    DROP = "drop"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class MiningConfig:
    """The choices of mining; BadInputError for values that cannot be.

    A score is the cosine similarity of anchor and text by the mining encoder; an anchor with several
    positives is held to its lowest-scoring one. The relative margin is the "TopK-PercPos" of NV-Retriever,
    whose 95 % of the positive's score is a margin of 0.05: https://arxiv.org/abs/2407.15831
    """

    per_anchor: int = 3  # negatives wanted for each anchor
    first_rank: int = 1  # the nearest text that is not known to belong to the anchor has rank 1
    last_rank: int = 100  # texts farther than this one are not looked at
    relative_margin: float | None = 0.05  # score at most positive - |positive| * this; None: no such bound
    absolute_margin: float | None = None  # score at most positive - this; None: no such bound
    min_score: float | None = None  # score at least this; None: no such bound
    max_score: float | None = None  # score at most this; None: no such bound
    judge_margin: float = 0.0  # a judge drops what it scores above its positive - this, in the judge's scores
    sampling: NegativeSampling = NegativeSampling.TOP
    incomplete: Incomplete = Incomplete.DROP
    triplets: bool = False  # a row for each negative, instead of one row with all of them
    seed: int = 0  # of random sampling

    def __post_init__(self) -> None:
        object.__setattr__(self, "sampling", NegativeSampling(self.sampling))
        object.__setattr__(self, "incomplete", Incomplete(self.incomplete))
        if self.per_anchor < 1:
            raise BadInputError(f"{self.per_anchor} negatives an anchor are none. Ask for 1 or more")
        if not 1 <= self.first_rank <= self.last_rank <= _MOST_RANKS:
            raise BadInputError(
                f"the ranks {self.first_rank}-{self.last_rank} are no range. Give two numbers from 1 to "
                f"{_MOST_RANKS}, the smaller first, as in 10-100"
            )
        if self.last_rank - self.first_rank + 1 < self.per_anchor:
            raise BadInputError(
                f"the ranks {self.first_rank}-{self.last_rank} hold fewer texts than the {self.per_anchor} "
                "negatives an anchor that are wanted. Widen the ranks or ask for fewer"
            )
        self._check_scores()
        if self.seed < 0:
            raise BadInputError(f"the seed is {self.seed}. Give 0 or more")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a row's texts."""
        if self.triplets or self.per_anchor == 1:
            return ("anchor", "positive", "negative")
        return ("anchor", "positive", *(f"negative_{number + 1}" for number in range(self.per_anchor)))

    @property
    def least(self) -> int:
        """Negatives that an anchor needs to be in the rows."""
        return 1 if self.incomplete is Incomplete.KEEP else self.per_anchor

    def _check_scores(self) -> None:
        bounds = {
            "relative margin": self.relative_margin,
            "absolute margin": self.absolute_margin,
            "lowest score": self.min_score,
            "highest score": self.max_score,
            "judge's margin": self.judge_margin,
        }
        for name, value in bounds.items():
            if value is not None and not math.isfinite(value):
                raise BadInputError(f"the {name} is {value}. Give a number")
        if self.relative_margin is not None and not 0 <= self.relative_margin <= 1:
            raise BadInputError(
                f"the relative margin is {self.relative_margin}. Give a share of the positive's score from 0 "
                "to 1, as in 0.05"
            )
        if self.min_score is not None and self.max_score is not None and self.min_score > self.max_score:
            raise BadInputError(
                f"no score is at least {self.min_score} and at most {self.max_score}. "
                "Give a lowest score that is not above the highest"
            )
