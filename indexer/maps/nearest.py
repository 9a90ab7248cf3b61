"""The nearest of the passages that were laid out, for passages that were not."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.plans.engine import faiss_is_installed, faiss_module, one_thread
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["nearest_anchors"]

_DOING = "projecting"
_MOST_PRODUCTS = 2_000_000_000  # of vectors; more go through FAISS: at 384 dimensions 15 s on two cores
_QUERIES = 1024
_ANCHORS = 16_384
_PROBES = 16
_SPARE = 4  # proposed beyond those that are kept, since a product rounds


def nearest_anchors(
    new: Points,
    anchors: Points,
    k: int,
    *,
    listener: ProgressListener = unheard,
    most_products: int = _MOST_PRODUCTS,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k nearest anchors of each new passage, nearest first, ties by place, and their cosines, (n, k).

    Exact up to `most_products`, and wherever FAISS is not installed; beyond through inverted lists, of which
    a few are looked through: some neighbours are missed, and others as near taken.
    """
    width = min(k, len(anchors))
    proposed = min(width + _SPARE, len(anchors))
    near = np.empty((len(new), width), dtype=np.int64)
    cosines = np.empty((len(new), width), dtype=np.float32)
    stored = anchors.rows(np.arange(len(anchors)))
    quick = len(new) * len(anchors) > most_products and faiss_is_installed()
    lists = _inverted_lists(stored) if quick else None
    for begin, rows in new.blocks(_QUERIES):
        some = np.arange(begin, begin + len(rows))
        found = _exactly(rows, stored, proposed) if lists is None else _listed(lists, rows, proposed)
        near[some], cosines[some] = _decided(rows, stored, found, width)
        listener(Progress(begin + len(rows), len(new), _DOING, "passages"))
    return near, cosines


def _exactly(rows: NDArray[np.float32], anchors: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The k anchors of the largest products with each row, in any order."""
    import torch

    queries = torch.from_numpy(rows)
    best, places = torch.empty(len(rows), 0), torch.empty(len(rows), 0, dtype=torch.int64)
    with torch.inference_mode():
        for begin in range(0, len(anchors), _ANCHORS):
            products = queries @ torch.from_numpy(anchors[begin : begin + _ANCHORS]).T
            highest = products.topk(min(k, products.shape[1]), dim=1)
            best = torch.cat([best, highest.values], dim=1)
            places = torch.cat([places, highest.indices + begin], dim=1)
            kept = best.topk(min(k, best.shape[1]), dim=1)
            best, places = kept.values, places.gather(1, kept.indices)
    found: NDArray[np.int64] = places.numpy()
    return found


def _inverted_lists(anchors: NDArray[np.float32]) -> Any:  # noqa: ANN401 - FAISS has no types
    faiss = faiss_module()
    count = max(1, int(2 * np.sqrt(len(anchors))))
    flat = faiss.IndexFlatIP(anchors.shape[1])
    index = faiss.IndexIVFFlat(flat, anchors.shape[1], count, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.min_points_per_centroid = 10, 1
    with one_thread():
        index.train(anchors[: 64 * count])
    index.add(anchors)
    index.nprobe = min(_PROBES, count)
    return index


def _listed(index: Any, rows: NDArray[np.float32], k: int) -> NDArray[np.int64]:  # noqa: ANN401
    found: NDArray[np.int64] = index.search(rows, k)[1]
    return np.where(found < 0, found[:, :1], found)  # lists that ran dry give the nearest again


def _decided(
    rows: NDArray[np.float32], anchors: NDArray[np.float32], found: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The nearest of those proposed, by einsum's cosines, which do not depend on where a vector stands."""
    proposed = anchors[found.ravel()]
    cosines = np.einsum("ij,ij->i", np.repeat(rows, found.shape[1], axis=0), proposed).reshape(found.shape)
    order = np.lexsort((found, -cosines), axis=1)[:, :width]
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(cosines, order, axis=1)
