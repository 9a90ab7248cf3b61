"""Colours that can be told from each other, on light and on dark ground."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CATEGORIES", "OTHERS", "RAMP", "REST", "spread_colours"]

# Tableau's ten and ten more of their kind, the strongest first; the first twelve differ for the colour-blind.
CATEGORIES: Final = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#1fa3a3", "#d4a72c", "#9c755f", "#e377c2"),
    *("#6b8e23", "#5b6fd6", "#c2533c", "#2e9e6b", "#a05195", "#3f97c9", "#8a7f2e", "#d97aa6", "#7a62c9"),
)
REST: Final = "#a3a7ae"  # what has no value or belongs nowhere
OTHERS: Final = "#7d828a"  # what shares a colour
# Viridis, https://bids.github.io/colormap/, without its darkest end, which dark ground swallows.
RAMP: Final = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")


def spread_colours(middles: Sequence[tuple[float, float]]) -> list[str]:
    """A colour for each cluster, in their order, so that those of one colour lie far apart.

    middles: where each lies. The first take a colour each; every further one takes that whose nearest
    bearer is farthest away.
    """
    places: NDArray[np.float64] = np.asarray(middles, dtype=np.float64).reshape(-1, 2)
    taken: list[int] = []
    for at, place in enumerate(places):
        if at < len(CATEGORIES):
            taken.append(at)
            continue
        away = np.hypot(*(places[:at] - place).T)
        borne = np.array(taken)
        taken.append(max(range(len(CATEGORIES)), key=lambda colour: float(away[borne == colour].min())))
    return [CATEGORIES[colour] for colour in taken]
