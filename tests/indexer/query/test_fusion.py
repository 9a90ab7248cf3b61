"""One ranking out of two."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.indexer.query.ranking import reciprocal_rank_fusion, weighted_fusion, word_shares


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_reciprocal_ranks_add_up() -> None:
    ids, scores = reciprocal_rank_fusion([numbers(7, 3), numbers(3, 9)], 100)
    assert ids.tolist() == [3, 7, 9]
    assert scores == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    assert reciprocal_rank_fusion([numbers(1, 2), numbers(2, 1)], 100)[0].tolist() == [1, 2]  # by number


def test_rankings_of_nothing_give_nothing() -> None:
    assert reciprocal_rank_fusion([numbers(), numbers()], 100)[0].size == 0


RANKINGS = st.lists(st.permutations(range(8)).flatmap(lambda all_: st.just(all_[:5])), min_size=1, max_size=4)


@given(RANKINGS)
def test_it_is_the_sum_written_out(rankings: list[list[int]]) -> None:
    ids, scores = reciprocal_rank_fusion([numbers(*ranking) for ranking in rankings], 5)
    expected = {
        number: sum(1 / (61 + ranking.index(number)) for ranking in rankings if number in ranking)
        for number in {number for ranking in rankings for number in ranking}
    }
    assert dict(zip(ids.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected)
    assert all(a >= b for a, b in pairwise(scores))


@given(RANKINGS, st.integers(1, 5), st.integers(1, 5))
def test_the_first_are_the_same_however_far_down_the_rankings_go(
    rankings: list[list[int]], depth: int, cut: int
) -> None:
    whole = [numbers(*ranking) for ranking in rankings]
    ids, scores = reciprocal_rank_fusion(whole, depth)
    cut = max(cut, depth)
    some, theirs = reciprocal_rank_fusion([ranking[:cut] for ranking in whole], depth)
    assert (ids[: some.size].tolist(), scores[: some.size].tolist()) == (some.tolist(), theirs.tolist())


def test_words_are_measured_by_what_a_full_answer_would_get() -> None:
    assert word_shares(np.array([0.0, 3.0, 6.0, 9.0]), 6.0).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert word_shares(np.zeros(2), 0.0).tolist() == [0.0, 0.0]


def test_cosines_and_shares_are_weighed() -> None:
    fused = weighted_fusion(np.array([0.8, 0.4]), np.array([0.0, 0.7]), weight=0.2, floor=0.4)
    assert fused == pytest.approx([0.8, 0.4 + 0.2 * 0.5])


def test_a_few_shared_words_gain_nothing_and_many_do() -> None:
    cosines = np.full(3, 0.5)
    none, few, many = weighted_fusion(cosines, np.array([0.0, 0.39, 0.9])).tolist()
    assert none == few < many


def test_an_encoder_whose_cosines_lie_close_together_gives_the_same_order() -> None:
    generator = np.random.default_rng(3)
    cosines, shares = generator.uniform(-0.1, 0.9, 200), generator.exponential(0.5, 200)
    orders = [
        np.argsort(
            weighted_fusion(1 - squeeze + squeeze * cosines, shares, 1 - squeeze + squeeze * 0.1)
        ).tolist()
        for squeeze in (1.0, 0.3, 0.05)
    ]
    assert orders[0] == orders[1] == orders[2]


def test_without_words_the_order_is_that_of_the_cosines() -> None:
    cosines = np.array([0.1, 0.9, -0.2])
    assert np.argsort(weighted_fusion(cosines, np.zeros(3))).tolist() == np.argsort(cosines).tolist()
