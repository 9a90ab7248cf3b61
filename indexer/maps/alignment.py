"""A map turned to lie on an older one, so that the picture stays recognisable."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["aligned", "levelled", "mean_shift"]


def aligned(
    places: NDArray[np.float32], shared: NDArray[np.intp], older: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Shift, turn and mirror a whole map so that the shared points come closest to their old places.

    places: (n, 2); shared: (m,) rows of `places` that the older map has; older: (m, 2) their places there.
    The squared distances are least (orthogonal Procrustes: Schönemann 1966,
    https://doi.org/10.1007/BF02289451). The scale stays: that of least squares shrinks a map towards a point
    where the two have little in common, and what is projected into it later is moved by a layout's steps.
    With fewer than two different shared points nothing but the shift is known.
    """
    from scipy.linalg import orthogonal_procrustes

    if not shared.size:
        return places
    here, there = places[shared].astype(np.float64), older.astype(np.float64)
    middle, old_middle = here.mean(axis=0), there.mean(axis=0)
    here, there = here - middle, there - old_middle
    if not here.any() or not there.any():
        shifted: NDArray[np.float32] = (places - middle + old_middle).astype(np.float32)
        return shifted
    moved = (places - middle) @ orthogonal_procrustes(here, there)[0] + old_middle
    narrow: NDArray[np.float32] = moved.astype(np.float32)
    return narrow


def levelled(places: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn a map so that it spreads more from left to right than up and down, its middle at zero; (n, 2)."""
    centred = places.astype(np.float64) - places.mean(axis=0, dtype=np.float64)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(2)] < 0.0, -1.0, 1.0)
    narrow: NDArray[np.float32] = (centred @ axes).astype(np.float32)
    return narrow


def mean_shift(places: NDArray[np.float32], older: NDArray[np.float32]) -> float:
    """How far points lie from their old places on average, in units of the older map's spread.

    Both (n, 2). The spread is the root mean square distance from its middle: two maps that have nothing to
    do with each other are about 1.3 apart.
    """
    middle = older.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(((older - middle) ** 2).sum(axis=1).mean()))
    distances = np.linalg.norm(places.astype(np.float64) - older, axis=1)
    return float(distances.mean()) / spread if spread else 0.0
