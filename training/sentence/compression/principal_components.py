"""The directions in which vectors differ most."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

__all__ = ["PrincipalComponents", "principal_components"]


@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """A linear map to fewer dimensions."""

    mean: NDArray[np.float64]  # (width,) of the vectors it was fitted on
    components: NDArray[np.float64]  # (dimension, width), orthonormal rows, the most telling first
    variance_kept: float  # share of the vectors' variance that the components hold, 0 to 1
    vectors: int  # that it was fitted on

    def project(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Give (n, width) vectors in (n, dimension), the mean not taken away."""
        return np.ascontiguousarray(vectors @ self.components.T, dtype=np.float32)


def principal_components(
    windows: Iterable[NDArray[np.float32] | NDArray[np.float64]], dimension: int
) -> PrincipalComponents:
    """Fit the `dimension` directions of greatest variance, in one pass and with one window in memory.

    windows: arrays (rows, width) of float32 or float64
    A component's sign is arbitrary; its number of greatest size is made positive. Raises BadInputError when
    there are fewer vectors than dimensions + 1, which leave directions undecided, or the vectors are not
    wider than `dimension`.

    Pearson 1901, https://doi.org/10.1080/14786440109462720
    """
    count = 0
    first: NDArray[np.float64] | None = None
    total = products = np.zeros(0)
    for window in windows:
        if not len(window):
            continue
        if first is None:
            width = window.shape[1]
            # Less one of the vectors, so that a mean far from 0 costs no digits of the variance.
            first, total, products = window[0].astype(np.float64), np.zeros(width), np.zeros((width, width))
        shifted = window - first
        count += len(shifted)
        total = total + shifted.sum(axis=0)
        products = products + shifted.T @ shifted
    if first is None or count <= dimension:
        raise BadInputError(
            f"{count:,} texts are too few to choose {dimension} dimensions by. "
            f"Give more than {dimension} texts, better some thousands"
        )
    if not 1 <= dimension < len(first):
        raise BadInputError(
            f"{len(first)} dimensions cannot be reduced to {dimension}. "
            f"Name a number from 1 to {len(first) - 1}"
        )
    shift = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(shift, shift))
    components = directions[:, ::-1][:, :dimension].T
    greatest = components[np.arange(dimension), np.abs(components).argmax(axis=1)]
    return PrincipalComponents(
        mean=first + shift,
        components=np.ascontiguousarray(components * np.sign(greatest)[:, None]),
        variance_kept=float(variances[::-1][:dimension].sum() / variances.sum()) if variances.sum() else 1.0,
        vectors=count,
    )
