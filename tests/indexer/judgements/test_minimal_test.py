"""Judging what decides first, and knowing when it is decided."""

from collections import Counter
from dataclasses import replace
from math import log2

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.metrics import dcg_score

from nearsay.data.errors import BadInputError
from nearsay.indexer.judgements.judging import MinimalTest, Pair, Verdict, discounts


def rankings(
    random: np.random.Generator, queries: int, shift: float
) -> tuple[dict[str, list[int]], dict[str, list[int]], dict[Pair, bool]]:
    """Two rankings of 40 passages a query, of which the second is better by `shift`, and what is relevant."""
    first, second, relevant = {}, {}, {}
    for at in range(queries):
        answers = random.random(40) < 0.1
        for ranking, bonus in ((first, 1.0), (second, 1.0 + shift)):
            scores = random.normal(size=40) + bonus * answers
            ranking[f"q{at}"] = np.argsort(-scores)[:15].tolist()
        relevant |= {(f"q{at}", place): bool(answer) for place, answer in enumerate(answers)}
    return first, second, relevant


def test_the_weight_of_a_passage_is_what_its_two_ranks_are_worth() -> None:
    test = MinimalTest({"q": ["a", "b", "c"]}, {"q": ["b", "a", "c"]})
    weights = dict(zip(test.pairs, test.weights.tolist(), strict=True))
    gap = 1 - 1 / log2(3)
    assert weights == {("q", "a"): pytest.approx(-gap), ("q", "b"): pytest.approx(gap)}  # c decides nothing
    assert discounts(12).tolist()[10:] == [0.0, 0.0]


def test_with_every_judgement_the_difference_is_that_of_dcg() -> None:
    first, second, relevant = rankings(np.random.default_rng(1), 12, 1.0)
    found = MinimalTest(first, second).difference(relevant)
    expected = []
    for query in first:
        gains = np.array([[float(relevant[query, place]) for place in range(40)]])
        worth = []
        for ranking in (first[query], second[query]):
            scores = np.zeros((1, 40))
            scores[0, ranking] = np.arange(len(ranking), 0, -1)
            worth.append(dcg_score(gains, scores, k=10))
        expected.append(worth[1] - worth[0])
    assert found.difference == pytest.approx(np.mean(expected))
    assert (found.interval.low, found.interval.high) == (found.difference, found.difference)
    assert (found.verdict, found.unjudged, found.needed) == (Verdict.SECOND, 0, 0)


def test_what_comes_first_is_drawn_with_chances_by_weight_and_openness() -> None:
    first, second = {"q": ["a", "b", "c"]}, {"q": ["c", "a", "b"]}
    worth, expected = discounts(3), {"a": 1 / 2, "b": 1 / 3, "c": 1 / 2}  # 1 / (1 + the better rank)
    weights = {"a": worth[0] - worth[1], "b": worth[1] - worth[2], "c": worth[0] - worth[2]}
    chances = np.array([weights[one] * (expected[one] * (1 - expected[one])) ** 0.5 for one in "abc"])
    drawn = Counter(MinimalTest(first, second, seed=str(seed)).pairs[0][1] for seed in range(4000))
    assert chisquare([drawn[one] for one in "abc"], 4000 * chances / chances.sum()).pvalue > 0.001


def test_the_next_is_the_first_that_nobody_judged_and_the_order_stays() -> None:
    first, second, _ = rankings(np.random.default_rng(2), 3, 0.0)
    test, again = MinimalTest(first, second), MinimalTest(first, second)
    assert test.pairs == again.pairs
    assert test.next({}) == test.pairs[0]
    assert test.next({test.pairs[0]: True, test.pairs[2]: False}) == test.pairs[1]
    assert test.next(dict.fromkeys(test.pairs, False)) is None
    assert MinimalTest(first, second, seed="another").pairs != test.pairs


@pytest.mark.long
@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_the_interval_covers_what_all_judgements_say_at_every_look(shift: float) -> None:
    missed, draws = 0, 150
    for draw in range(draws):
        first, second, relevant = rankings(np.random.default_rng(draw), 8, shift)
        test = MinimalTest(first, second, seed=str(draw))
        truth = test.difference(relevant).difference
        looks = [
            test.difference({pair: relevant[pair] for pair in test.pairs[:count]})
            for count in (9, 20, 40, 70)
        ]
        missed += not all(look.interval.low <= truth <= look.interval.high for look in looks)
    assert missed <= 11  # 5 % of 150 are 7.5


def test_judgements_made_by_hand_narrow_what_is_possible_and_count_when_their_turn_comes() -> None:
    first, second, relevant = rankings(np.random.default_rng(4), 6, 1.5)
    test = MinimalTest(first, second)
    order = {pair: relevant[pair] for pair in test.pairs}
    last = dict(list(order.items())[-30:])
    by_hand = test.difference(last)
    nothing = test.difference({})
    assert by_hand.interval.high - by_hand.interval.low < nothing.interval.high - nothing.interval.low
    assert by_hand.judged == 30
    until = dict(list(order.items())[:-30])
    assert test.difference(until | last).unjudged == 0


def test_where_bets_err_the_interval_is_what_the_judgements_leave_possible() -> None:
    """What was drawn speaks for the first, what was judged by hand for the second, as by a rare chance."""
    firsts, seconds = range(10), range(10, 20)
    test = MinimalTest({"q": firsts, "r": firsts}, {"q": seconds, "r": seconds})
    judged = {pair: pair[1] in firsts for pair in test.pairs[:14]}
    for pair in reversed(test.pairs[15:]):
        judged[pair] = pair[1] in seconds
        found = test.difference(judged)
        assert found.interval.low <= found.difference <= found.interval.high
    every = [test.difference(judged | {test.pairs[14]: answers}).difference for answers in (False, True)]
    assert (found.interval.low, found.interval.high) == pytest.approx(sorted(every))


@pytest.mark.parametrize("draw", range(6))
def test_judgements_that_were_chosen_otherwise_all_count_for_the_difference(draw: int) -> None:
    first, second, relevant = rankings(np.random.default_rng(draw), 40, 0.0)
    test = MinimalTest(first, second)
    truth = test.difference(relevant).difference
    gap = next(place for place in range(3, 50) if not relevant[test.pairs[place]])
    imported = [pair for place, pair in enumerate(test.pairs) if place < gap or (place > gap and place % 3)]
    found = test.difference({pair: relevant[pair] for pair in imported})
    assert (found.judged, found.drawn) == (len(imported), gap)
    assert found.difference == pytest.approx(truth, abs=0.2)  # of the first few alone up to 4 away
    assert found.verdict is Verdict.OPEN
    assert found.needed is not None
    assert 0 < found.needed <= found.unjudged
    assert f"{len(imported)} judgements, {gap} of them in the drawn order" in found.said("dense", "hybrid")


def test_one_judgement_by_hand_does_not_move_the_difference() -> None:
    first, second, relevant = rankings(np.random.default_rng(3), 40, 3.0)
    test = MinimalTest(first, second)
    drawn = {pair: relevant[pair] for pair in test.pairs[:60]}
    before, after = test.difference(drawn), test.difference(drawn | {test.pairs[-1]: True})
    assert after.difference == before.difference
    assert (before.drawn, after.drawn, after.judged) == (60, 60, 61)
    assert "in the drawn order" not in before.said("dense", "hybrid")


def test_a_clear_difference_is_decided_early_and_how_many_more_is_said() -> None:
    first, second, relevant = rankings(np.random.default_rng(5), 60, 4.0)
    test = MinimalTest(first, second)
    early = test.difference({pair: relevant[pair] for pair in test.pairs[:10]})
    assert early.verdict is Verdict.OPEN
    assert early.needed is not None
    assert 0 < early.needed < 0.3 * len(test.pairs)
    share = len(test.pairs) // 5
    found = test.difference({pair: relevant[pair] for pair in test.pairs[:share]})
    assert (found.verdict, found.needed) == (Verdict.SECOND, 0)


def test_rankings_alike_but_for_what_does_not_matter_are_equal() -> None:
    first = {f"q{at}": list(range(10)) for at in range(50)}
    second = dict(first) | {"q0": [0, 1, 2, 3, 4, 5, 6, 7, 9, 8]}
    found = MinimalTest(first, second).difference({})
    assert (found.verdict, found.unjudged) == (Verdict.EQUAL, 2)
    assert MinimalTest(first, first).difference({}).verdict is Verdict.EQUAL


def test_rankings_of_other_queries_are_no_comparison() -> None:
    with pytest.raises(BadInputError, match="two rankings"):
        MinimalTest({"a": [1]}, {"b": [1]})


def test_rankings_alike_leave_nothing_to_decide_and_no_judgement_is_claimed() -> None:
    alike = {"q": ["a", "b"]}
    found = MinimalTest(alike, alike).difference({})
    assert (found.verdict, found.judged, found.unjudged) == (Verdict.EQUAL, 0, 0)
    assert "judgement" not in found.said("dense", "hybrid")


def test_a_difference_of_nothing_has_no_minus() -> None:
    alike = {"q": ["a", "b"]}
    found = MinimalTest(alike, alike).difference({})
    assert "at most 0.000" in found.said("dense", "hybrid")
    open_yet = replace(found, difference=-0.0001, verdict=Verdict.OPEN)
    assert "hybrid minus dense +0.000 [" in open_yet.said("dense", "hybrid")
