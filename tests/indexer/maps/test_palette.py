"""Colours of categories."""

from nearsay.indexer.maps.drawing import CATEGORIES, SHADES, spread_colours


def test_the_first_have_a_colour_each() -> None:
    assert spread_colours([(0.0, float(at)) for at in range(len(CATEGORIES))]) == list(CATEGORIES)
    assert len(set(CATEGORIES)) == len(CATEGORIES)
    assert spread_colours([]) == []


def test_no_two_of_many_clusters_have_one_colour() -> None:
    grid = [(float(at % 8), float(at // 8)) for at in range(len(SHADES))]
    colours = spread_colours(grid)
    assert sorted(colours) == sorted(SHADES)
    assert len(set(SHADES)) == 3 * len(CATEGORIES)


def test_a_further_cluster_takes_a_shade_that_its_neighbours_do_not_resemble() -> None:
    places = [(100.0 + at, 0.0) for at in range(len(CATEGORIES))]
    places[0], places[1] = (
        (0.0, 0.0),
        (1.0, 0.0),
    )  # the blue and the orange one, which the new one lies beside
    taken = spread_colours([*places, (0.5, 0.5)])[-1]
    alike = [SHADES.index(CATEGORIES[at]) + shift * len(CATEGORIES) for at in (0, 1) for shift in (1, 2)]
    assert taken not in {SHADES[at] for at in alike}


def test_a_shade_comes_again_where_it_is_farthest_when_all_are_taken() -> None:
    line = [(float(at), 0.0) for at in range(len(SHADES))]
    first = spread_colours(line)
    assert spread_colours([*line, (-1.0, 0.0)])[-1] == first[-1]
