"""Is a passage found again by a copy of it that was written carelessly?"""

import numpy as np
from numpy.typing import NDArray

from nearsay.training.evaluation.exact_search import nearest
from nearsay.training.evaluation.proxies.proxy import Proxy, ProxyFigure, figure_of

__all__ = ["duplicates_found"]


def duplicates_found(copies: NDArray[np.float32], passages: NDArray[np.float32]) -> ProxyFigure | None:
    """Give the share of copies whose nearest passage is their own.

    copies, passages: (passages, dimension) float32 of length 1; row by row they belong together
    None for fewer than 2 passages.
    """
    if len(passages) < 2:
        return None
    each = [float(rows[0] == row) for row, rows in enumerate(nearest(copies, passages, depth=1))]
    return figure_of(Proxy.DUPLICATES, each, 1 / len(passages))
