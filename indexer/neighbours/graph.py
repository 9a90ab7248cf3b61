"""The neighbour graph: each passage's k nearest, for all passages at once."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Distinct, Points, Vectors, runs
from nearsay.indexer.neighbours.products import Products, Proposals, cosines_of, greatest
from nearsay.indexer.plans.engine import SEED, faiss_module, one_thread
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import raise_bars

if TYPE_CHECKING:
    import torch
    from scipy.sparse import csr_matrix

_TOGETHER = 4096  # vectors whose copies are sorted at a time


def with_copies(
    points: Vectors,
    distinct: Distinct,
    rows: NDArray[np.int32],
    cosines: NDArray[np.float32],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k nearest places of every place (n, k), -1 = no more, and their cosines.

    rows, cosines: (m, up to k) the nearest different vectors of each different vector
    """
    repeated = distinct.copies > 1
    # The k + 1 places nearest to each vector, those that have it among them.
    best = np.full((len(distinct), k + 1), -1, dtype=np.int32)
    value = np.full((len(distinct), k + 1), -1.0, dtype=np.float32)
    best[:, 0], best[:, 1 : rows.shape[1] + 1] = distinct.first, np.append(distinct.first, -1)[rows]
    first = distinct.first[repeated]
    value[repeated, 0], value[:, 1 : rows.shape[1] + 1] = cosines_of(points, first, first), cosines
    touched = np.flatnonzero(repeated | np.append(repeated, False)[rows].any(axis=1))
    for begin in range(0, touched.size, _TOGETHER):
        some = touched[begin : begin + _TOGETHER]
        near = np.concatenate([some[:, None], rows[some]], axis=1)
        line, column = np.nonzero(near >= 0)
        vectors = near[line, column]
        held = np.minimum(distinct.copies[vectors], k + 1)
        places = distinct.members[runs(distinct.starts[vectors], held)]
        line, found = np.repeat(line, held), np.repeat(value[some[line], column], held)
        order = np.lexsort((places, -found, line))
        rank = np.arange(order.size) - np.searchsorted(line, line)  # lines rise, sorted or not
        kept = rank <= k
        at = some[line[kept]], rank[kept]
        best[at], value[at] = places[order][kept], found[order][kept]
    own = best[distinct.number] == np.arange(len(points))[:, None]
    own[~own.any(axis=1), k] = True  # which of its many copies are the first k + 1
    shape = len(points), k
    return best[distinct.number][~own].reshape(shape), value[distinct.number][~own].reshape(shape)


_MOST_KEPT = 12_000_000  # proposals in memory: with more, they are decided at once


class KBest(Proposals):
    """For each of some queries, which are rows of the products, the k rows that are nearest to it."""

    def __init__(
        self,
        products: Products,
        queries: NDArray[np.int64],
        k: int,
        bar: float = -np.inf,
        among: NDArray[np.bool_] | None = None,
    ) -> None:
        """bar: what is surely below is not found; among: the rows that may be, None = all; needs a bar."""
        bars = np.full(queries.size, bar, dtype=np.float32)
        super().__init__(products, queries, bars, 4 * k * queries.size, _MOST_KEPT, among)
        self.k = k

    def decided(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows (count, k), -1 where there are no more, and their cosines, falling; ties by place."""
        self._decide()
        bounds = np.searchsorted(self._one, np.arange(self.queries.size + 1))
        rank = np.arange(self._one.size) - bounds[self._one]
        rows = np.full((self.queries.size, self.k), -1, dtype=np.int64)
        cosines = np.full((self.queries.size, self.k), -1.0, dtype=np.float32)
        rows[self._one, rank] = self._other
        cosines[self._one, rank] = self._low
        return rows, cosines

    def _set_bars(self, products: "torch.Tensor", error: float, some: NDArray[np.int64], rows: slice) -> None:
        import torch

        unset = np.flatnonzero(np.isneginf(self.bars[some]))
        if unset.size and rows.stop - rows.start > self.k:  # one may be the query itself
            best = greatest(products[torch.from_numpy(unset)], self.k + 1).topk(self.k + 1, dim=1).values
            self.bars[some[unset]] = best[:, -1].float().cpu().numpy() - np.float32(error)

    def _wanted(
        self,
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        rows: slice,  # noqa: ARG002
    ) -> NDArray[np.bool_]:
        others: NDArray[np.bool_] = first != second
        return others

    def _prune(self) -> None:
        self._gather()
        order = raise_bars(self.bars, self._one, self._low, self.k)
        self._take(order[self._high[order] >= self.bars[self._one[order]]])

    def _decide(self) -> None:
        """Score what is left in float32 and keep the k best of each query."""
        self._prune()
        places = self.products.places
        row = self._other.astype(np.int64)
        cosines = cosines_of(self.products.points, places[self.queries[self._one]], places[row])
        order = np.lexsort((places[row], -cosines, self._one))
        query = self._one[order]
        bounds = np.searchsorted(query, np.arange(self.queries.size + 1))
        kept = order[np.arange(query.size) - bounds[query] < self.k]
        self._low = self._high = cosines
        self._take(kept)
        full = np.flatnonzero(np.diff(bounds) >= self.k)
        last = np.searchsorted(self._one, full) + self.k - 1
        self.bars[full] = np.maximum(self.bars[full], self._low[last])


# Neighbours among more vectors than can all be multiplied with all: each looks into the nearest lists only.
#
# An index of inverted lists, turned round for the case that everything asks at once: all queries that look
# into a list are multiplied with all its members in one product, so that two million products of matrices
# take the place of a million searches. How many lists are looked into is measured first. Jégou et al. 2011,
# section IV, https://doi.org/10.1109/TPAMI.2010.57


RECALL = 0.95  # of the true neighbours, the lower end of the interval
_SAMPLE = 512  # vectors whose true neighbours are looked for to measure it
_MOST_PROBES = 128
_TRAINING_VECTORS_A_LIST = 64
_BLOCK = 16_384
_LISTS_QUERIES = 65_536  # at a time: about a thousand of them look into each list
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
        centroids = _centroids(points, places, listener)
        probes = _nearest_lists(points, places, centroids, listener, device)
        order = np.argsort(probes[:, 0], kind="stable")
        starts = np.searchsorted(probes[order, 0], np.arange(len(centroids) + 1))
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
        for begin in range(0, len(self.products), _LISTS_QUERIES):
            yield slice(begin, min(begin + _LISTS_QUERIES, len(self.products)))


def _centroids(points: Vectors, places: NDArray[np.int64], listener: ProgressListener) -> NDArray[np.float32]:
    """About as many centroids (lists, d) as the root of the count, on one thread: the same every time."""
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
    centroids: NDArray[np.float32] = kmeans.centroids
    return centroids


def _nearest_lists(
    points: Vectors,
    places: NDArray[np.int64],
    centroids: NDArray[np.float32],
    listener: ProgressListener,
    device: str | None,
) -> NDArray[np.int16]:
    """The lists whose centroids are nearest to each vector, the nearest first."""
    import torch

    centre = Products.of(
        Points.from_array(np.arange(len(centroids)), centroids), np.arange(len(centroids)), device
    )
    rows = centre.rows
    width = min(_MOST_PROBES, len(centroids))
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


EXACT_UP_TO = 200_000  # different vectors: all products of twice as many would take a quarter of an hour
_GRAPH_QUERIES = 2048


@dataclass(frozen=True, slots=True)
class NeighbourGraph:
    """Each passage's nearest among the same passages, itself left out."""

    neighbours: NDArray[np.int32]  # (n, k) places, nearest first, ties by place; -1 = no more
    cosines: NDArray[np.float32]  # (n, k) falling; -1 where there is no neighbour
    exact: bool  # False: found through lists of neighbours, which miss some
    recall: float = 1.0  # the share of the true neighbours that is there: measured on a sample if not exact

    @property
    def distances(self) -> NDArray[np.float32]:
        """1 - cosine, (n, k), never below 0; infinite where there is no neighbour."""
        missing = self.neighbours < 0
        return np.where(missing, np.inf, np.maximum(1.0 - self.cosines, 0.0)).astype(np.float32)


def neighbour_graph(
    points: Points,
    k: int,
    *,
    listener: ProgressListener = unheard,
    exact: bool | None = None,
    device: str | None = "cpu",
) -> NeighbourGraph:
    """The k nearest of every passage; with k or fewer passages, all others.

    exact:  True or False; None = up to EXACT_UP_TO different vectors, beyond through lists, with a recall of
            .95 where the nearest 128 of them hold so many: `recall` says
    device: that multiplies: "cpu", "cuda"; None = the best there is

    Exact is what float32 sums give, whatever the order of the passages. Copies stand first among each
    other's neighbours. MissingExtraError for a large collection without FAISS.
    """
    width = max(0, min(k, len(points) - 1))
    if not width:
        empty = np.zeros((len(points), 0))
        return NeighbourGraph(empty.astype(np.int32), empty.astype(np.float32), exact=True)
    distinct = Distinct.of(points)
    others = min(width, len(distinct) - 1)
    if exact is None or not others:
        exact = len(distinct) <= EXACT_UP_TO
    recall = 1.0
    if exact:
        rows, cosines = _all_with_all(Products.of(points, distinct.first, device), others, listener)
    else:
        listed = ListedProducts.of(points, distinct.first, others, listener, device)
        rows, cosines = listed.nearest(listener)
        recall = listed.recall
    neighbours, cosines = with_copies(points, distinct, rows, cosines, width)
    return NeighbourGraph(neighbours, cosines, exact=exact, recall=recall)


def _all_with_all(
    products: Products, k: int, listener: ProgressListener
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k nearest rows (m, k) of every row, and their cosines."""
    count = len(products)
    rows = np.full((count, k), -1, dtype=np.int32)
    cosines = np.full((count, k), -1.0, dtype=np.float32)
    for begin in range(0, count if k else 0, _GRAPH_QUERIES):
        queries = np.arange(begin, min(begin + _GRAPH_QUERIES, count))
        best = KBest(products, queries, k)
        best.look(np.arange(queries.size), slice(0, count))
        rows[queries], cosines[queries] = best.decided()
        listener(Progress(begin + queries.size, count, "finding neighbours", "passages"))
    return rows, cosines


# How strongly UMAP holds two neighbours together: from cosines to a weighted graph.
#
# McInnes, Healy & Melville 2018, sections 3.1 and 4.1, https://arxiv.org/abs/1802.03426: around each point
# the distances are measured from its nearest neighbour on (rho), in a unit (sigma) in which its k
# neighbours weigh log2(k) together; what one says of the other and the other of the one are united as fuzzy
# sets.


_HALVINGS = 64
_LEAST_SIGMA = 1e-3  # of the mean distance


def memberships(
    distances: NDArray[np.float32], *, from_nearest: bool = True, itself: bool = True
) -> NDArray[np.float64]:
    """How much each neighbour belongs to its point, 0 to 1.

    distances:    (n, k) cosine distances to the neighbours, the point itself left out, ascending; inf = none
    from_nearest: measured from the nearest neighbour that is not at the same place, so that this one weighs
                  1; False, for points that are projected: measured from the point itself
    itself:       weights from the nearest sum to log2(k + 1), as umap-learn has it; False: to log2(k)
    returns:      (n, k); 0 where there is no neighbour
    """
    found = np.zeros(distances.shape, dtype=np.float64)
    overall = float(distances.mean(where=np.isfinite(distances))) if np.isfinite(distances).any() else 0.0
    for begin in range(0, len(distances) if distances.size else 0, _BLOCK):
        some = distances[begin : begin + _BLOCK].astype(np.float64)
        there = np.isfinite(some)
        rho = np.zeros(len(some))
        if from_nearest:
            rho = np.where(there & (some > 0.0), some, np.inf).min(axis=1)
            rho[~np.isfinite(rho)] = 0.0
        gaps = np.maximum(some - rho[:, None], 0.0)
        counts = there.sum(axis=1)
        target = np.log2(np.maximum(counts + int(itself and from_nearest), 1))
        low, sigma, high = np.zeros(len(some)), np.ones(len(some)), np.full(len(some), np.inf)
        for _ in range(_HALVINGS):
            too_wide = np.exp(-gaps / sigma[:, None]).sum(axis=1) > target
            high = np.where(too_wide, sigma, high)
            low = np.where(too_wide, low, sigma)
            sigma = np.where(np.isinf(high), 2.0 * sigma, (low + high) / 2.0)
        own = np.where(there, some, 0.0).sum(axis=1) / np.maximum(counts, 1)
        floor = np.maximum(_LEAST_SIGMA * np.where(rho > 0.0, own, overall), 1e-12)
        found[begin : begin + _BLOCK] = np.exp(-gaps / np.maximum(sigma, floor)[:, None])
    return found


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
