"""Is a document found by its title?"""

import numpy as np
from numpy.typing import NDArray

from nearsay.training.evaluation.exact_search import nearest
from nearsay.training.evaluation.proxies.proxy import Proxy, ProxyFigure, figure_of

__all__ = ["body_without_title", "title_to_body"]

_DEPTH = 10


def title_to_body(
    titles: NDArray[np.float32], bodies: NDArray[np.float32], owners: NDArray[np.int64]
) -> ProxyFigure | None:
    """Give the mean of 1 / rank of each title's own body among all bodies, 0 beyond rank 10.

    titles: (titles, dimension), bodies: (documents, dimension), both float32 of length 1
    owners: (titles,) the row of each title's own body
    None without titles, or with fewer than 2 bodies.
    """
    if not len(titles) or len(bodies) < 2:
        return None
    each = []
    for owner, rows in zip(owners, nearest(titles, bodies, depth=_DEPTH), strict=True):
        places = np.flatnonzero(rows == owner)
        each.append(1 / (1 + int(places[0])) if len(places) else 0.0)
    found = min(_DEPTH, len(bodies))
    return figure_of(Proxy.TITLES, each, float((1 / np.arange(1, found + 1)).sum() / len(bodies)))


def body_without_title(title: str, body: str) -> str:
    """Give the body without the title that it may begin with, by which it would find itself."""
    start = body.lstrip("# \t\r\n")
    return start[len(title) :].lstrip() if start.lower().startswith(title.lower()) else body
