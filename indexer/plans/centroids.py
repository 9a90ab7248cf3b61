"""The centroids of inverted lists, and which lists a query looks into.

Indexes that were filled into copies of one trained index have the same centroids: for all of them the lists
of a query are chosen once, by whoever holds the centroids, which can be opened without the rest of an index.
"""

import hashlib
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import StorageError, first_line
from nearsay.indexer.plans.engine import faiss_module, one_thread

_MORE: Final = 4  # lists that are looked at beyond the wanted: rounding may have put one behind them
_BLOCK: Final = 4096  # centroids whose rounding is measured at a time
_QUANTISER_AT: Final = 53  # bytes: what FAISS writes before the centroids


class Lists(NamedTuple):
    """The lists that queries look into, and the products of their centroids with the queries: (n, probes)."""

    numbers: NDArray[np.int64]
    products: NDArray[np.float32]

    def without(self, others: "Lists") -> "Lists":
        """The same with -1, which FAISS passes over, in the place of each query's lists among the others."""
        known = [np.isin(mine, other) for mine, other in zip(self.numbers, others.numbers, strict=True)]
        return Lists(np.where(np.array(known), -1, self.numbers), self.products)


class Where(NamedTuple):
    """What indexes have in common that look into the same lists of a query."""

    centroids: bytes  # their hash
    probes: int


class Chosen(NamedTuple):
    """Lists that were chosen for all indexes that look there."""

    where: Where
    lists: Lists


def probes_at(reach: float, probes: int, lists: int) -> int:
    """Into how many of its lists an index looks that looks `reach` times as far as usual."""
    return max(probes, min(round(probes * reach), lists))


class _Rounded(NamedTuple):
    """In half precision."""

    index: Any  # FAISS's, of the rounded centroids
    exact: NDArray[np.float32]  # (lists, d) as the index has them
    margin: float  # two centroids whose products with a unit vector differ by more keep their order


class Centroids:
    """Chooses the lists of queries; safe to use from several threads.

    For one query alone centroids are compared in half precision: half the memory to read, which is what
    bounds it. Many queries at once share each read: for them float32 and BLAS are quicker.
    """

    def __init__(self, quantiser: Any, owner: object = None) -> None:  # noqa: ANN401 - FAISS has no types
        """quantiser: FAISS's IndexFlat, which does not change any more; owner: keeps its memory."""
        self._flat, self._owner = faiss_module().downcast_index(quantiser), (quantiser, owner)
        self._dimension = int(self._flat.d)

    @cached_property
    def count(self) -> int:
        """How many there are: the number of lists."""
        return int(self._flat.ntotal)

    @cached_property
    def hash(self) -> bytes:
        """Of their content; a second a gigabyte, once."""
        return hashlib.sha256(self._exact.data).digest()

    def nearest(self, queries: NDArray[np.float32], probes: int) -> Lists:
        """The lists that are nearest to each query (n, d), contiguous and of unit length.

        They are those that float32 finds, but for ties within its own rounding: where half precision leaves
        open which are the last, it decides.
        """
        # More threads only wait for each other over a single query: .10 ms instead of .14 at a million.
        with one_thread() if len(queries) == 1 else nullcontext():
            found = self._nearest_to_one(queries, probes)
            if found is not None:
                return found
            products, numbers = self._flat.search(queries, probes)
            return Lists(numbers, products)

    def _nearest_to_one(self, query: NDArray[np.float32], probes: int) -> Lists | None:
        """The nearest lists of one query; None: float32 has to say."""
        wide = probes + _MORE
        if wide > self.count or query.shape != (1, self._dimension):
            return None
        faiss, rounded = faiss_module(), self._rounded
        products, numbers = np.empty((1, wide), dtype=np.float32), np.empty((1, wide), dtype=np.int64)
        rounded.index.search_c(
            1, faiss.swig_ptr(query), wide, faiss.swig_ptr(products), faiss.swig_ptr(numbers)
        )
        last = products.item(probes - 1)
        if last - products.item(probes) > rounded.margin:
            return Lists(numbers[:, :probes], products[:, :probes])
        if last - products.item(wide - 1) <= rounded.margin:
            return None
        again = rounded.exact[numbers[0]] @ query[0]
        order = (-again).argsort(kind="stable")[None, :probes]
        return Lists(numbers[0][order], again[order])

    @property
    def _exact(self) -> NDArray[np.float32]:
        shape = self.count, self._dimension
        exact: NDArray[np.float32] = faiss_module().rev_swig_ptr(self._flat.get_xb(), shape[0] * shape[1])
        return exact.reshape(shape)

    @cached_property
    def _rounded(self) -> _Rounded:
        """Made when it is first asked, in some milliseconds, of 2 bytes a number."""
        faiss, exact = faiss_module(), self._exact
        half = faiss.IndexScalarQuantizer(
            self._dimension, faiss.ScalarQuantizer.QT_fp16, self._flat.metric_type
        )
        half.train(exact)
        half.add(exact)
        # Cauchy-Schwarz, and what summing in float32 may add (Higham 2002, section 3.1).
        off = longest = 0.0
        for begin in range(0, self.count, _BLOCK):
            some = exact[begin : begin + _BLOCK]
            rounded = half.reconstruct_n(begin, len(some))
            off = max(off, float(np.linalg.norm(some - rounded, axis=1).max()))
            longest = max(longest, float(np.linalg.norm(some, axis=1).max()))
        return _Rounded(half, exact, 2.0 * off + 4.04 * 2.0**-24 * self._dimension * longest)


def open_centroids(serialised: NDArray[np.uint8], dimension: int) -> Centroids:
    """Those in FAISS's serialisation of inverted lists; they stay in it, and nothing else of it is read.

    Whether they are those of another index is seen by their hash. StorageError where something else stands
    there than centroids of that dimension.
    """
    # FAISS has no reader for a part of an index. It writes (index_write.cpp, write_ivf_header) four letters
    # for the kind, 33 bytes of what every index has, the numbers of lists and of probes, and the centroids as
    # an index of their own.
    part = np.ascontiguousarray(serialised)[_QUANTISER_AT:]
    if part[:4].tobytes() != b"IxFI":
        raise StorageError("no centroids of inverted lists stand where FAISS puts them")
    faiss = faiss_module()
    try:
        flat = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(part), part.nbytes))
    except (MemoryError, RuntimeError) as error:
        raise StorageError(f"FAISS cannot open the centroids of an index ({first_line(error)})") from error
    if flat.d != dimension or not flat.ntotal:
        raise StorageError(f"an index has {flat.ntotal} centroids of {flat.d} dimensions, not {dimension}")
    return Centroids(flat, part)
