"""For each of many queries the rows that may belong to its k best, from products that may err."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.products import Products, cosines_of, products_at, tiles

if TYPE_CHECKING:
    import torch

__all__ = ["KBest"]

_GROUP = 32  # products of which the greatest stands for all when the first bar is found
_LEAST_GROUP = 4
_MOST_OF_A_BLOCK = 4_000_000  # proposals of one block: with more, float32 looks again
_MOST_KEPT = 12_000_000  # proposals in memory: with more, they are decided at once


class KBest:
    """The candidates of `count` queries; each is a row of the products."""

    def __init__(self, products: Products, queries: NDArray[np.int64], k: int) -> None:
        """queries: (count,) rows of the products that neighbours are wanted of."""
        self.products = products
        self.queries = queries
        self.k = k
        self.bars = np.full(queries.size, -np.inf, dtype=np.float32)  # the k-th best cosine is no lower
        self._query = np.zeros(0, dtype=np.int32)
        self._row = np.zeros(0, dtype=np.int32)
        self._low = np.zeros(0, dtype=np.float32)  # the cosine is no lower
        self._high = np.zeros(0, dtype=np.float32)  # and no higher
        self._kept = 0  # candidates after the last pruning
        self._new: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], float]] = []
        self._waiting = 0  # candidates in `_new`, which are put to the others when there are many

    def look(self, some: NDArray[np.int64], rows: slice) -> None:
        """Look for neighbours of some of the queries (their numbers, rising) among the rows."""
        if some.size and rows.stop > rows.start:
            for part, others in tiles(some, rows):
                self._look(part, others)

    def _look(self, some: NDArray[np.int64], rows: slice) -> None:
        asked = self.queries[some]
        products = self.products.between(asked, rows)
        found = self._over_the_bars(products, self.products.error, some, rows)
        error = self.products.error
        if found is None:
            products, error = self.products.again(asked, rows)
            found = self._over_the_bars(products, error, some, rows, _MOST_KEPT)
        if found is None:  # even float32 sees most of them tie
            half = (rows.start + rows.stop) // 2
            if rows.stop - rows.start > 1 and some.size * (rows.stop - rows.start) > _MOST_KEPT:
                self.look(some, slice(rows.start, half))
                self.look(some, slice(half, rows.stop))
                return
            found = self._over_the_bars(products, error, some, rows, some.size * products.shape[1])
        if found is not None:
            self._keep(some[found[0]], found[1] + rows.start, found[2], error)

    def decided(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows (count, k), -1 where there are no more, and their cosines, falling; ties by place."""
        self._decide()
        bounds = np.searchsorted(self._query, np.arange(self.queries.size + 1))
        rank = np.arange(self._query.size) - bounds[self._query]
        rows = np.full((self.queries.size, self.k), -1, dtype=np.int64)
        cosines = np.full((self.queries.size, self.k), -1.0, dtype=np.float32)
        rows[self._query, rank] = self._row
        cosines[self._query, rank] = self._low
        return rows, cosines

    def _over_the_bars(
        self,
        products: "torch.Tensor",
        error: float,
        some: NDArray[np.int64],
        rows: slice,
        most: int = _MOST_OF_A_BLOCK,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None:
        """Numbers in `some`, columns and products of what may be among the best; None: more than `most`."""
        import torch

        with torch.inference_mode():
            asked = self.queries[some]
            own = np.flatnonzero((asked >= rows.start) & (asked < rows.stop))
            products[torch.from_numpy(own), torch.from_numpy(asked[own] - rows.start)] = -torch.inf
            unset = np.flatnonzero(np.isneginf(self.bars[some]))
            if unset.size and products.shape[1] > self.k:
                self.bars[some[unset]] = _kth(products[torch.from_numpy(unset)], self.k) - error
            bars = torch.from_numpy(self.bars[some] - error).to(products.device)
            passing = products >= _rounded_down(bars, products.dtype)[:, None]
            passing[torch.from_numpy(own), torch.from_numpy(asked[own] - rows.start)] = False
            if products.device.type == "cpu":
                flat = np.flatnonzero(passing.numpy().ravel())
            else:
                flat = passing.reshape(-1).nonzero()[:, 0].cpu().numpy()
            if flat.size > most:
                return None
            number, column = np.divmod(flat, products.shape[1])
            return number, column, products_at(products, number, column)

    def _keep(
        self, query: NDArray[np.int64], row: NDArray[np.int64], value: NDArray[np.float32], error: float
    ) -> None:
        self._new.append((query.astype(np.int32), row.astype(np.int32), value, error))
        self._waiting += query.size
        if self._query.size + self._waiting > max(2 * self._kept, 4 * self.k * self.queries.size):
            self._prune()
            if self._query.size > _MOST_KEPT:
                self._decide()
            self._kept = self._query.size

    def _gather(self) -> None:
        """Put what was found since to the rest."""
        if self._new:
            queries, rows, values, errors = zip(*self._new, strict=True)
            self._query = np.concatenate([self._query, *queries])
            self._row = np.concatenate([self._row, *rows])
            pairs = list(zip(values, map(np.float32, errors), strict=True))
            self._low = np.concatenate([self._low, *(value - error for value, error in pairs)])
            self._high = np.concatenate([self._high, *(value + error for value, error in pairs)])
            self._new.clear()
            self._waiting = 0

    def _prune(self) -> None:
        self._gather()
        order = np.lexsort((-self._low, self._query))
        query = self._query[order]
        bounds = np.searchsorted(query, np.arange(self.queries.size + 1))
        full = np.flatnonzero(np.diff(bounds) >= self.k)
        kth = self._low[order[bounds[full] + self.k - 1]]
        self.bars[full] = np.maximum(self.bars[full], kth)
        self._take(order[self._high[order] >= self.bars[query]])

    def _decide(self) -> None:
        """Score what is left in float32 and keep the k best of each query."""
        self._prune()
        places = self.products.places
        row = self._row.astype(np.int64)
        cosines = cosines_of(self.products.points, places[self.queries[self._query]], places[row])
        order = np.lexsort((places[row], -cosines, self._query))
        query = self._query[order]
        bounds = np.searchsorted(query, np.arange(self.queries.size + 1))
        kept = order[np.arange(query.size) - bounds[query] < self.k]
        self._low = self._high = cosines
        self._take(kept)
        full = np.flatnonzero(np.diff(bounds) >= self.k)
        last = np.searchsorted(self._query, full) + self.k - 1
        self.bars[full] = np.maximum(self.bars[full], self._low[last])

    def _take(self, kept: NDArray[np.int64]) -> None:
        self._query, self._row = self._query[kept], self._row[kept]
        self._low, self._high = self._low[kept], self._high[kept]


def _kth(products: "torch.Tensor", k: int) -> NDArray[np.float32]:
    """A number (q,) that at least k products of each line (q, r) reach, near the k-th greatest."""
    size = min(_GROUP, products.shape[1] // (2 * k))
    if size >= _LEAST_GROUP:
        groups = products.shape[1] // size
        whole = products[:, : groups * size]
        products = whole.reshape(len(products), groups, size).amax(dim=2)
    kth: NDArray[np.float32] = products.topk(k, dim=1).values[:, -1].float().cpu().numpy()
    return kth


def _rounded_down(bars: "torch.Tensor", dtype: "torch.dtype") -> "torch.Tensor":
    """In the narrow format, never above what they were."""
    import torch

    narrow = bars.to(dtype)
    below = torch.nextafter(narrow, torch.full_like(narrow, -torch.inf))
    return torch.where(narrow.float() > bars, below, narrow)
