"""How strongly UMAP holds two neighbours together: from cosines to a weighted graph.

McInnes, Healy & Melville 2018, sections 3.1 and 4.1, https://arxiv.org/abs/1802.03426: around each point the
distances are measured from its nearest neighbour on (rho), in a unit (sigma) in which its k neighbours weigh
log2(k) together; what one says of the other and the other of the one are united as fuzzy sets.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["memberships", "united"]

_HALVINGS = 64
_LEAST_SIGMA = 1e-3  # of the mean distance
_BLOCK = 16_384  # points at a time: at 14 neighbours a few MB


def memberships(distances: NDArray[np.float32], *, from_nearest: bool = True) -> NDArray[np.float64]:
    """How much each neighbour belongs to its point, 0 to 1.

    distances:    (n, k) cosine distances to the neighbours, the point itself left out, rising; inf = none
    from_nearest: measured from the nearest neighbour that is not at the same place, so that this one weighs
                  1; False, for points that are projected: measured from the point itself
    returns:      (n, k); 0 where there is no neighbour
    """
    found = np.zeros(distances.shape, dtype=np.float64)
    if not distances.size:
        return found
    there = np.isfinite(distances)
    overall = float(distances[there].mean()) if there.any() else 0.0
    for begin in range(0, len(distances), _BLOCK):
        some = slice(begin, begin + _BLOCK)
        found[some] = _of_some(distances[some].astype(np.float64), overall, from_nearest=from_nearest)
    return found


def _of_some(distances: NDArray[np.float64], overall: float, *, from_nearest: bool) -> NDArray[np.float64]:
    there = np.isfinite(distances)
    rho = np.zeros(len(distances))
    if from_nearest:
        rho = np.where(there & (distances > 0.0), distances, np.inf).min(axis=1)
        rho[~np.isfinite(rho)] = 0.0
    gaps = np.maximum(distances - rho[:, None], 0.0)
    counts = there.sum(axis=1)
    target = np.log2(np.maximum(counts + int(from_nearest), 1))  # umap-learn counts the point itself
    low, sigma = np.zeros(len(distances)), np.ones(len(distances))
    high = np.full(len(distances), np.inf)
    for _ in range(_HALVINGS):
        too_wide = np.exp(-gaps / sigma[:, None]).sum(axis=1) > target
        high = np.where(too_wide, sigma, high)
        low = np.where(too_wide, low, sigma)
        sigma = np.where(np.isinf(high), 2.0 * sigma, (low + high) / 2.0)
    own = np.where(there, distances, 0.0).sum(axis=1) / np.maximum(counts, 1)
    floor = _LEAST_SIGMA * np.where(rho > 0.0, own, overall)
    weights: NDArray[np.float64] = np.exp(-gaps / np.maximum(np.maximum(sigma, floor), 1e-12)[:, None])
    return weights


def united(neighbours: NDArray[np.int32], weights: NDArray[np.float64]) -> "csr_matrix":
    """The symmetric graph of what either point says of the other: a + b - ab.

    neighbours: (n, k) places, -1 = none; weights: (n, k); returns: (n, n) sparse, float64
    """
    from scipy.sparse import csr_matrix

    count = len(neighbours)
    there = neighbours >= 0
    rows = np.repeat(np.arange(count), there.sum(axis=1))
    one = csr_matrix((weights[there], (rows, neighbours[there])), shape=(count, count))
    other = one.T.tocsr()
    both = (one + other - one.multiply(other)).tocsr()
    both.eliminate_zeros()
    both.sort_indices()
    return both
