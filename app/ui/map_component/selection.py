"""What somebody chose on a map: the points inside an outline, and the one that was clicked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.app.ui.map_component.packed_map import PackedMap
from nearsay.app.ui.map_component.polygon import inside

__all__ = ["Outline", "Selection", "selection_of"]

_MOST_CORNERS = 1_000  # the script sends up to 300

Outline = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Equal only to itself."""

    places: NDArray[np.int64]  # which of the drawing's points, rising; `drawn.rows[place]` is the passage
    passages: NDArray[np.int64]  # their numbers, rising
    chosen: int | None  # the place of the point that was clicked
    outline: Outline  # in the map's units; empty: nothing was drawn

    def __len__(self) -> int:
        return int(self.places.size)


def selection_of(shown: PackedMap, state: Mapping[str, object]) -> Selection:
    """What the browser's answer means; what is no answer about this very map means nothing was chosen.

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
    """Corners that a browser sent; anything else than a short list of pairs of numbers is none."""
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
