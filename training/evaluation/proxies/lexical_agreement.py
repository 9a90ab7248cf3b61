"""Does an encoder find the same neighbours as a search by words?"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.training.evaluation.exact_search import nearest
from nearsay.training.evaluation.proxies.proxy import Proxy, ProxyFigure, figure_of

__all__ = ["lexical_agreement", "lexical_neighbours"]

_DEPTH: Final = 10


def lexical_neighbours(scores: NDArray[np.float64], rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Give the ten passages with the highest scores for each query, without the query itself.

    scores: (queries, passages); rows: (queries,) which passage each query is
    Passages without a shared word are no neighbours, so there may be fewer; equal scores by row.
    """
    found = []
    for of_query, row in zip(scores, rows, strict=True):
        order = np.argsort(-of_query, kind="stable")
        found.append(np.array([i for i in order[: _DEPTH + 1] if i != row and of_query[i] > 0])[:_DEPTH])
    return found


def lexical_agreement(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], lexical: list[NDArray[np.int64]]
) -> ProxyFigure | None:
    """Give the mean share of BM25's neighbours that are the encoder's neighbours too.

    vectors: (passages, dimension) float32 of length 1; rows: (queries,) the passages that are asked for
    lexical: their neighbours, as `lexical_neighbours` gives them; the encoder's are as many
    None when no query has a lexical neighbour.
    """
    each = []
    chances = []
    for row, theirs, ours in zip(
        rows, lexical, nearest(vectors[rows], vectors, depth=_DEPTH + 1), strict=True
    ):
        if not len(theirs):
            continue
        own = [i for i in ours if i != row][: len(theirs)]
        each.append(len(set(own) & set(theirs.tolist())) / len(theirs))
        chances.append(len(theirs) / max(len(vectors) - 1, 1))
    return figure_of(Proxy.LEXICAL, each, float(np.mean(chances or [0.0])))
