from math import sqrt

import numpy as np
import pytest
from sentence_transformers.util import (
    pairwise_cos_sim,
    pairwise_dot_score,
    pairwise_euclidean_sim,
    pairwise_manhattan_sim,
)

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation import sts
from nearsay.training.evaluation.judged.lists import right_triplets, triplet_accuracy
from nearsay.training.evaluation.sts import Similarity, pair_similarities

THEIRS = {
    Similarity.COSINE: pairwise_cos_sim,
    Similarity.DOT: pairwise_dot_score,
    Similarity.EUCLIDEAN: pairwise_euclidean_sim,
    Similarity.MANHATTAN: pairwise_manhattan_sim,
}


def floats(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_they_are_worked_by_hand() -> None:
    found = pair_similarities(floats((3, 4)), floats((3, 0)))
    assert {similarity: values[0] for similarity, values in found.items()} == {
        Similarity.COSINE: pytest.approx(0.6),
        Similarity.DOT: 9,
        Similarity.EUCLIDEAN: -4,
        Similarity.MANHATTAN: -4,
    }


@pytest.mark.parametrize("similarity", Similarity)
def test_they_agree_with_sentence_transformers(
    similarity: Similarity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sts, "_BLOCK_PAIRS", 7)
    first, second = np.random.default_rng(0).standard_normal((2, 20, 8)).astype(np.float32)
    np.testing.assert_allclose(
        pair_similarities(first, second)[similarity], THEIRS[similarity](first, second).numpy(), atol=1e-5
    )


def test_a_triplet_is_right_when_its_positive_is_nearer_and_a_tie_is_wrong() -> None:
    anchors = floats((1, 0), (1, 0), (1, 0))
    positives = floats((1, 1), (1, 1), (4, 0))
    negatives = floats((0, 1), (1, -1), (1, 1))
    right = right_triplets(anchors, positives, negatives)
    # By distance (4, 0) is 3 away from its anchor and (1, 1) is 1 away; by the cosine it is the nearer one.
    assert right[Similarity.COSINE].tolist() == [True, False, True]
    assert right[Similarity.EUCLIDEAN].tolist() == [True, False, False]
    assert triplet_accuracy(right) == {
        "accuracy": pytest.approx(2 / 3),
        "accuracy_dot": pytest.approx(2 / 3),
        "accuracy_euclidean": pytest.approx(1 / 3),
        "accuracy_manhattan": pytest.approx(1 / 3),
    }


def test_the_triplet_turned_round_is_wrong() -> None:
    near, far, anchor = floats((1, 0.5)), floats((0, 1)), floats((1, 0))
    for similarity, right in right_triplets(anchor, near, far).items():
        assert right[0]
        assert not right_triplets(anchor, far, near)[similarity][0]


def test_without_triplets_there_is_no_accuracy() -> None:
    empty = np.empty((0, 2), dtype=np.float32)
    with pytest.raises(BadInputError, match="no triplets"):
        triplet_accuracy(right_triplets(empty, empty, empty))


def test_equal_vectors_have_distance_nought_and_cosine_one() -> None:
    found = pair_similarities(floats((sqrt(2), 1)), floats((sqrt(2), 1)))
    assert found[Similarity.EUCLIDEAN][0] == found[Similarity.MANHATTAN][0] == 0
    assert found[Similarity.COSINE][0] == pytest.approx(1)
