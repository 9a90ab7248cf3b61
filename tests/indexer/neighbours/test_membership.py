"""How strongly neighbours are held together."""

import numpy as np
import pytest

from nearsay.indexer.neighbours.graph import memberships, united

INF = np.inf


def of(*rows: list[float], from_nearest: bool = True) -> np.ndarray:
    return memberships(np.array(rows, dtype=np.float32), from_nearest=from_nearest)


def test_the_nearest_belongs_wholly_and_the_others_by_their_further_way() -> None:
    # Three neighbours and the point itself: log2(4) = 2 = 1 + 2 e^(-.2 / sigma): each further weighs .5.
    assert of([0.1, 0.3, 0.3]) == pytest.approx(np.array([[1.0, 0.5, 0.5]]), abs=1e-6)


def test_all_weigh_the_logarithm_of_how_many_there_are() -> None:
    rows = np.sort(np.random.default_rng(0).random((50, 14)), axis=1).astype(np.float32)
    assert memberships(rows).sum(axis=1) == pytest.approx(np.full(50, np.log2(15)), abs=1e-4)
    assert memberships(rows, from_nearest=False).sum(axis=1) == pytest.approx(
        np.full(50, np.log2(14)), abs=1e-4
    )


def test_who_is_projected_is_measured_from_itself() -> None:
    # Four as far away: log2(4) = 2 = 4 e^(-.3 / sigma).
    assert of([0.3, 0.3, 0.3, 0.3], from_nearest=False) == pytest.approx(np.full((1, 4), 0.5), abs=1e-6)


def test_a_missing_neighbour_weighs_nothing_and_is_not_counted() -> None:
    assert of([0.1, 0.3, 0.3, INF]) == pytest.approx(np.array([[1.0, 0.5, 0.5, 0.0]]), abs=1e-6)
    assert of([INF, INF]) == pytest.approx(np.zeros((1, 2)))
    assert memberships(np.zeros((3, 0), dtype=np.float32)).shape == (3, 0)


def test_neighbours_at_the_same_place_do_not_hide_the_rest() -> None:
    found = of([0.0, 0.2, 0.4, 0.4], [0.0, 0.0, 0.0, 0.0])
    assert found[0, :2] == pytest.approx([1.0, 1.0])
    assert 0.0 < found[0, 2] < 1.0
    assert found[1] == pytest.approx(np.ones(4))


def test_what_either_says_of_the_other_is_united() -> None:
    # 0 says .5 of 1, 1 says .4 of 0: .5 + .4 - .2. Only 2 says something of 0.
    graph = united(
        np.array([[1, -1], [0, -1], [0, -1]], dtype=np.int32), np.array([[0.5, 0], [0.4, 0], [0.3, 0]])
    )
    assert graph.toarray() == pytest.approx(np.array([[0, 0.7, 0.3], [0.7, 0, 0], [0.3, 0, 0]]))
