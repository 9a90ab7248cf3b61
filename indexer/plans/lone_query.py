"""One query alone in inverted lists: centres compared in half precision, half the memory to read.

Of a million vectors in 2,048 lists, finding the lists takes about half of a query's time inside the index,
bound by reading their centres. Many queries at once share each read: for them float32 and BLAS are quicker.
"""

import hashlib
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.engine import faiss_module

__all__ = ["Lists", "LoneQuery"]

_MORE = 4  # lists that are looked at beyond the wanted: rounding may have put one behind them


class Lists(NamedTuple):
    """The lists that queries look into, and the products of their centres with the queries: (n, probes)."""

    numbers: NDArray[np.int64]
    products: NDArray[np.float32]


class _Centres(NamedTuple):
    """In half precision."""

    index: Any  # FAISS's, of the rounded centres
    exact: NDArray[np.float32]  # (lists, d) as the index has them
    margin: float  # two centres whose products with a unit vector differ by more keep their order


class LoneQuery:
    """Asks a FAISS index of inverted lists for one query; safe to use from several threads."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - FAISS has no types
        """index: a trained IndexIVF or one of its kinds; its centres do not change any more.

        Where the index reads from mapped memory, whoever made it keeps that.
        """
        self._index = index
        self._lists, self._dimension = int(index.nlist), int(index.d)

    @cached_property
    def centres_hash(self) -> bytes:
        """The same for indexes filled into copies of one trained index; a second a gigabyte, once."""
        flat = faiss_module().downcast_index(self._index.quantizer)
        centres = faiss_module().rev_swig_ptr(flat.get_xb(), self._lists * self._dimension)
        return hashlib.sha256(centres.data).digest()

    def candidates(self, query: NDArray[np.float32], count: int, parameters: Any) -> NDArray[np.int64]:  # noqa: ANN401
        """The numbers (1, count) of what lies nearest in the nearest lists; -1 = no more.

        The lists are those that float32 finds, but for ties within its own rounding: where half precision
        leaves open which are the last, it decides.

        query: (1, d) unit length, contiguous; parameters: SearchParametersIVF
        """
        lists = self._nearest_lists(query, parameters.nprobe)
        if lists is None:
            found: NDArray[np.int64] = self._index.search(query, count, params=parameters)[1]
            return found
        return self.within(query, count, parameters, lists)

    def lists(self, queries: NDArray[np.float32], probes: int) -> Lists:
        """The lists that are nearest to each query (n, d), for every index with the same centres."""
        found = self._nearest_lists(queries, probes)
        if found is not None:
            return Lists(found.numbers[:probes], found.products[:probes])
        products, numbers = self._index.quantizer.search(queries, probes)
        return Lists(numbers, products)

    def within(
        self,
        queries: NDArray[np.float32],
        count: int,
        parameters: Any,  # noqa: ANN401 - FAISS has no types
        lists: Lists,
    ) -> NDArray[np.int64]:
        """The numbers (n, count) of what lies nearest in lists that are chosen already; -1 = no more."""
        pointer = faiss_module().swig_ptr
        scores = np.empty((len(queries), count), dtype=np.float32)
        ids = np.empty((len(queries), count), dtype=np.int64)
        self._index.search_preassigned_c(  # what search_preassigned wraps: that takes no parameters
            len(queries),
            pointer(queries),
            count,
            pointer(lists.numbers),
            pointer(lists.products),
            pointer(scores),
            pointer(ids),
            False,
            parameters,
            None,
        )
        return ids

    def _nearest_lists(self, query: NDArray[np.float32], probes: int) -> Lists | None:
        """The nearest lists of one query, or some more; None: the index has to say."""
        wide = probes + _MORE
        if wide > self._lists or query.shape != (1, self._dimension):
            return None
        faiss, centres = faiss_module(), self._centres
        products, numbers = np.empty(wide, dtype=np.float32), np.empty(wide, dtype=np.int64)
        centres.index.search_c(
            1, faiss.swig_ptr(query), wide, faiss.swig_ptr(products), faiss.swig_ptr(numbers)
        )
        last = products.item(probes - 1)
        if last - products.item(probes) > centres.margin:
            return Lists(numbers, products)
        if last - products.item(wide - 1) <= centres.margin:
            return None
        again = centres.exact[numbers] @ query[0]
        order = (-again).argsort(kind="stable")
        return Lists(numbers[order], again[order])

    @cached_property
    def _centres(self) -> _Centres:
        """Made when it is first asked, in some milliseconds, of 2 bytes a number."""
        faiss = faiss_module()
        lists, dimension = self._lists, self._dimension
        flat = faiss.downcast_index(self._index.quantizer)
        exact = faiss.rev_swig_ptr(flat.get_xb(), lists * dimension).reshape(lists, dimension)
        half = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, self._index.metric_type)
        half.train(exact)
        half.add(exact)
        # Cauchy-Schwarz, and what summing in float32 may add (Higham 2002, section 3.1).
        off = np.linalg.norm(exact - half.reconstruct_n(0, lists), axis=1).max()
        longest = np.linalg.norm(exact, axis=1).max()
        return _Centres(half, exact, float(2.0 * off + 4.04 * 2.0**-24 * dimension * longest))
