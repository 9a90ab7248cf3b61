"""Passages put onto a map that stands."""

from unittest.mock import Mock

import numpy as np
import pytest

from nearsay.indexer.maps import mapping
from nearsay.indexer.maps.mapping import nearest_anchors, projected, weighted_places
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.vector_store import VectorStore, unit_length

CORNERS = np.array([[0, 0], [4, 0], [0, 8]], dtype=np.float32)


def made(count: int, seed: int, dimension: int = 12) -> Points:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return Points.from_array(np.arange(count), unit_length(vectors))


def place(distances: list[float], near: list[int]) -> np.ndarray:
    return weighted_places(np.array([distances], dtype=np.float32), np.array([near]), CORNERS)[0]


def test_a_passage_lies_in_the_weighted_middle_of_its_neighbours() -> None:
    # Two: log2(2) = 1 = e^(-.2/s) + e^(-.4/s). With u = e^(-.2/s): u + u^2 = 1, u = .618, u^2 = .382.
    assert place([0.2, 0.4], [0, 1]) == pytest.approx([4 * 0.381966, 0.0], abs=1e-4)
    assert place([0.3, 0.3], [1, 2]) == pytest.approx([2.0, 4.0], abs=1e-4)


def test_the_same_vector_has_the_same_place() -> None:
    assert list(place([0.0, 0.1], [2, 0])) == [0.0, 8.0]


def test_nearest_are_those_of_the_largest_cosines() -> None:
    new, anchors = made(40, 1), made(300, 2)
    near, cosines = nearest_anchors(new, anchors, 7)
    products = new.rows(np.arange(40)) @ anchors.rows(np.arange(300)).T
    assert np.array_equal(near, np.argsort(-products, axis=1)[:, :7])
    assert cosines == pytest.approx(np.sort(products, axis=1)[:, ::-1][:, :7], abs=1e-6)


def test_many_are_found_through_lists_of_which_nearly_nothing_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, anchors = made(200, 1, 4), made(900, 2, 4)
    exact, _ = nearest_anchors(new, anchors, 5)
    monkeypatch.setattr(VectorStore, "nearest_many", Mock(side_effect=AssertionError))
    monkeypatch.setattr(mapping, "_MOST_PRODUCTS", 1000)
    listed, _ = nearest_anchors(new, anchors, 5)
    same = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(exact.tolist(), listed.tolist(), strict=True)])
    assert same > 0.95


def test_without_faiss_many_are_found_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "faiss_is_installed", lambda: False)
    new, anchors = made(20, 1), made(30, 2)
    exact, _ = nearest_anchors(new, anchors, 3)
    monkeypatch.setattr(mapping, "_MOST_PRODUCTS", 0)
    assert np.array_equal(nearest_anchors(new, anchors, 3)[0], exact)


def test_a_new_passage_comes_among_its_like_and_a_copy_onto_its_own() -> None:
    generator = np.random.default_rng(4)
    middles = np.eye(12, dtype=np.float32)[[0, 1]]
    noise = 0.1 * generator.standard_normal((60, 12))
    vectors = unit_length((np.repeat(middles, 30, axis=0) + noise).astype(np.float32))
    places = np.repeat(np.array([[0, 0], [9, 9]], dtype=np.float32), 30, axis=0)
    places += generator.random((60, 2), dtype=np.float32)
    anchors = Points.from_array(np.arange(60), vectors)
    new = Points.from_array(np.arange(3), np.concatenate([middles, vectors[7:8]]))
    found = projected(new, anchors, places, 5, 1)
    assert np.linalg.norm(found[:2] - [[0.5, 0.5], [9.5, 9.5]], axis=1).max() < 2.0
    assert np.array_equal(found[2], places[7])
    assert np.array_equal(projected(new, anchors, places, 5, 1), found)


def test_among_a_handful_a_passage_stays_in_the_weighted_middle() -> None:
    new, anchors = made(4, 1), made(3, 2)
    distances = 1 - np.sort(new.rows(np.arange(4)) @ anchors.rows(np.arange(3)).T, axis=1)[:, ::-1]
    near, _ = nearest_anchors(new, anchors, 15)
    expected = weighted_places(distances, near, CORNERS)
    assert projected(new, anchors, CORNERS, 15, 1) == pytest.approx(expected, abs=1e-4)
