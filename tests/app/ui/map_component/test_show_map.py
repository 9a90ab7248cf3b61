"""The map on a page, as Python sees it."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from nearsay.app.ui.map_component import show_map as module
from nearsay.app.ui.map_component.show_map import PackedMap


class Mounted:
    """Stands for a component: keeps what it was given, and answers as a browser would."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.answer = answer or {}
        self.given: list[dict[str, Any]] = []

    def __call__(self, **given: Any) -> dict[str, Any]:
        self.given.append(given)
        return self.answer


@pytest.fixture
def mounted(shown: PackedMap, monkeypatch: pytest.MonkeyPatch) -> tuple[Mounted, Mounted]:
    outline = [[8.5, -1.5], [11.5, -1.5], [11.5, 1.5], [8.5, 1.5]]
    points, answering = Mounted(), Mounted({"selection": {"of": shown.digest, "outline": outline}})
    monkeypatch.setattr(module, "_points_component", lambda: points)
    monkeypatch.setattr(module, "_map_component", lambda: answering)
    return points, answering


def test_what_was_drawn_around_comes_back(shown: PackedMap, mounted: tuple[Mounted, Mounted]) -> None:
    found = module.show_map(shown, key="map")
    assert found.passages.tolist() == list(range(101, 160, 3))


def test_points_travel_apart_from_what_changes(shown: PackedMap, mounted: tuple[Mounted, Mounted]) -> None:
    points, settings = mounted
    module.show_map(shown, key="map", highlight=[101, 155, 999], height=420)
    module.show_map(shown, key="map")
    assert [each["data"] for each in points.given] == [shown.packed, shown.packed]
    first, second = (each["data"] for each in settings.given)
    assert first == {
        "of": shown.digest,
        "key": "map",
        "height": 420,
        "lit": [1, 55],
        "outline": (),
    }
    assert second["lit"] is None


def test_a_page_with_a_map_runs() -> None:
    app = AppTest.from_function(_script, default_timeout=60).run()
    assert not app.exception
    assert app.text[0].value == "0 selected"
    app.run()
    assert not app.exception


def _script() -> None:
    """AppTest runs this function's text by itself."""
    import numpy as np
    import streamlit as st

    from nearsay.app.ui.map_component.show_map import packed_map, show_map
    from nearsay.indexer.catalogue.passages import PassageRow
    from nearsay.indexer.maps.drawing import Drawing

    rows = [PassageRow(1, "d", "title", "text", {}, None, 0, 0, 4)]
    places = np.zeros((1, 2), dtype=np.float32)
    drawn = Drawing("one", "1 passage", np.array([1]), places, rows, None, (), (), None, ())
    st.text(f"{len(show_map(packed_map(drawn), key='map'))} selected")
