import numpy as np
import pytest

from nearsay.training.sentence.compression.comparison import VARIANTS, Variant
from nearsay.training.sentence.compression.quantisation import int8_codes, int8_ranges, int8_restored

QUERY = np.array([[0.9, 0.1, 0.4]], dtype=np.float32)
DOCUMENTS = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [0.1, 0.1, 2]], dtype=np.float32)
# products with the query: 1.4, 1.2, -0.4, 0.9; signs differ from the query's in 0, 1, 1, 0 dimensions


def random_unit(rows: int, dimension: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def variant(name: str) -> Variant:
    return next(one for one in VARIANTS if one.name == name)


def ranking(name: str, documents: np.ndarray = DOCUMENTS, depth: int = 4) -> list[int]:
    (rows,) = variant(name).rankings(QUERY, documents, depth)
    return rows.tolist()


def test_float_vectors_are_ranked_by_dot_product() -> None:
    assert ranking("float32") == [0, 1, 3, 2]
    assert ranking("float32", depth=2) == [0, 1]
    assert variant("float32").bytes_per_vector(3) == 12


def test_half_the_bytes_rank_the_same_here() -> None:
    assert ranking("float16") == [0, 1, 3, 2]
    assert variant("float16").bytes_per_vector(3) == 6


def test_int8_vectors_are_ranked_by_products_with_restored_numbers() -> None:
    documents, queries = random_unit(200, 16, 0), random_unit(1, 16, 1)
    ranges = int8_ranges(documents)
    wanted = int8_restored(int8_codes(documents, ranges), ranges) @ queries[0]
    (rows,) = variant("int8").rankings(queries, documents, 200)
    assert rows.tolist() == np.argsort(-wanted, kind="stable").tolist()
    assert variant("int8").bytes_per_vector(16) == 16


def test_binary_vectors_are_ranked_by_bits_that_differ_and_then_by_row() -> None:
    assert ranking("binary") == [0, 3, 1, 2]
    assert variant("binary").bytes_per_vector(3) == 1
    documents, queries = random_unit(300, 24, 0), random_unit(5, 24, 1)
    differing = ((documents > 0) != (queries > 0)[:, None]).sum(axis=2)
    wanted = np.argsort(differing, axis=1, kind="stable")[:, :20]
    assert np.array_equal(variant("binary").rankings(queries, documents, 20), wanted)


def test_rescoring_by_the_signs_tells_equal_distances_apart_without_further_bytes() -> None:
    # Documents 1 and 2 differ in one sign each; the query leans on the first dimension, where 1 agrees.
    turned = DOCUMENTS[[2, 1]]
    assert ranking("binary", turned, 2) == [0, 1]
    assert ranking("binary, rescored by itself", turned, 2) == [1, 0]
    assert variant("binary, rescored by itself").bytes_per_vector(3) == 1


@pytest.mark.parametrize(("finer", "further"), [("float32", 12), ("int8", 3)])
def test_rescoring_by_finer_vectors_ranks_the_candidates_as_they_do(finer: str, further: int) -> None:
    assert ranking(f"binary, rescored by {finer}") == [0, 1, 3, 2]
    assert variant(f"binary, rescored by {finer}").bytes_per_vector(3) == 1 + further


def test_the_candidates_hold_most_of_the_exact_answer() -> None:
    documents, queries = random_unit(2000, 64, 0), random_unit(20, 64, 1)
    exact = variant("float32").rankings(queries, documents, 10)

    def found(name: str) -> float:
        rankings = variant(name).rankings(queries, documents, 10)
        hits = [len(np.intersect1d(one, other)) for one, other in zip(exact, rankings, strict=True)]
        return float(np.mean(hits)) / 10

    assert found("binary") < found("binary, rescored by float32") < 1
