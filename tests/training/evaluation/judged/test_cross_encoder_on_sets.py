"""Cross-encoders on judged sets: what they need is a score of a pair."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.judged.bootstrap import bootstrap_interval
from nearsay.training.evaluation.judged.clustering import ClusteringSet
from nearsay.training.evaluation.judged.judged_set import JudgedSet, evaluate_judged_set
from nearsay.training.evaluation.judged.lists import Candidates, RerankingSet, TripletSet
from nearsay.training.evaluation.judged.pairs import PairSet, StsSet


class LengthScorer:
    """Scores a pair by the length of its second text, and cuts what is longer than 4 characters."""

    name = "lengths"

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return np.array([len(second) for _, second in pairs], dtype=np.float32)

    def cut(self, pairs: Sequence[tuple[str, str]]) -> int:
        return sum(len(second) > 4 for _, second in pairs)


def test_candidates_are_ranked_by_the_scores_of_query_and_candidate() -> None:
    lists = (Candidates("q", ("aaa", "a"), ("aa",)), Candidates("r", ("aa",), ("aaaaa", "a")))
    outcome = evaluate_judged_set(LengthScorer(), RerankingSet("lists", lists))
    # The positives are at the ranks 1 and 3, and at the rank 2.
    assert outcome.metrics["map"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2) / 2)
    assert outcome.metrics["mrr_at_10"] == pytest.approx((1 + 1 / 2) / 2)
    first = (1 + 1 / np.log2(4)) / (1 + 1 / np.log2(3))
    assert outcome.metrics["ndcg_at_10"] == pytest.approx((first + 1 / np.log2(3)) / 2)
    assert (outcome.truncated, outcome.items, outcome.details["candidates"]) == (1, 2, 6)
    assert bootstrap_interval(outcome).low < outcome.figure < bootstrap_interval(outcome).high


def test_pairs_triplets_and_scored_pairs_take_the_score_for_the_similarity() -> None:
    pairs = PairSet("pairs", (("a", "aaa", True), ("a", "aa", False), ("a", "a", True)))
    found = evaluate_judged_set(LengthScorer(), pairs).metrics
    assert found["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert not any("dot" in name for name in found)
    triplets = TripletSet("triplets", ((("a", "aa", "a"),), (("a", "a", "a"),), (("a", "aaa", "aa"),)))
    assert evaluate_judged_set(LengthScorer(), triplets).metrics == {"accuracy": pytest.approx(2 / 3)}
    scored = tuple(ScoredPair("a", "a" * length, float(length)) for length in (1, 2, 4))
    assert evaluate_judged_set(LengthScorer(), StsSet("sts", scored)).metrics == {
        "spearman": pytest.approx(100),
        "pearson": pytest.approx(100),
    }


def test_pairs_are_reported_while_they_are_scored() -> None:
    told: list[tuple[int, int]] = []
    pairs = PairSet("pairs", (("a", "a", True),) * 1500)
    evaluate_judged_set(LengthScorer(), pairs, progress=lambda done, total: told.append((done, total)))
    assert told == [(1024, 1500), (1500, 1500)]


def test_a_set_that_compares_vectors_refuses_a_cross_encoder() -> None:
    judged: JudgedSet = ClusteringSet("clusters", (("a", "x"), ("b", "y")))
    with pytest.raises(BadInputError, match=r"clusters .* clustering.* lengths .*reranking"):
        evaluate_judged_set(LengthScorer(), judged)
