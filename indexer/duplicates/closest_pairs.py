"""The most similar pairs of passages: all with all up to some hundred thousand, through lists beyond."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.duplicates.closest import MOST_PAIRS, Closest, TooManyPairsError
from nearsay.indexer.duplicates.copied_pairs import CopiedPairs
from nearsay.indexer.neighbours.distinct import Distinct
from nearsay.indexer.neighbours.lists import ListedProducts
from nearsay.indexer.neighbours.points import Vectors
from nearsay.indexer.neighbours.products import Products
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["EXACT_PAIRS_UP_TO", "ClosestPairs", "DistinctPairs", "closest_pairs", "distinct_pairs"]

EXACT_PAIRS_UP_TO = 300_000  # different vectors; each pair is multiplied once, unlike for neighbours
_ROWS = 2048
_OTHERS = 8192  # rows multiplied at a time: with the rows above 32 MB of products
_NEAREST = 10  # neighbours whose recall says into how many lists is looked


@dataclass(frozen=True, slots=True)
class ClosestPairs:
    """Pairs of places by falling cosine, ties by the first place, then the second."""

    first: NDArray[np.int64]  # (m,) the lower place of each pair
    second: NDArray[np.int64]  # (m,) the higher
    cosines: NDArray[np.float32]  # (m,) falling; 1 for the same vector only
    exact: bool  # False: through lists of neighbours, which may miss some
    recall: float = 1.0  # of each passage's ten nearest, measured on a sample where not exact


@dataclass(frozen=True, slots=True)
class DistinctPairs:
    """Pairs of different vectors, in no order."""

    first: NDArray[np.int64]  # (m,) their numbers in a Distinct
    second: NDArray[np.int64]  # (m,)
    cosines: NDArray[np.float32]  # (m,)
    exact: bool = True
    recall: float = 1.0

    @classmethod
    def none(cls) -> "DistinctPairs":
        """No pair."""
        numbers = np.zeros(0, dtype=np.int64)
        return cls(numbers, numbers, np.zeros(0, dtype=np.float32))


def closest_pairs(
    points: Vectors,
    *,
    top: int | None = None,
    threshold: float | None = None,
    apart: NDArray[np.int64] | None = None,
    listener: ProgressListener = unheard,
    exact: bool | None = None,
    device: str | None = "cpu",
) -> ClosestPairs:
    """The `top` most similar pairs, or all of a cosine of `threshold` and more; with both the best of those.

    apart:  (n,) a number for each place; two of the same number are no pair. None = every two are
    exact:  True or False; None = up to EXACT_PAIRS_UP_TO different vectors, beyond through lists
    device: that multiplies: "cpu", "cuda"; None = the best there is

    Products propose, float32 sums decide, so that an exact result is that of float32. TooManyPairsError
    for more than MOST_PAIRS over a threshold, MissingExtraError for a large collection without FAISS.
    """
    if top is None and threshold is None:
        raise BadInputError("neither top nor threshold says which pairs are wanted. Give one: top=100")
    if top is not None and not 1 <= top <= MOST_PAIRS:
        raise BadInputError(f"top is {top}. Ask for 1 to {MOST_PAIRS:,} pairs")
    if threshold is not None and not -1.0 <= threshold <= 1.0:
        raise BadInputError(f"threshold is {threshold}, and cosines go from -1 to 1. Take one like 0.9")
    distinct = Distinct.of(points)
    copied = CopiedPairs(distinct, apart)
    same = copied.of_the_same()
    if top is None and same > MOST_PAIRS:
        raise TooManyPairsError(same, 1.0)
    if threshold == 1.0 or (top is not None and same >= top):  # copies alone fill the list
        found = DistinctPairs.none()
    else:
        numbers = np.arange(len(distinct))
        found = distinct_pairs(
            points,
            distinct,
            top=top,
            threshold=threshold,
            apart=copied.apart_of(numbers),
            listener=listener,
            exact=exact,
            device=device,
        )
    spread = copied.spread(found.first, found.second, found.cosines, top, threshold)
    return ClosestPairs(*spread, found.exact, found.recall)


def distinct_pairs(
    points: Vectors,
    distinct: Distinct,
    *,
    top: int | None = None,
    threshold: float | None = None,
    apart: NDArray[np.int64] | None = None,
    listener: ProgressListener = unheard,
    exact: bool | None = None,
    device: str | None = "cpu",
) -> DistinctPairs:
    """What `closest_pairs` gives, but of different vectors: those that tie with the last of `top` included.

    apart: (m,) a number for each of the different vectors
    """
    if exact is None:
        exact = len(distinct) <= EXACT_PAIRS_UP_TO
    if len(distinct) <= 1:
        return DistinctPairs.none()
    if exact:
        numbers, recall = np.argsort(distinct.first), 1.0
        products = Products.of(points, distinct.first[numbers], device)
        closest = Closest(products, top, threshold, None if apart is None else apart[numbers])
        _all_with_all(closest, listener)
    else:
        listed = ListedProducts.of(points, distinct.first, _NEAREST, listener, device)
        numbers, recall = listed.order, listed.recall
        closest = Closest(listed.products, top, threshold, None if apart is None else apart[numbers])
        _in_lists(closest, listed, listener)
    first, second, cosines = closest.decided()
    return DistinctPairs(numbers[first], numbers[second], cosines, exact, recall)


def _all_with_all(closest: Closest, listener: ProgressListener) -> None:
    """Each row with all after it."""
    count = len(closest.products)
    pairs = count * (count - 1) // 2
    for begin in range(0, count, _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, count))
        for other in range(begin, count, _OTHERS):
            closest.look(rows, slice(other, min(other + _OTHERS, count)), only_after=True)
        left = count - int(rows[-1]) - 1
        listener(Progress(pairs - left * (left - 1) // 2, pairs, "comparing", "pairs"))


def _in_lists(closest: Closest, listed: ListedProducts, listener: ProgressListener) -> None:
    """Each row with those of the lists that it looks into."""
    for queries in listed.blocks():
        for asking, rows in listed.looks(queries):
            asked = asking + queries.start
            own = bool(asked.size and rows.start <= asked[0] < rows.stop)
            closest.look(asked, rows, only_after=own)
        listener(Progress(queries.stop, len(listed.products), "finding neighbours", "passages"))
