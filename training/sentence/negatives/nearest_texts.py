"""The corpus texts nearest to an anchor, by FAISS."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import MissingExtraError

__all__ = ["nearest_texts", "require_faiss"]


def nearest_texts(
    anchors: NDArray[np.float32], corpus: NDArray[np.float32], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Give, for each anchor, the rows of the nearest corpus vectors and their cosine similarity, best first.

    anchors: (anchors, dimension) unit vectors; corpus: (texts, dimension) unit vectors, C-contiguous
    returns: rows and scores, both (anchors, min(depth, texts)); equal scores come in the order of their rows

    The search is exact; FAISS scores block by block and never holds all products. MissingExtraError without
    FAISS.
    """
    faiss = require_faiss()
    scores, rows = faiss.knn(
        np.ascontiguousarray(anchors), corpus, min(depth, len(corpus)), metric=faiss.METRIC_INNER_PRODUCT
    )
    order = np.lexsort((rows, -scores), axis=1)
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def require_faiss() -> Any:  # noqa: ANN401 - FAISS has no types
    """Give the FAISS module; MissingExtraError when it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("Mining hard negatives", "cpu") from error
    return faiss
