"""Places for a weighted graph."""

import numpy as np
import pytest
from scipy.optimize import curve_fit
from scipy.sparse import csr_matrix

from nearsay.indexer.maps import layout
from nearsay.indexer.maps.layout import CURVE, rounds_for, settled
from nearsay.indexer.vectors.progress import Progress

A, B = CURVE


def single(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


def groups(each: int) -> csr_matrix:
    """Two groups in which everyone is held to everyone."""
    held = np.kron(np.eye(2), np.ones((each, each)))
    np.fill_diagonal(held, 0.0)
    return csr_matrix(held)


def test_the_curve_is_the_one_for_a_least_distance_of_a_tenth() -> None:
    distances = np.linspace(0.0, 3.0, 300)
    wanted = np.where(distances < 0.1, 1.0, np.exp(-(distances - 0.1)))
    found, _ = curve_fit(lambda d, a, b: 1.0 / (1.0 + a * d ** (2.0 * b)), distances, wanted)
    assert found == pytest.approx(CURVE, abs=1e-4)


def test_a_pull_goes_towards_the_other_and_is_the_gradient_of_the_curve() -> None:
    x, y = layout._pull(single(1.0, 0.0, 0.0), single(0.0, 1.0, 0.0))
    assert x == pytest.approx([-2 * A * B / (1 + A), 0.0, 0.0], rel=1e-5)
    assert y == pytest.approx([0.0, -2 * A * B / (1 + A), 0.0], rel=1e-5)

    def attraction(distance: float) -> float:
        return float(np.log(1.0 / (1.0 + A * distance ** (2 * B))))

    slope = (attraction(2.001) - attraction(1.999)) / 0.002
    assert layout._pull(single(2.0), single(0.0))[0] == pytest.approx([slope], rel=1e-3)


def test_a_push_goes_away_from_the_other_and_is_limited() -> None:
    x, y = layout._push(single(1.0, 0.001, 0.0), single(0.0, 0.0, 0.0))
    assert x == pytest.approx([2 * B / (1.001 * (1 + A)), 2 * B / 1.001, 0.0], rel=1e-3)
    assert list(y) == [0.0, 0.0, 0.0]
    assert layout._push(single(0.03), single(-0.03))[0] == pytest.approx([4.0])
    assert layout._push(single(0.03), single(-0.03))[1] == pytest.approx([-4.0])


def test_a_pair_is_drawn_together() -> None:
    pair = csr_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))
    start = np.array([[0.0, 0.0], [10.0, 0.0]], dtype=np.float32)
    places = settled(pair, start, rounds=100, seed=0)
    assert np.linalg.norm(places[0] - places[1]) < 2.0


def test_groups_come_apart_that_began_mixed() -> None:
    start = np.random.default_rng(1).random((40, 2), dtype=np.float32) * 10
    places = settled(groups(20), start, rounds=100, seed=0)
    middles = places[:20].mean(axis=0), places[20:].mean(axis=0)
    within = max(
        np.linalg.norm(places[:20] - middles[0], axis=1).max(),
        np.linalg.norm(places[20:] - middles[1], axis=1).max(),
    )
    assert np.linalg.norm(middles[0] - middles[1]) > 2 * within


def test_one_seed_gives_one_layout_and_leaves_the_start_as_it_was() -> None:
    start = np.random.default_rng(1).random((40, 2), dtype=np.float32)
    before = start.copy()
    once, again, other = (settled(groups(20), start, rounds=20, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    assert np.array_equal(start, before)


def test_an_edge_is_due_as_often_as_its_weight_says() -> None:
    graph = csr_matrix(np.array([[0.0, 1.0, 0.25], [1.0, 0.0, 0.01], [0.25, 0.01, 0.0]]))
    edges = layout._Edges.of(graph, 20, np.random.default_rng(0))
    assert edges.head.size == 4  # the lightest would be due in no round
    due = np.concatenate([edges.due_in(number) for number in range(1, 21)])
    counted = dict(zip(edges.period.tolist(), np.bincount(due, minlength=4).tolist(), strict=True))
    assert counted == {1.0: 20, 4.0: 5}


def test_who_is_fixed_stays_and_the_others_come_to_them() -> None:
    towards = csr_matrix(([1.0, 1.0], ([2, 2], [0, 1])), shape=(3, 3))
    start = np.array([[0, 0], [1, 0], [8, 8]], dtype=np.float32)
    places = settled(towards, start, rounds=50, seed=0, fixed=2)
    assert np.array_equal(places[:2], start[:2])
    assert np.linalg.norm(places[2] - [0.5, 0]) < 3.0


def test_gentle_first_steps_stay_nearer_to_the_start() -> None:
    start = np.random.default_rng(1).random((40, 2), dtype=np.float32) * 10
    away = [
        np.linalg.norm(settled(groups(20), start, rounds=3, seed=0, first_share=share) - start, axis=1).mean()
        for share in (0.01, 0.1, 1.0)
    ]
    assert away == sorted(away)


def test_it_can_be_stopped_at_any_round() -> None:
    seen = []

    def stop(progress: Progress) -> None:
        seen.append((progress.done, progress.total, progress.doing, progress.unit))
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        settled(groups(2), np.zeros((4, 2), dtype=np.float32), rounds=10, seed=0, listener=stop)
    assert seen == [(number, 10, "laying out", "rounds") for number in (1, 2, 3)]


def test_small_layouts_take_more_rounds() -> None:
    assert (rounds_for(10_000), rounds_for(10_001)) == (500, 200)
