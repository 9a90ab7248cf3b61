"""Where the points of a map begin: spread by their two main directions, or where an older map has them."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["SIDE", "begun_from", "main_directions"]

SIDE = 10.0  # the side of the square in which a layout begins, as in umap-learn
_BLOCK = 8192


def main_directions(vectors: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """The two principal components of the vectors, scaled into a square; signs are fixed.

    vectors: (n, d); returns: (n, 2). As good a beginning as the spectrum of the graph (Kobak & Linderman
    2021, https://doi.org/10.1038/s41587-020-00809-z), and never lost among separate parts of it. A little
    noise parts points that fall together.
    """
    generator = np.random.default_rng(seed)
    dimension = vectors.shape[1]
    mean = vectors.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((dimension, dimension))
    for begin in range(0, len(vectors), _BLOCK):
        centred = vectors[begin : begin + _BLOCK] - mean
        scatter += centred.T @ centred
    axes = np.linalg.eigh(scatter)[1][:, ::-1][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0.0, -1.0, 1.0)
    places = np.zeros((len(vectors), 2))
    places[:, : axes.shape[1]] = (vectors - mean) @ axes
    spread = np.ptp(places, axis=0)
    places = SIDE * (places - places.min(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    noisy: NDArray[np.float32] = (places + generator.normal(scale=1e-4, size=places.shape)).astype(np.float32)
    return noisy


def begun_from(
    known: NDArray[np.bool_],
    places: NDArray[np.float32],
    neighbours: NDArray[np.int32],
    weights: NDArray[np.float64],
    seed: int,
) -> NDArray[np.float32]:
    """Places of an older map, and for the points that it lacks the weighted mean of their neighbours there.

    known: (n,) whether the older map has it; places: (n, 2), anything where it has not; neighbours, weights:
    (n, k), -1 = none. Points whose neighbours are all new come among the others, round by round; points
    that nothing leads to begin in the middle.
    """
    found, have = places.astype(np.float64), known.copy()
    found[~have] = found[have].mean(axis=0)
    while not have.all():
        missing = np.flatnonzero(~have)
        near = neighbours[missing]
        weight = weights[missing] * (near >= 0) * have[near]
        total = weight.sum(axis=1)
        reached = total > 0.0
        if not reached.any():
            break
        mean = np.einsum("nk,nkd->nd", weight[reached], found[near[reached]]) / total[reached, None]
        found[missing[reached]] = mean
        have[missing[reached]] = True
    noise = np.random.default_rng(seed).normal(scale=1e-3, size=found.shape)
    noise[known] = 0.0
    begun: NDArray[np.float32] = (found + noise).astype(np.float32)
    return begun
