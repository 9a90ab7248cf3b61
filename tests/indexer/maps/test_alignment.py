"""A map turned to lie on an older one."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from nearsay.indexer.maps.layout import aligned, levelled, mean_shift

SQUARE = np.array([[0, 0], [2, 0], [2, 1], [0, 1]], dtype=np.float32)


def test_a_map_that_was_shifted_turned_and_mirrored_lies_as_before() -> None:
    # A quarter turn, mirrored, and elsewhere: (x, y) becomes (y + 7, x - 5).
    moved = np.stack([SQUARE[:, 1] + 7, SQUARE[:, 0] - 5], axis=1)
    assert aligned(moved, np.arange(4), SQUARE) == pytest.approx(SQUARE, abs=1e-5)


def test_points_that_the_older_map_lacks_move_along() -> None:
    whole = np.concatenate([SQUARE, [[4, 4]]]).astype(np.float32)
    moved = np.stack([-whole[:, 0] + 1, -whole[:, 1]], axis=1)
    assert aligned(moved, np.arange(4), SQUARE)[4] == pytest.approx([4, 4], abs=1e-5)


def test_no_other_turn_comes_closer() -> None:
    generator = np.random.default_rng(0)
    older, newer = (generator.standard_normal((30, 2)).astype(np.float32) for _ in range(2))
    found = aligned(newer, np.arange(30), older)
    centred, before = newer - newer.mean(axis=0), older - older.mean(axis=0)

    def left(angle: float, mirrored: int) -> float:
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        return float(((centred * [1, mirrored] @ turn - before) ** 2).sum())

    tried = [
        minimize_scalar(left, bounds=(begin, begin + np.pi / 2), args=(mirrored,), method="bounded").fun
        for begin in np.arange(4) * np.pi / 2
        for mirrored in (1, -1)
    ]
    assert ((found - older) ** 2).sum() == pytest.approx(min(tried), rel=1e-5)


def test_a_map_keeps_its_size_however_little_it_has_in_common_with_the_older_one() -> None:
    generator = np.random.default_rng(0)
    older, newer = (generator.standard_normal((300, 2)).astype(np.float32) for _ in range(2))
    found = aligned(newer, np.arange(300), older)
    assert np.linalg.norm(found[1:] - found[0], axis=1) == pytest.approx(
        np.linalg.norm(newer[1:] - newer[0], axis=1), rel=1e-4
    )


def test_little_in_common_settles_the_shift_at_most() -> None:
    assert np.array_equal(aligned(SQUARE, np.zeros(0, dtype=np.intp), SQUARE[:0]), SQUARE)
    shifted = aligned(SQUARE, np.array([1]), np.array([[5, 5]], dtype=np.float32))
    assert shifted == pytest.approx(SQUARE + np.array([3, 5]))


def test_the_mean_shift_is_in_units_of_the_older_spread() -> None:
    # The corners lie sqrt(1.25) from the middle; one of four moved by 2: a mean way of a half.
    moved = SQUARE + np.array([[0, 2], [0, 0], [0, 0], [0, 0]])
    assert mean_shift(moved.astype(np.float32), SQUARE) == pytest.approx(0.5 / np.sqrt(1.25))
    assert mean_shift(SQUARE[:1], SQUARE[1:2]) == 0.0


def test_a_level_map_is_wider_than_high_and_keeps_every_distance() -> None:
    tall = SQUARE[:, ::-1] + 3
    level = levelled(np.ascontiguousarray(tall))
    assert np.ptp(level, axis=0) == pytest.approx([2, 1], abs=1e-5)
    assert level.mean(axis=0) == pytest.approx([0, 0], abs=1e-6)
    between = np.linalg.norm(tall[:, None] - tall, axis=2)
    assert np.linalg.norm(level[:, None] - level, axis=2) == pytest.approx(between, abs=1e-5)
