"""Put a map on the page, and learn what was chosen on it."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from nearsay.app.ui.map_component.packed_map import PackedMap
from nearsay.app.ui.map_component.selection import Selection, selection_of

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

__all__ = ["show_map"]


def show_map(
    shown: PackedMap,
    *,
    key: str,
    height: int = 600,
    colour_by: str | None = None,
    highlight: Sequence[int] | NDArray[np.int64] | None = None,
) -> Selection:
    """Draw a map that can be moved, searched, coloured and selected from; the selection as it now stands.

    key:       names the map on the page; its selection lives as long as it is shown
    height:    of the map, pixels; on a narrow screen less
    colour_by: "cluster" or a field of the drawing; None = as it was drawn. Whoever looks can take another.
    highlight: numbers of passages that stand out; None = all are alike

    The points travel to a browser once and not again when the page runs anew.
    """
    before = st.session_state.get(key)
    outline = selection_of(shown, before).outline if isinstance(before, dict) else ()
    settings = {
        "of": shown.digest,
        "key": key,
        "height": height,
        "colour": colour_by,
        "lit": None if highlight is None else _places(shown, highlight),
        "outline": outline,
    }
    with st.container(gap=None):
        _points_component()(data=shown.packed, key=f"{key} points")
        state = _map_component()(
            data=settings,
            key=key,
            on_selection_change=_nothing,
            on_chosen_change=_nothing,
        )
    return selection_of(shown, state)


def _places(shown: PackedMap, passages: Sequence[int] | NDArray[np.int64]) -> list[int]:
    """Where passages stand among the drawing's; what is not drawn is left out."""
    found: list[int] = np.flatnonzero(np.isin(shown.drawn.ids, np.asarray(passages, dtype=np.int64))).tolist()
    return found


def _nothing() -> None:
    """What Streamlit wants for each part of an answer."""


@cache
def _points_component() -> "ComponentRenderer":
    """What holds the points in the browser; nothing is seen of it."""
    return st.components.v2.component("nearsay_map_points", js=_part("shelf.js") + _part("map_points.js"))


@cache
def _map_component() -> "ComponentRenderer":
    drawing = files("nearsay.indexer.maps")  # the same script draws the file that `explore map` writes
    return st.components.v2.component(
        "nearsay_map",
        html=_part("map.html"),
        css=drawing.joinpath("map_view.css").read_text("utf-8") + _part("map.css"),
        js=drawing.joinpath("map_view.js").read_text("utf-8")
        + _part("shelf.js")
        + _part("selecting.js")
        + _part("map.js"),
    )


def _part(name: str) -> str:
    return files("nearsay.app.ui.map_component").joinpath(name).read_text("utf-8")
