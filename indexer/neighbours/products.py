"""The best pairs among many vectors: products in a narrow format propose, sums in float32 decide."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Vectors

if TYPE_CHECKING:
    import torch

_BLOCK = 16_384  # vectors read at a time
_GROUP = 32  # products of which the greatest stands for all when the first bar is found
_MOST_OF_A_BLOCK = 4_000_000  # proposals of one block: with more, float32 looks again
_LEAST_GROUP = 4
MOST_PRODUCTS = 2**24  # multiplied at a time: 32 MB in two bytes
_MOST_ROWS = 8192  # of these on one side
_FILLED_UP = 64  # rows: fewer shapes of products
_GATHER = 1024  # pairs scored at a time: twice 1.5 MB at 384 dimensions, which stay in the cache


@dataclass(frozen=True, slots=True)
class Products:
    """The vectors at some places in the format that is multiplied in, on the device that multiplies."""

    points: Vectors
    places: NDArray[np.int64]  # (m,) place of each row
    rows: "torch.Tensor"  # (m, d)
    error: float  # by how much a product of two rows can be off the cosine that float32 gives

    @classmethod
    def of(cls, points: Vectors, places: NDArray[np.int64], device: str | None = None) -> "Products":
        """device: "cpu", "cuda", None = the best there is; two bytes a number where it multiplies those."""
        import torch

        from nearsay.training.encoder.hardware import (
            Precision,
            Processor,
            choose_device,
            product_format,
            resolve_precision,
        )

        device = choose_device(device)
        dtype = product_format(resolve_precision(Precision.AUTO, device, Processor.detect()))
        rows = torch.empty((places.size, points.dimension), dtype=dtype, device=device)
        off = 0.0
        for begin in range(0, places.size, _BLOCK):
            exact = torch.from_numpy(points.rows(places[begin : begin + _BLOCK]))
            narrow = exact.to(dtype)
            off = max(off, float((exact - narrow.float()).norm(dim=1).max()))
            rows[begin : begin + len(narrow)] = narrow.to(device)
        return cls(points, places, rows, _error(off, points.dimension, dtype == torch.bfloat16, device))

    def __len__(self) -> int:
        return int(self.places.size)

    def between(self, first: NDArray[np.int64], second: slice) -> "torch.Tensor":
        """The products (q, r) of the rows named first with those named second, in the narrow format.

        A view: its lines do not lie one behind the other. Both sides are filled up to multiples of 64 rows,
        since oneDNN makes a kernel for every shape that it meets, and keeps about a thousand of them: pairs
        of a million vectors took .36 GB and a quarter of the time more.
        """
        import torch

        count, width = second.stop - second.start, min(_filled_up(second.stop - second.start), len(self))
        begin = min(second.start, len(self) - width)
        with torch.inference_mode():
            filling = np.full(_filled_up(first.size) - first.size, first[0] if first.size else 0)
            asked = torch.from_numpy(np.concatenate([first, filling])).to(self.rows.device)
            # index_select: in less than half the time of indexing.
            products = self.rows.index_select(0, asked) @ self.rows[begin : begin + width].T
            return products[: first.size, second.start - begin : second.start - begin + count]

    def again(self, first: NDArray[np.int64], second: slice) -> tuple["torch.Tensor", float]:
        """The same in float32 on the CPU, and by how much those can be off: for where all lies close."""
        import torch

        with torch.inference_mode():
            queries = torch.from_numpy(self.points.rows(self.places[first]))
            found = queries @ torch.from_numpy(self.points.rows(self.places[second])).T
        return found, _error(0.0, self.points.dimension, False, "cpu")


def cosines_of(points: Vectors, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float32]:
    """The cosines (m,) of the vectors at the first places with those at the second.

    In float32 by numpy's einsum, whose sum for two vectors depends on nothing but them.
    """
    order = np.lexsort((second, first))
    cosines = np.empty(first.size, dtype=np.float32)
    for begin in range(0, first.size, _GATHER):
        some = order[begin : begin + _GATHER]
        cosines[some] = np.einsum("ij,ij->i", points.rows(first[some]), points.rows(second[some]))
    return cosines


class Proposals(ABC):
    """The best pairs of rows: products propose them, float32 sums decide. Subclasses say which are best."""

    def __init__(
        self,
        products: Products,
        queries: NDArray[np.int64],
        bars: NDArray[np.float32],
        room: int,
        most: int,
        among: NDArray[np.bool_] | None = None,
    ) -> None:
        """queries: (count,) the rows that ask, which have numbers: 0, 1, …
        bars: what a pair has to reach, (count,) or one for all, -inf = not known yet; they only rise
        room: pairs that are held before they are looked through; most: that may stay undecided
        among: by row, which may be found; it goes with bars that are set
        """
        self.products = products
        self.queries = queries
        self.bars = bars
        self._room, self._most = room, most
        self._among = among
        self._one = np.zeros(0, dtype=np.int32)
        self._other = np.zeros(0, dtype=np.int32)
        self._low = np.zeros(0, dtype=np.float32)  # the cosine is no lower
        self._high = np.zeros(0, dtype=np.float32)  # and no higher
        self._kept = 0  # pairs after the last pruning
        self._new: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], np.float32]] = []
        self._waiting = 0  # pairs in `_new`, which are put to the others when there are many

    def look(self, some: NDArray[np.int64], rows: slice) -> None:
        """Look for pairs of some that ask (their numbers, ascending) and the rows."""
        if some.size and rows.stop > rows.start:
            for part, others in _tiles(some, rows):
                self._look(part, others)

    def _look(self, some: NDArray[np.int64], rows: slice) -> None:
        products, error = self.products.between(self.queries[some], rows), self.products.error
        found = self._passing(products, error, some, rows, _MOST_OF_A_BLOCK)
        if found is None:  # the narrow format cannot tell so many of them apart
            products, error = self.products.again(self.queries[some], rows)
            found = self._passing(products, error, some, rows, products.numel())
        if found is not None and found[0].size:
            self._keep(*found, error)

    def _passing(
        self, products: "torch.Tensor", error: float, some: NDArray[np.int64], rows: slice, most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None:
        """Who asks, the row and the product of what may be among the best; None: more than `most`."""
        import torch

        with torch.inference_mode():
            self._set_bars(products, error, some, rows)
            bars = (self.bars[some] if self.bars.size > 1 else self.bars) - np.float32(error)
            passing = products >= _rounded_down(torch.from_numpy(bars).to(products.device), products.dtype)
            if self._among is not None:
                passing &= torch.from_numpy(self._among[rows]).to(products.device)
            flat = _set_places(passing)
            if flat.size > most:
                return None
            number, column = np.divmod(flat, products.shape[1])
            wanted = self._wanted(self.queries[some[number]], column + rows.start, rows)
            number, column = number[wanted], column[wanted]
            at = (torch.from_numpy(number).to(products.device), torch.from_numpy(column).to(products.device))
            return some[number], column + rows.start, products[at].float().cpu().numpy()

    @abstractmethod
    def _set_bars(self, products: "torch.Tensor", error: float, some: NDArray[np.int64], rows: slice) -> None:
        """Set bars that are not known yet to what enough of these products reach."""

    @abstractmethod
    def _wanted(self, first: NDArray[np.int64], second: NDArray[np.int64], rows: slice) -> NDArray[np.bool_]:
        """Which rows that ask make a pair with which of these rows."""

    def _keep(
        self, one: NDArray[np.int64], other: NDArray[np.int64], value: NDArray[np.float32], error: float
    ) -> None:
        self._new.append((one.astype(np.int32), other.astype(np.int32), value, np.float32(error)))
        self._waiting += one.size
        if self._one.size + self._waiting > max(2 * self._kept, self._room):
            self._prune()
            if self._one.size > self._most:
                self._decide()
            self._kept = self._one.size

    def _gather(self) -> None:
        """Put what was found since to the rest."""
        if self._new:
            ones, others, values, errors = zip(*self._new, strict=True)
            pairs = list(zip(values, errors, strict=True))
            self._one = np.concatenate([self._one, *ones])
            self._other = np.concatenate([self._other, *others])
            self._low = np.concatenate([self._low, *(value - error for value, error in pairs)])
            self._high = np.concatenate([self._high, *(value + error for value, error in pairs)])
            self._new.clear()
            self._waiting = 0

    def _take(self, kept: NDArray[np.int64]) -> None:
        self._one, self._other = self._one[kept], self._other[kept]
        self._low, self._high = self._low[kept], self._high[kept]

    @abstractmethod
    def _prune(self) -> None:
        """Gather, and let go what cannot be among the best."""

    @abstractmethod
    def _decide(self) -> None:
        """Score what is left in float32, and keep what is wanted by that."""


def greatest(products: "torch.Tensor", count: int) -> "torch.Tensor":
    """The products (q, r), or the greatest of groups of them (q, g), of which a topk takes a fraction.

    Either way `count` of a line are reached by as many products of that line.
    """
    size = min(_GROUP, products.shape[1] // (2 * count))
    if size < _LEAST_GROUP:
        return products
    groups = products.shape[1] // size
    return products[:, : groups * size].reshape(len(products), groups, size).amax(dim=2)


def _rounded_down(bars: "torch.Tensor", dtype: "torch.dtype") -> "torch.Tensor":
    """In the narrow format, never above what they were; (count, 1)."""
    import torch

    narrow = bars.to(dtype)
    below = torch.nextafter(narrow, torch.full_like(narrow, -torch.inf))
    return torch.where(narrow.float() > bars, below, narrow)[:, None]


def _tiles(some: NDArray[np.int64], rows: slice) -> Iterator[tuple[NDArray[np.int64], slice]]:
    """A product of some rows with others in pieces of MOST_PRODUCTS at most."""
    width = min(rows.stop - rows.start, _MOST_ROWS)
    height = MOST_PRODUCTS // max(1, _filled_up(width))
    height = max(1, height // _FILLED_UP * _FILLED_UP or height)
    for begin in range(0, some.size, height):
        for first in range(rows.start, rows.stop, width):
            yield some[begin : begin + height], slice(first, min(first + width, rows.stop))


def _set_places(passing: "torch.Tensor") -> NDArray[np.int64]:
    """Where a matrix of bool is True, ascending, as places in its rows one after another."""
    if passing.device.type == "cpu":
        return np.flatnonzero(passing.numpy().ravel())
    found: NDArray[np.int64] = passing.reshape(-1).nonzero()[:, 0].cpu().numpy()
    return found


def _filled_up(count: int) -> int:
    return -(-count // _FILLED_UP) * _FILLED_UP


def _error(off: float, dimension: int, narrow: bool, device: str) -> float:
    """Bound |product - cosine| for unit vectors whose rounded forms lie `off` from them at most.

    Rounding the vectors: 2 off + off^2 (Cauchy-Schwarz). Summing in float32, here and in what decides: 2 d u
    each (Higham 2002, section 3.1). Rounding the product to bfloat16, of 8 significant bits: 2^-9 below 1;
    above, where only those errors lead, it comes back to 1 or is off by 2^-8.
    """
    before = 2.0 * off + off * off + 4.04 * 2.0**-24 * dimension
    if narrow:
        return before + 2.0**-9 if before < 2.0**-8 else before + 2.0**-8
    return before if device == "cpu" else before + 2.0**-9  # a GPU may cut both factors to TF32: 2^-10 each
