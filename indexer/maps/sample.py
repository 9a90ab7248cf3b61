"""Which passages are drawn where there are more than can be."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["sampled"]


def sampled(ids: NDArray[np.int64], most: int, seed: int = 0) -> NDArray[np.int64]:
    """So many passages taken at random, rising; all where there are no more. The same seed takes the same."""
    if ids.size <= most:
        return ids
    return np.sort(np.random.default_rng(seed).choice(ids, most, replace=False))
