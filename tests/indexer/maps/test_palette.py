"""Colours of categories."""

from nearsay.indexer.maps.palette import CATEGORIES, spread_colours


def test_the_first_have_a_colour_each() -> None:
    assert spread_colours([(0.0, float(at)) for at in range(len(CATEGORIES))]) == list(CATEGORIES)
    assert len(set(CATEGORIES)) == len(CATEGORIES)
    assert spread_colours([]) == []


def test_a_colour_comes_again_where_it_is_farthest() -> None:
    line = [(float(at), 0.0) for at in range(len(CATEGORIES))]
    assert spread_colours([*line, (-1.0, 0.0), (100.0, 0.0)])[-2:] == [CATEGORIES[-1], CATEGORIES[0]]
