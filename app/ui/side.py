"""One side of a comparison: a generation, and how it is searched."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.plans.plan import Plan
from nearsay.indexer.query.ranking import Fusion


class Ranking(StrEnum):
    """A search mode, with how hybrid combines its two rankings."""

    HYBRID = "hybrid"  # weighted, by scores
    BY_RANKS = "hybrid-rrf"  # by reciprocal ranks
    DENSE = "dense"
    LEXICAL = "lexical"

    @property
    def mode(self) -> SearchMode:
        """The search mode."""
        return SearchMode(self.value.removesuffix("-rrf"))

    @property
    def fusion(self) -> Fusion:
        """How hybrid combines its rankings."""
        return Fusion.RECIPROCAL_RANK if self is Ranking.BY_RANKS else Fusion.WEIGHTED


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison."""

    generation: int
    ranking: Ranking

    def __str__(self) -> str:
        """Return its heading."""
        return f"generation {self.generation}, {self.ranking}"


def comparable(generations: Sequence[GenerationRow]) -> list[GenerationRow]:
    """The generations that can be searched, oldest first."""
    return [each for each in generations if each.state is not GenerationState.BUILDING]


def usual_sides(generations: Sequence[GenerationRow]) -> tuple[Side, Side]:
    """Return the default sides: the live generation, and the newest ready or else retired one.

    Without another generation, the second side is the live one in dense mode.

    generations: from `comparable`, one of them live
    """
    live = next(each.number for each in generations if each.state is GenerationState.LIVE)
    others = [
        each.number
        for state in (GenerationState.READY, GenerationState.RETIRED)
        for each in reversed(generations)
        if each.state is state
    ]
    beside = Side(others[0], Ranking.HYBRID) if others else Side(live, Ranking.DENSE)
    return Side(live, Ranking.HYBRID), beside


def described(generation: GenerationRow) -> str:
    """Return a generation in a few words: live · all-MiniLM-L6-v2 · 384 dimensions · exact."""
    encoder = generation.encoder
    plan = Plan.from_json(generation.plan)
    return f"{generation.state} · {encoder.name} · {encoder.dimension} dimensions · {plan.kind}"
