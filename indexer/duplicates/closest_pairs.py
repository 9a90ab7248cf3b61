"""The most similar pairs of passages: exact up to some hundred thousand, through inverted lists beyond."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.neighbours.graph import ListedProducts
from nearsay.indexer.neighbours.points import Distinct, Vectors, runs
from nearsay.indexer.neighbours.products import Products, Proposals, cosines_of, greatest
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

if TYPE_CHECKING:
    import torch

MOST_PAIRS = 5_000_000  # in a list: 80 MB
_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
_PRUNED_FROM = 1_000_000  # pairs collected before they are pruned
_TOGETHER = 1_000_000  # places, or pairs of them, in a block


class TooManyPairsError(BadInputError):
    """More pairs than can be listed."""

    def __init__(self, pairs: int, threshold: float) -> None:
        """pairs: a lower bound of their number; threshold: the least cosine"""
        super().__init__(
            f"at least {pairs:,} pairs have a cosine of {threshold:.6g} or more, and {MOST_PAIRS:,} can be "
            "listed. Raise the threshold, list only the best (--limit 1000), or group them: "
            "nearsay explore duplicates"
        )
        self.pairs = pairs


class Closest(Proposals):
    """The pairs of rows with a cosine of at least a threshold, or the `top` best of them."""

    def __init__(
        self,
        products: Products,
        top: int | None,
        threshold: float | None,
        apart: NDArray[np.int64] | None = None,
    ) -> None:
        """apart: (m,) a group number for each row; rows of the same group are not paired"""
        bars = np.full(1, -np.inf if threshold is None else threshold, dtype=np.float32)
        every = np.arange(len(products))
        super().__init__(products, every, bars, max(4 * (top or 0), _PRUNED_FROM), 3 * MOST_PAIRS)
        self._top = top
        self._threshold = float(bars[0])
        self._apart = apart

    def decided(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Both rows (m,) of each pair, the lower first, and their cosines by float32 sums; unordered.

        With `top`, all pairs that tie with the last are included. A cosine of 1 means the same vector. Raises
        BadInputError, possibly during the search, if more pairs reach the threshold than can be listed.
        """
        self._decide()
        return self._one.astype(np.int64), self._other.astype(np.int64), self._low

    def _look(self, some: NDArray[np.int64], rows: slice) -> None:
        if self._apart is not None:
            number = self._apart[rows.start]
            if (self._apart[some] == number).all() and (self._apart[rows] == number).all():
                return  # all are of one group
        super()._look(some, rows)

    def _set_bars(self, products: "torch.Tensor", error: float, some: NDArray[np.int64], rows: slice) -> None:
        import torch

        if self._top is None or not np.isneginf(self.bars[0]):
            return
        wanted = self._wanted(some[:, None], np.arange(rows.start, rows.stop)[None, :], rows)
        masked = products.masked_fill(torch.from_numpy(~wanted).to(products.device), -torch.inf)
        best = greatest(masked, -(-self._top // len(some))).flatten()
        if best.numel() >= self._top:
            self.bars[0] = np.float32(float(best.topk(self._top).values[-1]) - error)

    def _wanted(self, first: NDArray[np.int64], second: NDArray[np.int64], rows: slice) -> NDArray[np.bool_]:
        """Of two rows that are both queries of this block, only the lower one takes the pair."""
        wanted: NDArray[np.bool_] = (first < second) | (first >= rows.stop)
        return wanted if self._apart is None else wanted & (self._apart[first] != self._apart[second])

    def _keep(
        self, one: NDArray[np.int64], other: NDArray[np.int64], value: NDArray[np.float32], error: float
    ) -> None:
        super()._keep(np.minimum(one, other), np.maximum(one, other), value, error)

    def _prune(self) -> None:
        self._gather()
        key = self._one.astype(np.int64) * len(self.products) + self._other
        _, once = np.unique(key, return_index=True)
        self._take(once)
        self._raise_bar()
        self._take(np.flatnonzero(self._high >= self.bars))
        sure = int(np.count_nonzero(self._low >= self._threshold))
        if self._top is None and sure > MOST_PAIRS:
            raise TooManyPairsError(sure, self._threshold)

    def _decide(self) -> None:
        self._prune()
        places = self.products.places
        cosines = cosines_of(self.products.points, places[self._one], places[self._other])
        self._low = self._high = np.minimum(cosines, _BELOW_ONE)
        self._take(np.flatnonzero(self._low >= self._threshold))
        self._raise_bar()
        self._take(np.flatnonzero(self._low >= self.bars))

    def _raise_bar(self) -> None:
        """Raise the bar to the cosine that the best `top` are sure to reach."""
        if self._top is not None and self._low.size >= self._top:
            last = self._low.size - self._top
            self.bars = np.maximum(self.bars, np.partition(self._low, last)[last])


Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]


def _of_vectors(distinct: Distinct, apart: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of each distinct vector, (m,); a new one if its places are in several groups."""
    of_members = apart[distinct.members]
    lowest = np.minimum.reduceat(of_members, distinct.starts[:-1])
    highest = np.maximum.reduceat(of_members, distinct.starts[:-1])
    own = apart.max(initial=0) + 1 + np.arange(len(distinct))
    return np.where(lowest == highest, lowest, own)


def _of_the_same(distinct: Distinct, apart: NDArray[np.int64] | None) -> int:
    pairs = int((distinct.copies * (distinct.copies - 1) // 2).sum())
    if apart is not None and pairs:
        both = distinct.number * (int(apart.max()) + 1) + apart
        together = np.unique(both, return_counts=True)[1]
        pairs -= int((together * (together - 1) // 2).sum())
    return pairs


def _of_places(
    distinct: Distinct,
    apart: NDArray[np.int64] | None,
    pairs: "ClosestPairs",
    top: int | None,
) -> Found:
    """The pairs of places whose vectors are equal or paired; in order, cut after `top`.

    apart: (n,) as in `closest_pairs`
    """
    copied = np.flatnonzero(distinct.copies > 1)
    cosine = np.concatenate([np.ones(copied.size, dtype=np.float32), pairs.cosines, pairs.cosines])
    order = np.argsort(-cosine, kind="stable")
    cosine = cosine[order]
    # Either vector of a pair may be that of the lower place.
    lower = np.concatenate([copied, pairs.first, pairs.second])[order]
    higher = np.concatenate([copied, pairs.second, pairs.first])[order]
    places = np.cumsum(distinct.copies[lower])
    parts: list[Found] = [(copied[:0], copied[:0], cosine[:0])]
    begin, count = 0, 0
    while begin < cosine.size and (top is None or count < top):
        last = min(int(np.searchsorted(places, places[begin] + _TOGETHER)), cosine.size - 1)
        end = int(np.searchsorted(-cosine, -cosine[last], side="right"))  # all of that cosine
        some = slice(begin, end)
        for part in _of_lower_places(distinct, apart, lower[some], higher[some], cosine[some]):
            parts.append(part)
            count += part[0].size
            if top is not None and count >= top:
                break
        begin = end
    left, right, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((right, left, -value))[:top]
    return left[order], right[order], value[order]


def _of_lower_places(
    distinct: Distinct,
    apart: NDArray[np.int64] | None,
    lower: NDArray[np.int64],
    higher: NDArray[np.int64],
    cosine: NDArray[np.float32],
) -> Iterator[Found]:
    """Each place of a lower vector with the later places of the higher one; by cosine, then lower place."""
    row = np.repeat(np.arange(lower.size), distinct.copies[lower])
    left = distinct.members[runs(distinct.starts[lower], distinct.copies[lower])]
    order = np.lexsort((left, -cosine[row]))
    left, value, other = left[order], cosine[row[order]], higher[row[order]]
    count = distinct.members.size
    key = distinct.number[distinct.members] * count + distinct.members
    begins = np.searchsorted(key, other * count + left, side="right")
    later = distinct.starts[other + 1] - begins
    total = np.cumsum(later)
    changes = np.flatnonzero((np.diff(left) != 0) | (np.diff(value) != 0)) + 1
    changes = np.append(changes, left.size)  # all pairs of a place and a cosine are in one block
    begin = 0
    while begin < left.size:
        end = int(np.searchsorted(total, total[begin] + _TOGETHER))
        end = int(changes[np.searchsorted(changes, end)])
        some = slice(begin, end)
        one = np.repeat(left[some], later[some])
        two = distinct.members[runs(begins[some], later[some])]
        wanted = slice(None) if apart is None else apart[one] != apart[two]
        yield one[wanted], two[wanted], np.repeat(value[some], later[some])[wanted]
        begin = end


EXACT_PAIRS_UP_TO = 300_000  # distinct vectors; more than for neighbours, as each pair is multiplied once
_ROWS = 2048
_NEAREST = 10  # neighbours whose recall determines the number of lists to probe


@dataclass(frozen=True, slots=True)
class ClosestPairs:
    """Pairs of places, or of distinct vectors by their numbers in a Distinct."""

    first: NDArray[np.int64]  # (m,) the lower of each pair
    second: NDArray[np.int64]  # (m,) the higher
    cosines: NDArray[np.float32]  # (m,) 1 only for the same vector
    exact: bool = True  # False: through inverted lists, which may miss some
    recall: float = 1.0  # of each passage's ten nearest, measured on a sample if not exact

    @classmethod
    def none(cls) -> "ClosestPairs":
        """An empty result."""
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
    """Find the `top` most similar pairs, all with a cosine of at least `threshold`, or the best of these.

    By descending cosine, ties by the first place, then the second.

    apart:  (n,) a group number for each place; places of the same group are not paired. None = all are paired
    exact:  compare all pairs; None = up to EXACT_PAIRS_UP_TO distinct vectors, beyond through inverted lists
    device: for matrix products: "cpu", "cuda"; None = the best available

    Candidates come from fast products and are scored by float32 sums, so an exact result is that of float32.
    Raises TooManyPairsError for more than MOST_PAIRS over a threshold, and MissingExtraError for a large
    collection without FAISS.
    """
    if top is None and threshold is None:
        raise BadInputError("neither top nor threshold is given. Give one, such as top=100")
    if top is not None and not 1 <= top <= MOST_PAIRS:
        raise BadInputError(f"top is {top}. Give a number from 1 to {MOST_PAIRS:,}")
    if threshold is not None and not -1.0 <= threshold <= 1.0:
        raise BadInputError(f"threshold is {threshold}. Give a cosine from -1 to 1, such as 0.9")
    distinct = Distinct.of(points)
    if apart is not None:
        apart = np.unique(apart, return_inverse=True)[1].astype(np.int64)
    same = _of_the_same(distinct, apart)
    if top is None and same > MOST_PAIRS:
        raise TooManyPairsError(same, 1.0)
    found = ClosestPairs.none()
    if top is None or same < top:  # else copies alone fill the list
        found = distinct_pairs(
            points,
            distinct,
            top=top,
            threshold=threshold,
            apart=None if apart is None else _of_vectors(distinct, apart),
            listener=listener,
            exact=exact,
            device=device,
        )
    pairs = same + int((distinct.copies[found.first] * distinct.copies[found.second]).sum())
    if top is None and pairs > MOST_PAIRS:
        raise TooManyPairsError(pairs, -1.0 if threshold is None else threshold)
    return ClosestPairs(*_of_places(distinct, apart, found, top), found.exact, found.recall)


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
) -> ClosestPairs:
    """As `closest_pairs`, but for distinct vectors, unordered, and including those that tie with the last.

    apart: (m,) a group number for each distinct vector
    """
    if exact is None:
        exact = len(distinct) <= EXACT_PAIRS_UP_TO
    if len(distinct) <= 1 or threshold == 1.0:  # only copies have that cosine
        return ClosestPairs.none()
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
    return ClosestPairs(numbers[first], numbers[second], cosines, exact, recall)


def _all_with_all(closest: Closest, listener: ProgressListener) -> None:
    count = len(closest.products)
    pairs = count * (count - 1) // 2
    for begin in range(0, count, _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, count))
        closest.look(rows, slice(begin, count))
        left = count - int(rows[-1]) - 1
        listener(Progress(pairs - left * (left - 1) // 2, pairs, "comparing", "pairs"))


def _in_lists(closest: Closest, listed: ListedProducts, listener: ProgressListener) -> None:
    for queries in listed.blocks():
        for asking, rows in listed.looks(queries):
            closest.look(asking + queries.start, rows)
        listener(Progress(queries.stop, len(listed.products), "finding neighbours", "passages"))
