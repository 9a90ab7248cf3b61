"""The neighbour graph against a plain search through all, and what copies, order and size do to it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.indexer.neighbours import graph
from nearsay.indexer.neighbours import products as products_module
from nearsay.indexer.neighbours.graph import NeighbourGraph, neighbour_graph
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.neighbours.products import Products
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.vector_store import unit_length


def clustered(count: int, dimension: int = 24, seed: int = 0, spread: float = 0.35) -> NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((max(2, count // 50), dimension))
    noise = spread * generator.standard_normal((count, dimension))
    return unit_length((centres[generator.integers(0, len(centres), count)] + noise).astype(np.float32))


def points_of(vectors: NDArray[np.float32]) -> Points:
    return Points.from_array(np.arange(1, len(vectors) + 1), vectors)


def plain(vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Every cosine worked out by itself, the k greatest by falling cosine and rising place."""
    cosines = np.stack(
        [np.einsum("ij,ij->i", vectors, np.broadcast_to(row, vectors.shape)) for row in vectors]
    )
    np.fill_diagonal(cosines, -np.inf)
    best = (-cosines).argsort(axis=1, kind="stable")[:, :k]
    return best, np.take_along_axis(cosines, best, axis=1)


def same(graph: NeighbourGraph, vectors: NDArray[np.float32], k: int) -> None:
    neighbours, cosines = plain(vectors, k)
    np.testing.assert_array_equal(graph.neighbours, neighbours)
    np.testing.assert_array_equal(graph.cosines, cosines)


def test_the_nearest_of_four_directions_are_those_worked_out_by_hand() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0]], dtype=np.float32)
    graph = neighbour_graph(points_of(vectors), 2)
    np.testing.assert_array_equal(graph.neighbours, [[1, 2], [2, 0], [1, 0], [2, 1]])
    np.testing.assert_allclose(graph.cosines, [[0.6, 0], [0.8, 0.6], [0.8, 0], [0, -0.6]], atol=1e-7)
    assert (graph.exact, graph.recall) == (True, 1.0)


@pytest.mark.parametrize("count", [2, 16, 17, 700])
@pytest.mark.parametrize("k", [1, 15])
def test_the_neighbours_are_bit_for_bit_those_of_a_search_through_all(count: int, k: int) -> None:
    vectors = clustered(count)
    same(neighbour_graph(points_of(vectors), k), vectors, min(k, count - 1))


def test_vectors_that_bfloat16_cannot_tell_apart_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(600, spread=1e-4)
    same(neighbour_graph(points_of(vectors), 5), vectors, 5)
    monkeypatch.setattr(products_module, "_MOST_OF_A_BLOCK", 2000)  # so that float32 looks again
    monkeypatch.setattr(graph, "_MOST_KEPT", 2000)  # and decides in between
    same(neighbour_graph(points_of(vectors), 5), vectors, 5)


def test_copies_come_first_and_by_place_however_many_there_are() -> None:
    vectors = clustered(300)
    vectors[np.random.default_rng(1).permutation(300)[:120]] = vectors[7]
    vectors[[3, 250]] = vectors[[4, 251]]
    same(neighbour_graph(points_of(vectors), 10), vectors, 10)


def test_nothing_but_copies_has_copies_for_neighbours() -> None:
    vectors = np.repeat(clustered(1), 30, axis=0)
    graph = neighbour_graph(points_of(vectors), 4)
    np.testing.assert_array_equal(graph.neighbours[0], [1, 2, 3, 4])
    np.testing.assert_array_equal(graph.neighbours[20], [0, 1, 2, 3])
    np.testing.assert_array_equal(graph.neighbours[2], [0, 1, 3, 4])


@pytest.mark.parametrize("dimension", [2, 3, 16, 384])
@pytest.mark.parametrize("asking", [1, 300])
def test_a_product_is_off_the_cosine_by_no_more_than_is_said(dimension: int, asking: int) -> None:
    vectors = clustered(300, dimension=dimension, spread=0.01)  # many cosines near 1, where rounding is worst
    products = Products.of(points_of(vectors), np.arange(300), "cpu")
    cosines = vectors[:asking].astype(np.float64) @ vectors.T.astype(np.float64)
    off = np.abs(products.between(np.arange(asking), slice(0, 300)).float().numpy() - cosines)
    assert off.max() <= products.error
    again, error = products.again(np.arange(asking), slice(0, 300))
    assert np.abs(again.numpy() - cosines).max() <= error < 2e-4


@pytest.mark.parametrize("first", [[], [5], [0, 7, 298, 299], list(range(1, 130))])
@pytest.mark.parametrize("second", [slice(0, 1), slice(3, 67), slice(290, 300), slice(0, 300), slice(8, 8)])
def test_products_are_of_the_rows_that_were_named(first: list[int], second: slice) -> None:
    products = Products.of(points_of(clustered(300)), np.arange(300), "cpu")
    asked = np.array(first, dtype=np.int64)
    expected = (products.rows.double()[asked] @ products.rows.double()[second].T).numpy()
    found = products.between(asked, second)
    assert found.shape == (len(first), second.stop - second.start)
    np.testing.assert_allclose(found.double().numpy(), expected, atol=2.0**-8)


@pytest.mark.parametrize("count", [0, 1])
def test_a_passage_alone_has_no_neighbours(count: int) -> None:
    graph = neighbour_graph(points_of(clustered(2)[:count]), 5)
    assert graph.neighbours.shape == graph.cosines.shape == (count, 0)


@pytest.mark.parametrize("exact", [True, False])
def test_the_order_of_the_passages_changes_nothing(exact: bool) -> None:
    vectors = clustered(900)
    shuffled = np.random.default_rng(5).permutation(len(vectors))
    first = neighbour_graph(points_of(vectors), 6, exact=exact)
    second = neighbour_graph(points_of(vectors[shuffled]), 6, exact=exact)
    np.testing.assert_array_equal(first.neighbours[shuffled], shuffled[second.neighbours])
    np.testing.assert_array_equal(first.cosines[shuffled], second.cosines)


def test_lists_find_what_they_say_and_score_it_exactly() -> None:
    recalls, said = [], []
    for seed in range(4):
        vectors = clustered(1500, seed=seed)
        vectors[100:160] = vectors[5]
        graph = neighbour_graph(points_of(vectors), 10, exact=False)
        neighbours, cosines = plain(vectors, 10)
        recalls.append(
            np.mean([np.isin(a, b).mean() for a, b in zip(neighbours, graph.neighbours, strict=True)])
        )
        assert not graph.exact
        said.append(graph.recall)
        there = graph.neighbours >= 0
        own = np.repeat(np.arange(1500), 10).reshape(1500, 10)[there]
        np.testing.assert_array_equal(
            graph.cosines[there], np.einsum("ij,ij->i", vectors[own], vectors[graph.neighbours[there]])
        )
        assert (np.diff(graph.cosines, axis=1) <= 0).all()
        assert (graph.cosines <= cosines).all()
    assert np.mean(recalls) >= 0.95  # measured on a sample: a single draw may miss it
    assert np.mean(said) == pytest.approx(np.mean(recalls), abs=0.01)


def test_a_listener_that_raises_ends_it() -> None:
    def stop(progress: Progress) -> None:
        assert (progress.doing, progress.done, progress.total) == ("finding neighbours", 50, 50)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neighbour_graph(points_of(clustered(50)), 3, listener=stop)
