"""Neighbours among more vectors than can all be multiplied with all: each looks into the nearest lists only.

An index of inverted lists, turned round for the case that everything asks at once: all queries that look into
a list are multiplied with all its members in one product, so that two million products of matrices take
the place of a million searches. How many lists are looked into is measured first.
Jégou et al. 2011, section IV, https://doi.org/10.1109/TPAMI.2010.57
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.k_best import KBest
from nearsay.indexer.neighbours.points import Points, Vectors
from nearsay.indexer.neighbours.products import Products
from nearsay.indexer.plans.engine import SEED, faiss_module, one_thread
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["RECALL", "ListedProducts"]

RECALL = 0.95  # of the true neighbours, the lower end of the interval
_SAMPLE = 512  # vectors whose true neighbours are looked for to measure it
_MOST_PROBES = 128
_TRAINING_VECTORS_A_LIST = 64
_BLOCK = 16_384
_QUERIES = 65_536  # at a time: about a thousand of them look into each list
_SURE = 1.645  # standard errors: a one-sided interval of 95 %


@dataclass(frozen=True, slots=True)
class ListedProducts:
    """Vectors in lists, and in which lists each looks for its neighbours."""

    products: Products  # the rows by list, in each list as they were given
    order: NDArray[np.int64]  # (m,) which of the given vectors each row is
    starts: NDArray[np.int64]  # (lists + 1,) where each list begins
    probes: NDArray[np.int16]  # (m, probed) the lists that each row looks into, the nearest first
    recall: float  # of the k nearest, measured
    k: int

    @classmethod
    def of(
        cls,
        points: Vectors,
        places: NDArray[np.int64],
        k: int,
        listener: ProgressListener = unheard,
        device: str | None = "cpu",
    ) -> "ListedProducts":
        """Put the vectors at the places, in an order that says nothing, into lists; measure k's recall."""
        centres = _centres(points, places, listener)
        probes = _nearest_lists(points, places, centres, listener, device)
        order = np.argsort(probes[:, 0], kind="stable")
        starts = np.searchsorted(probes[order, 0], np.arange(len(centres) + 1))
        probes = probes[order]  # while the products are not there yet: of a million 256 MB twice
        products = Products.of(points, places[order], device)
        probed, recall = _measured(products, probes, k, listener)
        return cls(products, order, starts, probes[:, :probed].copy(), recall, k)

    def looks(self, queries: slice) -> Iterator[tuple[NDArray[np.int64], slice]]:
        """The numbers (0 = the first of the queries) that look into a list, and the list's rows.

        First into the list that each stands in, then into the others.
        """
        for part in (slice(0, 1), slice(1, None)):
            wanted = self.probes[queries, part]
            if not wanted.size:
                continue
            flat = wanted.ravel()
            order = np.argsort(flat, kind="stable")
            bounds = np.searchsorted(flat[order], np.arange(self.starts.size))
            for number in np.flatnonzero(np.diff(bounds)):
                asking = order[bounds[number] : bounds[number + 1]] // wanted.shape[1]
                yield asking, slice(int(self.starts[number]), int(self.starts[number + 1]))

    def nearest(self, listener: ProgressListener = unheard) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k nearest (m, k) of every given vector, as numbers of given ones, and their cosines."""
        count = len(self.products)
        nearest = np.full((count, self.k), -1, dtype=np.int32)
        cosines = np.full((count, self.k), -1.0, dtype=np.float32)
        number = np.append(self.order, -1)

        def decide(queries: slice, best: KBest) -> None:
            found, cosines[self.order[queries]] = best.decided()
            nearest[self.order[queries]] = number[found]

        # A block is decided, on one core, while the next is multiplied.
        with ThreadPoolExecutor(1, thread_name_prefix="nearsay-neighbours") as thread:
            last: Future[None] | None = None
            for queries in self.blocks():
                best = KBest(self.products, np.arange(queries.start, queries.stop), self.k)
                for asking, rows in self.looks(queries):
                    best.look(asking, rows)
                if last is not None:
                    last.result()
                last = thread.submit(decide, queries, best)
                listener(Progress(queries.stop, count, "finding neighbours", "passages"))
            if last is not None:
                last.result()
        return nearest, cosines

    def blocks(self) -> Iterator[slice]:
        """Rows that are asked for at a time."""
        for begin in range(0, len(self.products), _QUERIES):
            yield slice(begin, min(begin + _QUERIES, len(self.products)))


def _centres(points: Vectors, places: NDArray[np.int64], listener: ProgressListener) -> NDArray[np.float32]:
    """About as many centres (lists, d) as the root of the count, on one thread: the same every time."""
    count = min(2 ** max(1, round(np.log2(places.size) / 2)), max(1, places.size // 4), 16_384)
    sample = places[:: max(1, places.size // (count * _TRAINING_VECTORS_A_LIST))]
    sample = sample[: count * _TRAINING_VECTORS_A_LIST]
    listener(Progress(0, None, "sorting passages into lists", "passages"))
    faiss = faiss_module()
    with one_thread():
        kmeans = faiss.Kmeans(
            points.dimension, count, niter=8, seed=SEED, spherical=True, min_points_per_centroid=1
        )
        kmeans.train(points.rows(sample))
    centres: NDArray[np.float32] = kmeans.centroids
    return centres


def _nearest_lists(
    points: Vectors,
    places: NDArray[np.int64],
    centres: NDArray[np.float32],
    listener: ProgressListener,
    device: str | None,
) -> NDArray[np.int16]:
    """The lists whose centres are nearest to each vector, the nearest first."""
    import torch

    centre = Products.of(Points.from_array(np.arange(len(centres)), centres), np.arange(len(centres)), device)
    rows = centre.rows
    width = min(_MOST_PROBES, len(centres))
    probes = np.empty((places.size, width), dtype=np.int16)
    with torch.inference_mode():
        for begin in range(0, places.size, _BLOCK):
            vectors = torch.from_numpy(points.rows(places[begin : begin + _BLOCK])).to(
                rows.device, rows.dtype
            )
            near = (vectors @ rows.T).topk(width, dim=1).indices
            probes[begin : begin + len(vectors)] = near.cpu().numpy()
            done = begin + len(vectors)
            listener(Progress(done, places.size, "sorting passages into lists", "passages"))
    return probes


def _measured(
    products: Products,
    probes: NDArray[np.int16],
    k: int,
    listener: ProgressListener,
) -> tuple[int, float]:
    """The fewest lists to look into that keep RECALL, and the recall.

    Within the lists nothing is missed, so it is enough to look in which of its lists each true neighbour is.
    """
    count = len(products)
    sample = np.arange(0, count, max(1, count // _SAMPLE))[:_SAMPLE]
    best = KBest(products, sample, k)
    for begin in range(0, count, _BLOCK):
        best.look(np.arange(sample.size), slice(begin, min(begin + _BLOCK, count)))
        listener(Progress(min(begin + _BLOCK, count), count, "measuring the recall", "passages"))
    found, _ = best.decided()
    its_list = probes[:, 0][found]
    rank = (probes[sample][:, None, :] == its_list[:, :, None]).argmax(axis=2)
    rank[~(probes[sample][:, None, :] == its_list[:, :, None]).any(axis=2)] = probes.shape[1]
    for probed in range(1, probes.shape[1] + 1):
        shares = (rank < probed).mean(axis=1)
        if shares.mean() - _SURE * shares.std() / np.sqrt(sample.size) >= RECALL:
            break
    return probed, float((rank < probed).mean())
