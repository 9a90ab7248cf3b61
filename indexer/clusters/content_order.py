"""Points in an order that only their content decides, copies counted once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Points

__all__ = ["Distinct", "distinct"]

_BLOCK = 8192
_COARSE_DIMENSIONS = 32
_COARSE_STEPS = 64  # in a unit: vectors that differ by rounding alone nearly always share the coarse key


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different vectors among points, in an order that looks random but is the same for the same set."""

    points: Points  # (m,) different vectors; their ids are their places
    counts: NDArray[np.int64]  # (m,) how many points have each
    back: NDArray[np.int64]  # (n,) the place in `points` of each of the points that were given

    def __len__(self) -> int:
        return len(self.points)


def distinct(points: Points, seed: int) -> Distinct:
    """Points in the order of a hash of their vectors, so that whatever is computed on them in turn, or on
    the first few as a sample, does not depend on the order in which the passages came.

    The hash's first part is of coarsely rounded numbers: where an encoder's rounding makes the same text
    differ in the last bits, its place hardly changes.
    """
    generator = np.random.default_rng(seed)
    dimension = points.dimension
    coarse_factors = _odd(generator, min(_COARSE_DIMENSIONS, dimension))
    exact_factors = _odd(generator, dimension)
    coarse = np.empty(len(points), dtype=np.uint64)
    exact = np.empty(len(points), dtype=np.uint64)
    for begin, rows in points.blocks(_BLOCK):
        end = begin + len(rows)
        rounded = np.rint(rows[:, : coarse_factors.size] * _COARSE_STEPS).astype(np.int64)
        coarse[begin:end] = _mixed(rounded.view(np.uint64), coarse_factors)
        bits = (np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0)).view(np.uint32)  # -0 becomes 0
        exact[begin:end] = _mixed(bits.astype(np.uint64), exact_factors)
    order = np.lexsort((exact, coarse))
    starts = np.ones(order.size, dtype=np.bool_)
    starts[1:] = (exact[order[1:]] != exact[order[:-1]]) | (coarse[order[1:]] != coarse[order[:-1]])
    group = np.cumsum(starts) - 1
    back = np.empty(order.size, dtype=np.int64)
    back[order] = group
    vectors = _read(points, order[starts])
    return Distinct(
        Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors),
        np.bincount(group, minlength=len(vectors)).astype(np.int64),
        back,
    )


def _odd(generator: np.random.Generator, size: int) -> NDArray[np.uint64]:
    drawn: NDArray[np.uint64] = generator.integers(0, 2**64, size, dtype=np.uint64) | np.uint64(1)
    return drawn


def _mixed(numbers: NDArray[np.uint64], factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Multilinear hashing, then the finaliser of SplitMix64 (Steele et al. 2014)."""
    mixed: NDArray[np.uint64] = (numbers * factors).sum(axis=1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _read(points: Points, places: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors at the places, in their order, read in the order in which they lie."""
    vectors = np.empty((places.size, points.dimension), dtype=np.float32)
    to = np.full(len(points), -1, dtype=np.int64)
    to[places] = np.arange(places.size)
    for begin, rows in points.blocks(_BLOCK):
        there = to[begin : begin + len(rows)]
        vectors[there[there >= 0]] = rows[there >= 0]
    return vectors
