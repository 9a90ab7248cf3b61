"""Two rankings become one list, and marks tell which is preferred."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest

from nearsay.indexer.judgements.judging import Verdict, preference, sign_test, team_draft, won

FIRST, SECOND, EQUAL = Verdict.FIRST, Verdict.SECOND, Verdict.EQUAL


def test_captains_choose_in_turn_what_is_not_taken() -> None:
    for seed in range(20):
        drawn = team_draft("abcd", "bxyz", 4, np.random.default_rng(seed))
        items = "".join(item for item, _ in drawn)
        assert items[:2] in ("ab", "ba", "bx")
        assert Counter(team for _, team in drawn) == {FIRST: 2, SECOND: 2}
        for team, ranking in ((FIRST, "abcd"), (SECOND, "bxyz")):
            own = [ranking.index(item) for item, chosen in drawn if chosen is team]
            assert own == sorted(own)


def test_the_same_ranking_twice_gives_that_ranking_and_neither_side_more() -> None:
    counts = Counter[Verdict]()
    for seed in range(400):
        drawn = team_draft("abcde", "abcde", 5, np.random.default_rng(seed))
        assert "".join(item for item, _ in drawn) == "abcde"
        counts[drawn[0][1]] += 1
    assert binomtest(counts[FIRST], 400).pvalue > 0.001


def test_a_ranking_that_is_at_its_end_leaves_the_rest_to_the_other() -> None:
    drawn = team_draft("a", "bcd", 10, np.random.default_rng(0))
    assert sorted(item for item, _ in drawn) == ["a", "b", "c", "d"]
    assert team_draft("", "", 10, np.random.default_rng(0)) == []


def test_who_has_more_marks_wins_the_query() -> None:
    assert won([]) is EQUAL
    assert won([FIRST, SECOND]) is EQUAL
    assert won([SECOND, FIRST, SECOND]) is SECOND
    assert won([FIRST]) is FIRST


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (5, 0), (3, 9), (20, 21), (40, 10)])
def test_the_sign_test_is_the_exact_binomial_test(first: int, second: int) -> None:
    games = first + second
    expected = binomtest(first, games).pvalue if games else 1.0
    assert sign_test(first, second) == pytest.approx(expected)


def test_a_preference_is_decided_when_its_interval_leaves_one_half() -> None:
    assert preference([]).verdict is Verdict.OPEN
    few = preference([SECOND] * 4 + [EQUAL])
    assert (few.first, few.second, few.ties, few.verdict) == (0, 4, 1, Verdict.OPEN)
    assert preference([SECOND] * 20).verdict is SECOND
    assert preference([FIRST] * 20).verdict is FIRST
    assert preference([FIRST, SECOND] * 20).verdict is Verdict.OPEN


@pytest.mark.long
def test_between_rankings_alike_it_is_seldom_decided_however_often_one_looks() -> None:
    wrong = naive = 0
    for draw in range(150):
        outcomes = [SECOND if heads else FIRST for heads in np.random.default_rng(draw).random(60) < 0.5]
        looks = [preference(outcomes[:seen]) for seen in range(6, 61, 3)]
        wrong += any(look.verdict is not Verdict.OPEN for look in looks)
        naive += any(look.p_value < 0.05 for look in looks)
    assert wrong <= 11  # 5 % of 150 are 7.5
    assert naive > wrong  # who stops at the first p below .05 is wrong more often
