"""The map on the page: packing it for the browser, drawing it, and reading the selection."""

import gzip
import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from nearsay.indexer.maps.drawing import Drawing, map_content

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

MOST_POINTS = 30_000  # larger maps are sampled: for a million points that takes 2.1 s instead of 2.7
_PREVIEW = 120  # characters of a title and of a text
LONGEST = _PREVIEW + 1  # characters to load; one more than shown tells whether to cut
_MOST_TEXTS = 20_000  # with more points, only titles are sent
_MOST_VALUES = 1_000  # of a categorical field, if no texts are sent
_DIGEST = 16  # characters
_ALIGNED = 8  # bytes; typed arrays need aligned offsets


@dataclass(frozen=True, slots=True, eq=False)
class PackedMap:
    """A drawing and its packed form for the browser."""

    drawn: Drawing
    packed: bytes  # the digest, then what `map_points.js` unpacks
    digest: str  # identifies the packed content

    def __len__(self) -> int:
        return len(self.drawn)


def packed_map(drawn: Drawing) -> PackedMap:
    """Pack a drawing: up to 20,000 passages with 120 characters of text each, beyond that only titles."""
    with_texts = len(drawn) <= _MOST_TEXTS
    content = map_content(
        drawn,
        title_length=_PREVIEW,
        text_length=_PREVIEW if with_texts else 0,
        most_values=None if with_texts else _MOST_VALUES,
    )
    if not with_texts:  # every point needs a label
        titles = zip(content["title"], drawn.rows, strict=True)
        content["title"] = [title or row.text[:_PREVIEW] for title, row in titles]
    body = gzip.compress(_written(content), 5, mtime=0)
    digest = hashlib.sha256(body).hexdigest()[:_DIGEST]
    return PackedMap(drawn, digest.encode() + body, digest)


def _written(content: dict[str, Any]) -> bytes:
    """Return the length of a JSON text (32 bits, little-endian), the text, and the arrays it refers to.

    An array is written as {"kind": "f4", "from": offset after the text, "count": 3}; all begin at multiples
    of eight bytes of the whole.
    """
    parts: list[bytes] = []
    at = 0

    def put(values: NDArray[Any]) -> dict[str, int | str]:
        nonlocal at
        stored = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
        written = stored.tobytes() + bytes(-stored.nbytes % _ALIGNED)
        parts.append(written)
        begin, at = at, at + len(written)
        return {
            "kind": f"{values.dtype.kind}{values.dtype.itemsize}",
            "from": begin,
            "count": int(values.size),
        }

    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=put)
    head = text.encode("utf-8", "replace")
    head += b" " * (-(4 + len(head)) % _ALIGNED)
    return b"".join((struct.pack("<I", len(head)), head, *parts))


def inside(places: NDArray[np.float32], outline: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Return whether each point is inside; an outline that crosses itself contains all that it goes around.

    places: (n, 2)
    outline: its corners; the last is joined to the first; with fewer than three, no point is inside
    returns: (n,)

    The winding number, by the crossings of the line to the right of each point: Sunday, Practical Geometry
    Algorithms, https://web.archive.org/web/20130126163405/http://geomalgorithms.com/a03-_inclusion.html
    """
    found = np.zeros(len(places), dtype=np.bool_)
    corners = np.asarray(outline, dtype=np.float64).reshape(-1, 2)
    if len(corners) < 3:
        return found
    points = places.astype(np.float64)
    low, high = corners.min(axis=0), corners.max(axis=0)
    near = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    x, y = points[near].T
    winding = np.zeros(near.size, dtype=np.int64)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        left = (x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)  # > 0: the point is to the left of the edge
        winding += (y0 <= y) & (y1 > y) & (left > 0)
        winding -= (y0 > y) & (y1 <= y) & (left < 0)
    found[near] = winding != 0
    return found


_MOST_CORNERS = 1_000  # the script sends up to 300

Outline = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What is selected on the map; equal only to itself."""

    places: NDArray[np.int64]  # positions in `drawn.rows`, ascending
    passages: NDArray[np.int64]  # their numbers, ascending
    chosen: int | None  # position of the point that was clicked
    outline: Outline  # in map units; empty: no outline

    def __len__(self) -> int:
        return int(self.places.size)


def selection_of(shown: PackedMap, state: Mapping[str, object]) -> Selection:
    """Return the selection in the browser's state; empty if that is invalid or of another map.

    state: {"selection": {"of": digest, "outline": [[x, y], …]}, "chosen": {"of": digest, "place": 3}}
    """
    outline = _outline(_about(shown, state.get("selection")).get("outline"))
    places = np.flatnonzero(inside(shown.drawn.places, outline))
    chosen = _about(shown, state.get("chosen")).get("place")
    if not isinstance(chosen, int) or isinstance(chosen, bool) or not 0 <= chosen < len(shown):
        chosen = None
    return Selection(places, shown.drawn.ids[places], chosen, outline)


def _about(shown: PackedMap, answer: object) -> Mapping[str, object]:
    if isinstance(answer, Mapping) and answer.get("of") == shown.digest:
        return answer
    return {}


def _outline(found: object) -> Outline:
    """Return the corners from the browser; () for anything but a short list of pairs of finite numbers."""
    if not isinstance(found, list) or len(found) > _MOST_CORNERS:
        return ()
    corners = []
    for corner in found:
        if not isinstance(corner, list) or len(corner) != 2:
            return ()
        x, y = corner
        if not (_is_finite(x) and _is_finite(y)):
            return ()
        corners.append((float(x), float(y)))
    return tuple(corners)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def show_map(
    shown: PackedMap,
    *,
    key: str,
    height: int = 600,
    highlight: Sequence[int] | NDArray[np.int64] | None = None,
) -> Selection:
    """Draw a map that can be moved, searched, coloured and selected from; returns the current selection.

    key: identifies the map on the page; its selection is kept while it is shown
    height: of the map in pixels; less on a narrow screen
    highlight: numbers of passages to highlight; None: no highlighting

    The points are sent to a browser once, not in every rerun.
    """
    before = st.session_state.get(key)
    outline = selection_of(shown, before).outline if isinstance(before, dict) else ()
    settings = {
        "of": shown.digest,
        "key": key,
        "height": height,
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
    """Return the positions of these passages in the drawing; those not drawn are omitted."""
    found: list[int] = np.flatnonzero(np.isin(shown.drawn.ids, np.asarray(passages, dtype=np.int64))).tolist()
    return found


def _nothing() -> None:
    """The callback that Streamlit requires for each part of the state."""


@cache
def _points_component() -> "ComponentRenderer":
    """The invisible component that holds the points in the browser."""
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
