"""Colours that can be told from each other, on light and on dark ground."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CATEGORIES", "OTHERS", "RAMP", "REST", "SHADES", "spread_colours"]

# Tableau's ten and ten more of their kind, the strongest first; the first twelve differ for the colour-blind.
CATEGORIES: Final = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#1fa3a3", "#d4a72c", "#9c755f", "#e377c2"),
    *("#6b8e23", "#5b6fd6", "#c2533c", "#2e9e6b", "#a05195", "#3f97c9", "#8a7f2e", "#d97aa6", "#7a62c9"),
)
REST: Final = "#a3a7ae"  # what has no value or belongs nowhere
OTHERS: Final = "#7d828a"  # what shares a colour
# Viridis, https://bids.github.io/colormap/, without its darkest end, which dark ground swallows.
RAMP: Final = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")


def _shades() -> tuple[str, ...]:
    """The categories' colours, then each of them lighter and darker: what many clusters are told apart by."""
    base = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in CATEGORIES], np.float64)
    lighter, darker = base + 0.36 * (255 - base), base * 0.74
    rows = np.concatenate((base, darker, lighter)).round().astype(int)
    return tuple(f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in rows.tolist())


SHADES: Final = _shades()


def spread_colours(middles: Sequence[tuple[float, float]]) -> list[str]:
    """A colour for each cluster, in their order: no two alike as long as there are shades, then far apart.

    middles: where each lies. The first take the strongest colours; every further one takes the shade that
    least resembles those of its neighbours, and repeats one only when all are taken, where its bearer is
    farthest away.
    """
    places: NDArray[np.float64] = np.asarray(middles, dtype=np.float64).reshape(-1, 2)
    taken: list[int] = []
    reach = _NEAR * float(np.hypot(*np.ptp(places, axis=0))) if len(places) else 1.0
    for at, place in enumerate(places):
        if at < len(CATEGORIES):
            taken.append(at)
            continue
        away = np.hypot(*(places[:at] - place).T)
        borne = np.array(taken)
        free = [shade for shade in range(len(SHADES)) if shade not in taken]
        if free:
            closeness = np.exp(-((away / max(reach, 1e-9)) ** 2))
            taken.append(min(free, key=lambda shade: float(closeness @ _ALIKE[shade, borne])))
        else:
            taken.append(max(range(len(SHADES)), key=lambda shade: float(away[borne == shade].min())))
    return [SHADES[shade] for shade in taken]


def _likeness() -> NDArray[np.float64]:
    """How alike two shades look, 1 for the same: (shades, shades).

    Distance in Oklab, Ottosson 2020, https://bottosson.github.io/posts/oklab/
    """
    rows = [[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in SHADES]
    srgb = np.array(rows)
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    lab = np.cbrt(linear @ np.array(to_cones).T) @ np.array(to_lab).T
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1)
    return np.asarray(np.exp(-((apart / _ALIKE_WITHIN) ** 2)))


_NEAR = 0.15  # of the map's diagonal: clusters so near to each other are seen together
_ALIKE_WITHIN = 0.12  # in Oklab: what is seen to differ at the size of a point
_ALIKE: Final = _likeness()
