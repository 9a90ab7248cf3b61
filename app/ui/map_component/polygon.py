"""Which points lie inside an outline that somebody drew."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["inside"]


def inside(places: NDArray[np.float32], outline: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Whether each point lies inside; an outline that crosses itself holds all that it goes around.

    places:  (n, 2)
    outline: its corners, the last being joined to the first; of fewer than three nothing lies inside
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
