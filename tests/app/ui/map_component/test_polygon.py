"""Which points lie inside an outline."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path

from nearsay.app.ui.map_component.show_map import inside

SQUARE = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0))


def test_of_a_square_the_points_within_are_taken() -> None:
    places = np.array([[2, 2], [5, 2], [-1, 2], [2, 5], [3.5, 0.5]], dtype=np.float32)
    assert inside(places, SQUARE).tolist() == [True, False, False, False, True]


def test_the_direction_of_drawing_does_not_matter() -> None:
    places = np.array([[2, 2], [5, 2]], dtype=np.float32)
    assert inside(places, SQUARE[::-1]).tolist() == [True, False]


def test_the_bay_of_an_outline_is_outside() -> None:
    places = np.array([[1, 3], [2, 3], [3, 3], [2, 0.5]], dtype=np.float32)
    bay = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.0, 1.0), (0.0, 4.0))
    assert inside(places, bay).tolist() == [False, False, False, True]
    wide = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.5, 4.0), (2.0, 1.0), (1.5, 4.0), (0.0, 4.0))
    assert inside(places, wide).tolist() == [True, False, True, True]


def test_what_an_outline_that_crosses_itself_goes_around_is_inside() -> None:
    star = [(math.sin(4 * math.pi * k / 5), math.cos(4 * math.pi * k / 5)) for k in range(5)]
    places = np.array([[0, 0], [0, 0.8], [0.47, -0.65], [0, -0.8]], dtype=np.float32)
    assert inside(places, star).tolist() == [True, True, True, False]


@pytest.mark.parametrize("outline", [(), ((0.0, 0.0),), ((0.0, 0.0), (9.0, 9.0))])
def test_of_less_than_a_triangle_nothing_is_taken(outline: tuple[tuple[float, float], ...]) -> None:
    assert not inside(np.zeros((3, 2), dtype=np.float32), outline).any()


def test_of_no_points_none_is_taken() -> None:
    assert inside(np.zeros((0, 2), dtype=np.float32), SQUARE).shape == (0,)


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=12), st.integers(0, 2**32 - 1))
def test_as_matplotlib_says(radii: list[float], seed: int) -> None:
    angles = 2 * np.pi * np.arange(len(radii)) / len(radii)
    outline = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    places = np.random.default_rng(seed).uniform(-11, 11, (200, 2)).astype(np.float32)
    expected = Path(outline).contains_points(places.astype(np.float64))
    assert inside(places, [tuple(corner) for corner in outline.tolist()]).tolist() == expected.tolist()
