"""nDCG, reciprocal rank, recall and exact search."""

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from nearsay.training.evaluation import retrieval
from nearsay.training.evaluation.rank_metrics import ndcg, recall, reciprocal_rank
from nearsay.training.evaluation.retrieval import nearest

JUDGEMENTS = {"a": 2, "b": 1, "c": 0, "x": 1}


def test_ndcg_worked_by_hand() -> None:
    found = 1 / log2(2) + 0 / log2(3) + 2 / log2(4)  # b, c, a
    best = 2 / log2(2) + 1 / log2(3) + 1 / log2(4)  # a, b, x
    assert ndcg(["b", "c", "a"], JUDGEMENTS) == pytest.approx(found / best)


def test_ndcg_gain_is_linear() -> None:
    # With gain 2**relevance - 1 this would be (1 + 3 / log2(3)) / (3 + 1 / log2(3)) = 0.797.
    assert ndcg(["b", "a"], {"a": 2, "b": 1}) == pytest.approx((1 + 2 / log2(3)) / (2 + 1 / log2(3)))


def test_the_best_ranking_has_ndcg_one_and_better_is_higher() -> None:
    assert ndcg(["a", "x", "b", "c"], JUDGEMENTS) == pytest.approx(1)
    assert ndcg(["a", "b"], {"a": 2, "b": 1}) > ndcg(["b", "a"], {"a": 2, "b": 1})


def test_documents_beyond_the_depth_do_not_count() -> None:
    ranking = ["u", "v", "a"]
    assert ndcg(ranking, {"a": 1}, depth=2) == reciprocal_rank(ranking, {"a": 1}, depth=2) == 0
    assert recall(ranking, {"a": 1}, depth=2) == 0
    assert ndcg(ranking, {"a": 1}, depth=3) == pytest.approx(0.5)
    assert reciprocal_rank(ranking, {"a": 1}, depth=3) == pytest.approx(1 / 3)
    assert recall(ranking, {"a": 1}, depth=3) == 1


def test_the_best_possible_is_cut_at_the_depth_too() -> None:
    assert ndcg(["a"], {"a": 1, "b": 1, "c": 1}, depth=1) == 1


def test_nothing_relevant_gives_zero() -> None:
    for metric in (ndcg, reciprocal_rank, recall):
        assert metric(["a"], {"a": 0}) == metric(["a"], {}) == metric([], {"a": 1}) == 0


def test_judgements_below_zero_count_as_zero() -> None:
    assert ndcg(["z", "a"], {"z": -1, "a": 1}) == pytest.approx(1 / log2(3))


def test_recall_is_a_share_of_the_relevant() -> None:
    assert recall(["a", "c", "q"], JUDGEMENTS) == pytest.approx(1 / 3)
    assert recall(["a", "b", "x"], JUDGEMENTS) == 1


def test_the_reciprocal_rank_is_of_the_first_relevant() -> None:
    assert reciprocal_rank(["c", "u", "b", "a"], JUDGEMENTS) == pytest.approx(1 / 3)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.integers(1, 30))
def test_ndcg_agrees_with_scikit_learn(relevances: list[int], depth: int) -> None:
    documents = [str(number) for number in range(len(relevances))]
    scores = -np.arange(len(relevances), dtype=float)
    expected = ndcg_score([relevances], [scores], k=depth)
    judgements = dict(zip(documents, relevances, strict=True))
    assert ndcg(documents, judgements, depth=depth) == pytest.approx(expected)


@given(st.integers(0, 10_000), st.integers(1, 25), st.integers(1, 30))
def test_nearest_agrees_with_a_full_sort_and_breaks_ties_by_row(
    seed: int, documents: int, depth: int
) -> None:
    random = np.random.default_rng(seed)
    corpus = random.integers(-1, 2, (documents, 3)).astype(
        np.float32
    )  # few values: many ties, exact products
    queries = random.integers(-1, 2, (4, 3)).astype(np.float32)
    scores = queries @ corpus.T
    for row, found in enumerate(nearest(queries, corpus, depth=depth)):
        expected = np.lexsort((np.arange(documents), -scores[row]))[:depth]
        np.testing.assert_array_equal(found, expected)


def test_nearest_gives_the_same_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    corpus = random.standard_normal((50, 8)).astype(np.float32)
    queries = random.standard_normal((7, 8)).astype(np.float32)
    whole = list(nearest(queries, corpus, depth=5))
    monkeypatch.setattr(retrieval, "_BLOCK_SCORES", 100)
    np.testing.assert_array_equal(list(nearest(queries, corpus, depth=5)), whole)
