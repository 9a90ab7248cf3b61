"""The most similar pairs against all pairs worked out one by one, and sentence-transformers' mining."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sentence_transformers.util import paraphrase_mining_embeddings

from nearsay.data.errors import BadInputError
from nearsay.indexer.duplicates import closest_pairs as module
from nearsay.indexer.duplicates.closest_pairs import ClosestPairs, closest_pairs
from nearsay.indexer.neighbours import products
from nearsay.indexer.neighbours.points import JoinedPoints, Points
from nearsay.indexer.neighbours.products import Products
from nearsay.indexer.vectors.vector_store import unit_length


def clustered(count: int, dimension: int = 24, seed: int = 0, spread: float = 0.35) -> NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((max(2, count // 50), dimension))
    noise = spread * generator.standard_normal((count, dimension))
    return unit_length((centres[generator.integers(0, len(centres), count)] + noise).astype(np.float32))


def with_copies(count: int) -> NDArray[np.float32]:
    vectors = clustered(count)
    places = np.random.default_rng(1).permutation(count)
    vectors[places[:40]] = vectors[places[0]]
    vectors[places[40:45]] = vectors[places[40]]
    vectors[places[45:60]] = vectors[places[60:75]]
    return vectors


def points_of(vectors: NDArray[np.float32]) -> Points:
    return Points.from_array(np.arange(1, len(vectors) + 1), vectors)


def all_pairs(
    vectors: NDArray[np.float32], apart: NDArray[np.int64] | None = None
) -> list[tuple[int, int, float]]:
    """Every pair by falling cosine, ties by place; the same vector has 1, all others less."""
    first, second = np.triu_indices(len(vectors), 1)
    if apart is not None:
        wanted = apart[first] != apart[second]
        first, second = first[wanted], second[wanted]
    cosines = np.einsum("ij,ij->i", vectors[first], vectors[second])
    cosines = np.minimum(cosines, np.nextafter(np.float32(1), np.float32(0)))
    cosines[(vectors[first] == vectors[second]).all(axis=1)] = 1.0
    order = np.lexsort((second, first, -cosines))
    return list(zip(first[order].tolist(), second[order].tolist(), cosines[order].tolist(), strict=True))


def listed(found: ClosestPairs) -> list[tuple[int, int, float]]:
    return list(zip(found.first.tolist(), found.second.tolist(), found.cosines.tolist(), strict=True))


def test_the_pairs_of_four_directions_are_those_worked_out_by_hand() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1], [1, 0]], dtype=np.float32)
    found = closest_pairs(points_of(vectors), top=4)
    assert [(a, b, round(c, 6)) for a, b, c in listed(found)] == [
        (0, 3, 1.0),
        (1, 2, 0.8),
        (0, 1, 0.6),
        (1, 3, 0.6),
    ]
    assert (found.exact, found.recall) == (True, 1.0)


@pytest.mark.parametrize("top", [1, 7, 100, 900, 5000])
@pytest.mark.parametrize("make", [clustered, with_copies])
def test_the_best_pairs_are_bit_for_bit_those_of_all_pairs(top: int, make) -> None:
    vectors = make(500)
    assert listed(closest_pairs(points_of(vectors), top=top)) == all_pairs(vectors)[:top]


@pytest.mark.parametrize("threshold", [0.5, 0.9, 1.0])
def test_over_a_threshold_are_all_pairs_that_reach_it(threshold: float) -> None:
    vectors = with_copies(500)
    wanted = [pair for pair in all_pairs(vectors) if pair[2] >= np.float32(threshold)]
    assert len(wanted) > 700
    assert listed(closest_pairs(points_of(vectors), threshold=threshold)) == wanted
    assert listed(closest_pairs(points_of(vectors), threshold=threshold, top=800)) == wanted[:800]


def test_vectors_that_differ_in_the_sign_of_a_zero_are_the_same() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, -0.0]], dtype=np.float32)
    assert listed(closest_pairs(points_of(vectors), threshold=1.0)) == [(0, 2, 1.0)]


@pytest.mark.parametrize("top", [3, 50, 2000])
def test_passages_of_one_document_are_no_pair(top: int) -> None:
    vectors = with_copies(400)
    for documents in (np.arange(400) // 8, np.random.default_rng(2).integers(0, 5, 400), np.zeros(400, int)):
        found = closest_pairs(points_of(vectors), top=top, apart=documents)
        assert listed(found) == all_pairs(vectors, documents)[:top]


def test_between_two_collections_are_only_pairs_of_one_and_the_other() -> None:
    vectors = with_copies(400)
    joined = JoinedPoints(points_of(vectors[:150]), points_of(vectors[150:]))
    side = (np.arange(400) >= 150).astype(np.int64)
    assert listed(closest_pairs(joined, top=900, apart=side)) == all_pairs(vectors, side)[:900]


def test_blocks_and_early_decisions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(500, spread=0.01)
    wanted = all_pairs(vectors)
    monkeypatch.setattr(module, "_ROWS", 64)
    monkeypatch.setattr(products, "_MOST_ROWS", 96)
    monkeypatch.setattr(products, "_MOST_OF_A_BLOCK", 500)
    monkeypatch.setattr(module, "_PRUNED_FROM", 300)
    assert listed(closest_pairs(points_of(vectors), top=2000)) == wanted[:2000]
    over = [pair for pair in wanted if pair[2] >= np.float32(0.9)]
    monkeypatch.setattr(module, "MOST_PAIRS", len(over))
    assert listed(closest_pairs(points_of(vectors), threshold=0.9)) == over


@pytest.mark.parametrize("exact", [True, False])
def test_no_product_is_larger_than_is_said_however_much_lies_in_one_place(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = clustered(600)
    vectors[:400] = clustered(400, spread=1e-3, seed=3)[0] + 1e-4 * vectors[:400]
    vectors = unit_length(vectors)
    whole = listed(closest_pairs(points_of(vectors), top=300, exact=exact))
    assert whole == all_pairs(vectors)[:300]
    sizes = []
    between = Products.between

    def measured(self, first, second):
        found = between(self, first, second)
        sizes.append(found.numel())
        return found

    monkeypatch.setattr(Products, "between", measured)
    monkeypatch.setattr(products, "MOST_PRODUCTS", 2000)
    monkeypatch.setattr(products, "_MOST_ROWS", 100)
    assert listed(closest_pairs(points_of(vectors), top=300, exact=exact)) == whole
    assert 1000 < max(sizes) <= 2000


def test_more_pairs_than_can_be_listed_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    with pytest.raises(BadInputError, match=r"cosine of 0\.2 .*--limit 1000"):
        closest_pairs(points_of(clustered(200)), threshold=0.2)
    with pytest.raises(BadInputError, match="100 can be listed"):
        closest_pairs(points_of(np.repeat(clustered(1), 30, axis=0)), threshold=0.9)
    assert len(closest_pairs(points_of(np.repeat(clustered(1), 30, axis=0)), top=9).first) == 9


@pytest.mark.parametrize(
    ("wanted", "said"), [({}, "neither"), ({"top": 0}, "top is 0"), ({"threshold": 95}, "threshold is 95")]
)
def test_what_cannot_be_meant_is_refused(wanted: dict[str, int], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        closest_pairs(points_of(clustered(9)), **wanted)


@pytest.mark.long
def test_they_are_the_pairs_of_sentence_transformers() -> None:
    import torch

    vectors = clustered(600)
    theirs = paraphrase_mining_embeddings(torch.from_numpy(vectors), top_k=600, max_pairs=10**6)[:300]
    ours = listed(closest_pairs(points_of(vectors), top=300))
    assert {(a, b) for _, a, b in theirs} == {(a, b) for a, b, _ in ours}
    np.testing.assert_allclose([score for score, _, _ in theirs], [c for _, _, c in ours], atol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_the_order_of_the_passages_changes_nothing(exact: bool) -> None:
    vectors = clustered(900)
    shuffled = np.random.default_rng(5).permutation(900)
    first = closest_pairs(points_of(vectors), top=400, exact=exact)
    second = closest_pairs(points_of(vectors[shuffled]), top=400, exact=exact)
    moved = {tuple(sorted((int(shuffled[a]), int(shuffled[b])))): c for a, b, c in listed(second)}
    assert {(a, b): c for a, b, c in listed(first)} == moved


@pytest.mark.long
@pytest.mark.parametrize("apart", [None, np.arange(900) // 4])
def test_lists_find_the_best_pairs_and_score_them_exactly(apart: NDArray[np.int64] | None) -> None:
    vectors = with_copies(900)
    found = closest_pairs(points_of(vectors), top=1000, apart=apart, exact=False)
    wanted = all_pairs(vectors, apart)
    assert not found.exact
    assert found.recall >= 0.95
    assert len(set(listed(found)) & set(wanted[:1000])) >= 0.95 * 1000
    assert set(listed(found)) <= set(wanted)
    over = closest_pairs(points_of(vectors), threshold=0.93, apart=apart, exact=False)
    wanted = [pair for pair in wanted if pair[2] >= np.float32(0.93)]
    assert 0.95 * len(wanted) <= len(listed(over)) <= len(wanted)
    assert set(listed(over)) <= set(wanted)


@pytest.mark.parametrize("count", [0, 1])
def test_one_passage_makes_no_pair(count: int) -> None:
    assert closest_pairs(points_of(clustered(2)[:count]), top=5).first.size == 0
