"""One ranking out of two."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.errors import BadInputError
from nearsay.indexer.hybrid.fusion import (
    FIRST,
    WordWeight,
    reciprocal_rank_fusion,
    weighted_fusion,
    word_weight,
)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_reciprocal_ranks_add_up() -> None:
    ids, scores = reciprocal_rank_fusion([numbers(7, 3), numbers(3, 9)])
    assert ids.tolist() == [3, 7, 9]
    assert scores == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])


def test_a_smaller_k_lets_the_first_ranks_weigh_more() -> None:
    rankings = [numbers(1, 2, 3), numbers(4, 2, 3)]
    assert reciprocal_rank_fusion(rankings, k=60)[0].tolist() == [2, 3, 1, 4]
    assert reciprocal_rank_fusion(rankings, k=0)[0].tolist() == [1, 2, 4, 3]


def test_a_ranking_that_weighs_more_decides() -> None:
    rankings = [numbers(1, 2), numbers(2, 1)]
    assert reciprocal_rank_fusion(rankings, weights=[2, 1])[0].tolist() == [1, 2]
    assert reciprocal_rank_fusion(rankings, weights=[1, 2])[0].tolist() == [2, 1]
    assert reciprocal_rank_fusion(rankings)[0].tolist() == [1, 2]  # a tie: by number


def test_no_ranking_gives_nothing() -> None:
    assert reciprocal_rank_fusion([])[0].size == 0
    assert reciprocal_rank_fusion([numbers(), numbers()])[0].size == 0


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInputError, match="1 weights for 2 rankings, k = 60"):
        reciprocal_rank_fusion([numbers(1), numbers(2)], weights=[1.0])
    with pytest.raises(BadInputError, match="k >= 0"):
        reciprocal_rank_fusion([numbers(1)], k=-1)


@given(st.lists(st.permutations(range(8)).flatmap(lambda all_: st.just(all_[:5])), min_size=1, max_size=4))
def test_it_is_the_sum_written_out(rankings: list[list[int]]) -> None:
    ids, scores = reciprocal_rank_fusion([numbers(*ranking) for ranking in rankings])
    expected = {
        number: sum(1 / (61 + ranking.index(number)) for ranking in rankings if number in ranking)
        for number in {number for ranking in rankings for number in ranking}
    }
    assert dict(zip(ids.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected)
    assert all(a >= b for a, b in pairwise(scores))


def weight(near: list[float], by_words: list[float], centre: float = 0.0, best: float = 8.0) -> WordWeight:
    return word_weight(np.array(near), np.array(by_words), centre, best, rarest=8.0)


def test_words_count_as_much_as_the_encoder_holds_their_best_for_near() -> None:
    found = weight([0.9, 0.7], [0.5, 0.4], centre=0.2)
    assert found.regard == pytest.approx(0.25 / 0.6)
    assert found.share == pytest.approx(0.25 / 0.6)
    assert found.gain == pytest.approx(0.7 * found.share / (1 - found.share))  # of the best cosine's 0.7
    assert found.full_score == 8.0


def test_what_words_count_has_bounds() -> None:
    strangers, twins = weight([0.9] * 5, [-0.1] * 5), weight([0.9] * 5, [0.9] * 5)
    assert 0 < strangers.share < 0.5 < twins.share < 1
    assert (strangers.regard, twins.regard) == (0.0, 1.0)


def test_only_the_first_of_either_ranking_say_how_much_words_count() -> None:
    near, by_words = [0.9, 0.8, 0.8, 0.7, 0.6, 0.2, 0.1], [0.5, 0.6, 0.1, 0.2, 0.3, 0.9, 0.9]
    assert weight(near, by_words) == weight(near[:FIRST], by_words[:FIRST])


def test_without_words_nothing_is_gained() -> None:
    cosines = np.array([0.1, 0.9, -0.2])
    none = weight([0.9, 0.1], [], best=0.0)
    assert (none.share, none.gain) == (0.0, 0.0)
    assert weighted_fusion(cosines, np.zeros(3), none).tolist() == cosines.tolist()


def test_words_that_nearly_every_passage_has_gain_next_to_nothing() -> None:
    common = weight([0.9, 0.5], [0.9, 0.5], best=2e-6)
    gained = weighted_fusion(np.zeros(1), np.array([2e-6]), common)
    assert 0 < gained[0] < 1e-5
    assert common.share < 1e-5
    assert weight([0.9, 0.5], [0.9, 0.5], best=1.0).share == pytest.approx(0.7 / 2)  # 2.0 would do


def test_the_fused_score_is_the_cosine_and_the_words_part_of_the_gain() -> None:
    fused = weighted_fusion(np.array([0.8, 0.4]), np.array([0.0, 3.0]), WordWeight(0.5, None, 6.0, 0.2))
    assert fused == pytest.approx([0.8, 0.4 + 0.2 * 0.5])


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 20)), min_size=2, max_size=20), st.floats(-0.2, 0.5))
def test_it_orders_as_the_convex_combination_of_scaled_scores(
    pairs: list[tuple[float, float]], centre: float
) -> None:
    cosines, scores = np.array(pairs).T
    best = max(float(scores.max()), 2.0)
    spread = float(cosines.max()) - centre
    if spread < 0.01:
        return
    found = word_weight(np.sort(cosines)[::-1], cosines[np.argsort(-scores)], centre, best, rarest=8.0)
    convex = (1 - found.share) * (cosines - centre) / spread + found.share * scores / best
    fused = weighted_fusion(cosines, scores, found)
    assert (fused - centre) / spread * (1 - found.share) == pytest.approx(convex, abs=1e-6)


def test_an_encoder_whose_cosines_lie_close_together_gives_the_same_order() -> None:
    generator = np.random.default_rng(3)
    cosines, scores = generator.uniform(-0.1, 0.9, 200), generator.exponential(3.0, 200)
    orders = []
    for squeeze in (1.0, 0.3, 0.05):
        seen = 1 - squeeze + squeeze * cosines
        near, by_words = np.sort(seen)[::-1], seen[np.argsort(-scores)]
        found = word_weight(near, by_words, 1 - squeeze + squeeze * 0.05, float(scores.max()), rarest=8.0)
        orders.append(np.argsort(-weighted_fusion(seen, scores, found)).tolist())
    assert orders[0] == orders[1] == orders[2]


def test_how_much_words_counted_is_said_with_the_reason() -> None:
    found = weight([0.8] * 5, [0.4] * 5)
    assert ("50%" in str(found), str(found).count("50%")) == (True, 2)
