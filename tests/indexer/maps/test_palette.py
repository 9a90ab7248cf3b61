"""Colours of categories."""

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from nearsay.indexer.maps import drawing
from nearsay.indexer.maps.drawing import CATEGORIES, SHADES, _oklab, spread_colours


def apart(one: str, other: str, seen: Any = None) -> float:
    """How far two colours are apart in Oklab; .02 is just seen beside each other."""
    rows = [[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in (one, other)]
    first, second = _oklab(np.array(rows), seen)
    return float(np.linalg.norm(first - second))


def test_red_is_where_oklab_has_it() -> None:
    assert _oklab(np.array([[1.0, 0.0, 0.0]])) == pytest.approx(
        np.array([[0.628, 0.225, 0.126]]), abs=5e-4
    )  # https://bottosson.github.io/posts/oklab/


def test_few_have_the_strongest_colours() -> None:
    assert sorted(spread_colours([(0.0, float(at)) for at in range(5)])) == sorted(CATEGORIES[:5])
    assert spread_colours([]) == []
    assert spread_colours([(1.0, 1.0)]) == [CATEGORIES[0]]


def test_no_two_of_many_clusters_have_one_colour_and_all_can_be_told_apart() -> None:
    assert sorted(spread_colours(grid(8))) == sorted(SHADES)
    assert len(set(SHADES)) == len(SHADES) == 64
    assert min(apart(one, other) for one in SHADES for other in SHADES if one != other) > 0.07


BLIND = [drawing._NO_RED, drawing._NO_GREEN]


@pytest.mark.parametrize("seen", BLIND)
def test_grey_stays_grey_and_red_and_green_come_near_for_who_sees_one_of_them_not(seen: Any) -> None:
    assert _oklab(np.full((1, 3), 0.5), seen) == pytest.approx(_oklab(np.full((1, 3), 0.5)), abs=1e-3)
    assert apart("#ff0000", "#00a000", seen) < 0.5 * apart("#ff0000", "#00a000")


@pytest.mark.parametrize("seen", BLIND)
def test_colours_of_categories_can_be_told_apart_by_who_sees_no_red_or_no_green(seen: Any) -> None:
    assert min(apart(*pair, seen) for pair in combinations(CATEGORIES[:8], 2)) > 0.06
    assert min(apart(*pair, seen) for pair in combinations(CATEGORIES, 2)) > 0.05


@pytest.mark.parametrize("seen", BLIND)
@pytest.mark.parametrize("side", [4, 6, 8])
def test_clusters_beside_each_other_can_be_told_apart_by_who_sees_no_red_or_no_green(
    side: int, seen: Any
) -> None:
    colours = spread_colours(grid(side))
    near = [*pairwise(colours), *zip(colours, colours[side:], strict=False)]
    assert min(apart(*pair, seen) for pair in near) > 0.05


def grid(side: int) -> list[tuple[float, float]]:
    """The middles of clusters on a map, those of one row after each other."""
    return [(float(at % side), float(at // side)) for at in range(side * side)]


@pytest.mark.parametrize("side", [4, 6, 8])
def test_what_is_seen_together_has_colours_far_apart(side: int) -> None:
    colours = spread_colours(grid(side))
    in_legend = [apart(*pair) for pair in pairwise(colours)]
    below = [apart(*pair) for pair in zip(colours, colours[side:], strict=False)]
    assert min(in_legend) > 0.14
    assert min(below) > 0.14


def test_a_shade_comes_again_far_away_when_all_are_taken() -> None:
    line = [(float(at), 0.0) for at in range(len(SHADES) + 8)]
    colours = spread_colours(line)
    assert set(colours) == set(SHADES)
    again = [at - colours.index(colour) for at, colour in enumerate(colours) if colours.index(colour) < at]
    assert len(again) == 8
    assert min(again) > len(line) / 4


def test_of_thousands_the_largest_are_arranged_as_they_would_be_alone() -> None:
    places = np.random.default_rng(0).normal(size=(1500, 2)).tolist()
    colours = spread_colours(places)
    assert colours == spread_colours(places[:1024]) + spread_colours(places[1024:])
