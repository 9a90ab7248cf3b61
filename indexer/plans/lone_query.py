"""One query alone in inverted lists: centres compared in half precision, half the memory to read.

Of a million vectors in 2,048 lists, finding the lists takes about half of a query's time inside the index,
bound by reading their centres. Many queries at once share each read: for them float32 and BLAS are quicker.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans.engine import faiss_module

__all__ = ["LoneQuery"]

_MORE = 4  # lists that are looked at beyond the wanted: rounding may have put one behind them


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

    def candidates(self, query: NDArray[np.float32], count: int, parameters: Any) -> NDArray[np.int64]:  # noqa: ANN401
        """The numbers (1, count) of what lies nearest in the nearest lists; -1 = no more.

        The lists are those that float32 finds, but for ties within its own rounding: where half precision
        leaves open which are the last, it decides.

        query: (1, d) unit length, contiguous; parameters: SearchParametersIVF
        """
        faiss = faiss_module()
        lists = self._nearest_lists(query, parameters.nprobe)
        if lists is None:
            found: NDArray[np.int64] = self._index.search(query, count, params=parameters)[1]
            return found
        numbers, products = lists
        scores, ids = np.empty(count, dtype=np.float32), np.empty((1, count), dtype=np.int64)
        pointer = faiss.swig_ptr
        self._index.search_preassigned_c(  # what search_preassigned wraps: that takes no parameters
            1,
            pointer(query),
            count,
            pointer(numbers),
            pointer(products),
            pointer(scores),
            pointer(ids),
            False,
            parameters,
            None,
        )
        return ids

    def _nearest_lists(
        self, query: NDArray[np.float32], probes: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """The numbers and products of the nearest lists, or of some more; None: the index has to say."""
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
            return numbers, products
        if last - products.item(wide - 1) <= centres.margin:
            return None
        again = centres.exact[numbers] @ query[0]
        order = (-again).argsort(kind="stable")
        return numbers[order], again[order]

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
