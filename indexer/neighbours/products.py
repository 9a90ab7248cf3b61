"""Matrix products of many vectors with many, as quick as the machine makes them, with a bound of their error.

They propose; float32 sums decide. What a product can hide is bounded, so that nothing that belongs to the
answer is missed.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Vectors

if TYPE_CHECKING:
    import torch

__all__ = [
    "GROUP",
    "MOST_OF_A_BLOCK",
    "Distinct",
    "Products",
    "Proposals",
    "cosines_of",
    "products_at",
    "set_places",
    "tiles",
]


# Copies put aside: which vectors are different, and which passages have each.
#
# A text that stands ten thousand times in a collection is one vector here, so copies cost nothing in a
# search for neighbours. The vectors come in an order that depends on their content alone.


_BLOCK = 16_384
_DIGEST = 16  # bytes: two different vectors of a million share one with a chance of 1e-27


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different vectors of some points, in the order of a hash of their content."""

    first: NDArray[np.int64]  # (m,) the first place that has each
    number: NDArray[np.int64]  # (n,) which of them each place has
    members: NDArray[np.int64]  # (n,) all places, by rising number, then rising place
    starts: NDArray[np.int64]  # (m + 1,) where the places of each begin in `members`

    @classmethod
    def of(cls, points: Vectors) -> "Distinct":
        """By a hash of their bytes; reads every vector once."""
        digests = bytearray()
        for _, vectors in points.blocks(_BLOCK):
            rows = np.ascontiguousarray(vectors)
            for row in rows:
                digests += hashlib.blake2b(row.data, digest_size=_DIGEST).digest()
        return cls.by(np.frombuffer(bytes(digests), dtype=np.uint64).reshape(-1, 2))

    @classmethod
    def by(cls, keys: NDArray[np.uint64]) -> "Distinct":
        """In the order of keys (n, 2), which only copies share."""
        members = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: places rise among copies
        ordered = keys[members]
        new = np.ones(len(keys), dtype=np.bool_)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        starts = np.append(np.flatnonzero(new), len(keys)).astype(np.int64)
        number = np.empty(len(keys), dtype=np.int64)
        number[members] = np.cumsum(new) - 1
        return cls(members[starts[:-1]], number, members, starts)

    def __len__(self) -> int:
        return int(self.first.size)

    @property
    def copies(self) -> NDArray[np.int64]:
        """How many places have each, (m,)."""
        return np.diff(self.starts)

    def places(self, number: int) -> NDArray[np.int64]:
        """The places that have one of the vectors, rising."""
        return self.members[self.starts[number] : self.starts[number + 1]]


GROUP = 32  # products of which the greatest stands for all when the first bar is found
MOST_OF_A_BLOCK = 4_000_000  # proposals of one block: with more, float32 looks again
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


class Proposals:
    """Pairs that products propose, with the bounds of their cosines; who keeps the best says which are."""

    def __init__(self, products: Products, room: int, most: int) -> None:
        """room: pairs that are held before they are looked through; most: that may stay undecided."""
        self.products = products
        self._room, self._most = room, most
        self._one = np.zeros(0, dtype=np.int32)
        self._other = np.zeros(0, dtype=np.int32)
        self._low = np.zeros(0, dtype=np.float32)  # the cosine is no lower
        self._high = np.zeros(0, dtype=np.float32)  # and no higher
        self._kept = 0  # pairs after the last pruning
        self._new: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], np.float32]] = []
        self._waiting = 0  # pairs in `_new`, which are put to the others when there are many

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

    def _prune(self) -> None:
        """Gather, and let go what cannot be among the best."""
        raise NotImplementedError

    def _decide(self) -> None:
        """Score what is left in float32, and keep what is wanted by that."""
        raise NotImplementedError


def tiles(some: NDArray[np.int64], rows: slice) -> Iterator[tuple[NDArray[np.int64], slice]]:
    """A product of some rows with others in pieces of MOST_PRODUCTS at most."""
    width = min(rows.stop - rows.start, _MOST_ROWS)
    height = MOST_PRODUCTS // max(1, _filled_up(width))
    height = max(1, height // _FILLED_UP * _FILLED_UP or height)
    for begin in range(0, some.size, height):
        for first in range(rows.start, rows.stop, width):
            yield some[begin : begin + height], slice(first, min(first + width, rows.stop))


def set_places(passing: "torch.Tensor") -> NDArray[np.int64]:
    """Where a matrix of bool is True, rising, as places in its rows one after another."""
    if passing.device.type == "cpu":
        return np.flatnonzero(passing.numpy().ravel())
    found: NDArray[np.int64] = passing.reshape(-1).nonzero()[:, 0].cpu().numpy()
    return found


def products_at(
    products: "torch.Tensor", line: NDArray[np.int64], column: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Some of the products (q, r), (m,), by their lines and columns."""
    import torch

    at = (torch.from_numpy(line).to(products.device), torch.from_numpy(column).to(products.device))
    found: NDArray[np.float32] = products[at].float().cpu().numpy()
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
