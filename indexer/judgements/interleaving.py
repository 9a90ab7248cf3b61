"""Two rankings shown as one, so that whoever marks what answers does not know whose it is."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import comb
from typing import TypeVar

import numpy as np

from nearsay.indexer.judgements.minimal_test import Verdict
from nearsay.training.evaluation.judged.bootstrap import Interval
from nearsay.training.evaluation.judged.confidence_sequence import sequence_of_mean

__all__ = ["Preference", "preference", "sign_test", "team_draft", "won"]

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two rankings a person prefers, as far as the queries so far say."""

    first: int  # queries of which more of the first's passages were marked
    second: int
    ties: int  # as many of both, or none
    p_value: (
        float  # of the exact sign test, two-sided, ties left out: for a number of queries fixed beforehand
    )
    share: Interval  # of the queries that the second wins, valid however often one looks; ties left out
    verdict: Verdict  # FIRST, SECOND or OPEN, by the interval


def team_draft(
    first: Sequence[Item], second: Sequence[Item], count: int, random: np.random.Generator
) -> list[tuple[Item, Verdict]]:
    """Draw one list of at most `count` from two rankings, each item with whose it is.

    As captains choose teams: whoever has fewer chooses its best that is not taken yet, by lot where both have
    as many. What both rank alike comes of either with the same chance.
    Radlinski, Kurup & Joachims 2008, https://doi.org/10.1145/1458082.1458092
    """
    rankings = {Verdict.FIRST: list(dict.fromkeys(first)), Verdict.SECOND: list(dict.fromkeys(second))}
    sizes = dict.fromkeys(rankings, 0)
    drawn: dict[Item, Verdict] = {}
    while len(drawn) < count:
        left = {team: next((one for one in rankings[team] if one not in drawn), None) for team in rankings}
        able = [team for team in rankings if left[team] is not None]
        if not able:
            break
        fewest = min(sizes[team] for team in able)
        due = [team for team in able if sizes[team] == fewest]
        team = due[int(random.integers(len(due)))]
        chosen = left[team]
        if chosen is not None:
            drawn[chosen] = team
            sizes[team] += 1
    return list(drawn.items())


def won(marked: Sequence[Verdict]) -> Verdict:
    """Whose passages were marked more often; EQUAL for a tie."""
    first, second = (sum(one is team for one in marked) for team in (Verdict.FIRST, Verdict.SECOND))
    if first == second:
        return Verdict.EQUAL
    return Verdict.FIRST if first > second else Verdict.SECOND


def sign_test(first: int, second: int) -> float:
    """The two-sided p-value of the exact sign test: how likely a share as uneven is where both are alike."""
    games = first + second
    tail = sum(comb(games, wins) for wins in range(min(first, second) + 1))
    return min(1.0, float(2 * tail / 2**games))


def preference(outcomes: Sequence[Verdict], level: float = 0.95) -> Preference:
    """What the outcomes of queries say, in their order: FIRST, SECOND or EQUAL each.

    The verdict goes by an interval that is valid however often one looks, so that one may stop as soon as it
    says which; the sign test's p-value is for a number of queries that was fixed beforehand.
    """
    counts = {team: sum(one is team for one in outcomes) for team in Verdict}
    wins = [one is Verdict.SECOND for one in outcomes if one in (Verdict.FIRST, Verdict.SECOND)]
    share = sequence_of_mean(np.array(wins, dtype=np.float64), low=0.0, high=1.0, level=level)
    verdict = Verdict.OPEN
    if share.low > 0.5:
        verdict = Verdict.SECOND
    elif share.high < 0.5:
        verdict = Verdict.FIRST
    first, second = counts[Verdict.FIRST], counts[Verdict.SECOND]
    return Preference(first, second, counts[Verdict.EQUAL], sign_test(first, second), share, verdict)
