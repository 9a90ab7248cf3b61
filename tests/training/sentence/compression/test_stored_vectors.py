from collections.abc import Callable

import numpy as np
import pytest

from nearsay.training.sentence.compression.comparison import Stored, as_bits, as_int8, as_numbers, as_signs
from nearsay.training.sentence.compression.quantisation import int8_codes, int8_ranges, int8_restored

QUERY = np.array([0.9, 0.1, 0.4], dtype=np.float32)
DOCUMENTS = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [0.1, 0.1, 2]], dtype=np.float32)
# products with the query: 1.4, 1.2, -0.4, 0.9; signs differ from the query's in 0, 1, 1, 0 dimensions


def random_unit(rows: int, dimension: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_float_vectors_are_ranked_by_dot_product() -> None:
    stored = as_numbers(DOCUMENTS)
    assert stored.nearest(QUERY, 4).tolist() == [0, 1, 3, 2]
    assert stored.nearest(QUERY, 2).tolist() == [0, 1]
    assert stored.bytes_per_vector == 12
    np.testing.assert_allclose(stored.scores(QUERY, np.array([3, 2])), [0.9, -0.4], atol=1e-6)


def test_half_the_bytes_rank_the_same_here() -> None:
    stored = as_numbers(DOCUMENTS.astype(np.float16))
    assert stored.nearest(QUERY, 4).tolist() == [0, 1, 3, 2]
    assert stored.bytes_per_vector == 6


def test_int8_scores_are_products_with_restored_numbers_but_for_one_constant() -> None:
    documents, query = random_unit(200, 16, 0), random_unit(1, 16, 1)[0]
    stored, ranges = as_int8(documents), int8_ranges(documents)
    wanted = int8_restored(int8_codes(documents, ranges), ranges) @ query
    np.testing.assert_allclose(np.ptp(wanted - stored.scores(query, None)), 0, atol=1e-5)
    assert stored.bytes_per_vector == 16
    assert stored.nearest(query, 200).tolist() == np.argsort(-wanted, kind="stable").tolist()


def test_binary_vectors_are_ranked_by_bits_that_differ_and_then_by_row() -> None:
    stored = as_bits(DOCUMENTS)
    assert stored.nearest(QUERY, 4).tolist() == [0, 3, 1, 2]
    assert stored.bytes_per_vector == 1


def test_rescoring_by_the_signs_tells_equal_distances_apart_without_further_bytes() -> None:
    # Documents 1 and 2 differ in one sign each; the query leans on the first dimension, where 1 agrees.
    turned = DOCUMENTS[[2, 1]]
    assert as_bits(turned).nearest(QUERY, 2).tolist() == [0, 1]
    rescored = as_bits(turned, as_signs)
    assert rescored.nearest(QUERY, 2).tolist() == [1, 0]
    assert rescored.bytes_per_vector == 1


@pytest.mark.parametrize(("finer", "further"), [(as_numbers, 12), (as_int8, 3)])
def test_rescoring_by_finer_vectors_ranks_the_candidates_as_they_do(
    finer: Callable[[np.ndarray], Stored], further: int
) -> None:
    stored = as_bits(DOCUMENTS, finer)
    assert stored.nearest(QUERY, 4).tolist() == [0, 1, 3, 2]
    assert stored.bytes_per_vector == 1 + further


def test_the_candidates_hold_most_of_the_exact_answer() -> None:
    documents, queries = random_unit(2000, 64, 0), random_unit(20, 64, 1)
    exact = as_numbers(documents)
    stored, bare = as_bits(documents, as_numbers), as_bits(documents)

    def found(some: Stored) -> float:
        hits = [len(np.intersect1d(exact.nearest(query, 10), some.nearest(query, 10))) for query in queries]
        return float(np.mean(hits)) / 10

    assert found(bare) < found(stored) < 1
