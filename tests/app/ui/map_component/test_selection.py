"""What the browser's answer means, and that nothing else than an answer means anything."""

import math

import pytest

from nearsay.app.ui.map_component.show_map import PackedMap, selection_of

AROUND_THE_SECOND_HEAP = [[8.5, -1.5], [11.5, -1.5], [11.5, 1.5], [8.5, 1.5]]


def test_an_outline_selects_what_lies_in_it(shown: PackedMap) -> None:
    state = {"selection": {"of": shown.digest, "outline": AROUND_THE_SECOND_HEAP}}
    found = selection_of(shown, state)
    assert found.places.tolist() == list(range(1, 60, 3))
    assert found.passages.tolist() == list(range(101, 160, 3))
    assert (len(found), found.chosen) == (20, None)
    assert found.outline[1] == (11.5, -1.5)


def test_a_click_chooses_one(shown: PackedMap) -> None:
    found = selection_of(shown, {"chosen": {"of": shown.digest, "place": 7}, "selection": None})
    assert (found.chosen, len(found)) == (7, 0)


def test_an_answer_about_another_map_is_none(shown: PackedMap) -> None:
    state = {
        "selection": {"of": "0" * 16, "outline": AROUND_THE_SECOND_HEAP},
        "chosen": {"of": "0" * 16, "place": 7},
    }
    found = selection_of(shown, state)
    assert (len(found), found.chosen, found.outline) == (0, None, ())


@pytest.mark.parametrize(
    "outline",
    [
        None,
        "outline",
        {"0": [1, 2]},
        [[0, 0], [20, 0], [20]],
        [[0, 0], [20, 0], [20, "20"]],
        [[0, 0], [20, 0], [20, math.nan]],
        [[0, 0], [20, 0], [20, True]],
        [[0, 0], [20, 0], [math.inf, 20]],
        [[0, 0], [20, 0], [20, 20]] * 400,
        [],
    ],
)
def test_what_is_no_outline_selects_nothing(shown: PackedMap, outline: object) -> None:
    found = selection_of(shown, {"selection": {"of": shown.digest, "outline": outline}})
    assert (len(found), found.outline) == (0, ())


@pytest.mark.parametrize("place", [None, -1, 60, "3", 1.5, True])
def test_what_is_no_place_chooses_nothing(shown: PackedMap, place: object) -> None:
    assert selection_of(shown, {"chosen": {"of": shown.digest, "place": place}}).chosen is None


def test_without_an_answer_nothing_is_chosen(shown: PackedMap) -> None:
    found = selection_of(shown, {})
    assert (len(found), found.chosen) == (0, None)
