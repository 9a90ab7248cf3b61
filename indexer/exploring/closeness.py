"""How near passages are to the nearest of other documents, by blocked matrix products."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Points

__all__ = ["REFERENCES", "highest_cosines"]

REFERENCES = 4096  # passages compared with at a time
_ROWS = 1024  # passages compared at a time: with the references above 16 MB of products
_NONE = -2.0  # below every cosine: there is none yet


def highest_cosines(
    points: Points,
    places: NDArray[np.int64],
    references: NDArray[np.int64],
    documents: NDArray[np.int64],
    best: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Each passage's highest cosines with references of other documents, those known before among them.

    places:     (m,) of the passages
    references: (r,) places, none of which was compared with before
    documents:  (n,) by place: a passage's own document is left out
    best:       (m, k) the highest so far in any order, below -1 where there are none yet
    returns:    (m, k) in any order
    """
    k = best.shape[1]
    found = best.copy()
    for start in range(0, references.size, REFERENCES):
        others = np.sort(references[start : start + REFERENCES])
        vectors = points.rows(others)
        for begin in range(0, places.size, _ROWS):
            part = slice(begin, begin + _ROWS)
            products = points.rows(places[part]) @ vectors.T
            products[documents[places[part], None] == documents[None, others]] = _NONE
            both = np.concatenate([found[part], products], axis=1)
            found[part] = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
    return found
