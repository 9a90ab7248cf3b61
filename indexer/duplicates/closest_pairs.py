"""The most similar pairs of passages: all with all up to some hundred thousand, through lists beyond."""

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

MOST_PAIRS = 5_000_000  # that are listed: 80 MB
_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
_PRUNED_FROM = 1_000_000  # pairs kept before they are looked through
_TOGETHER = 1_000_000  # places, or pairs of them, that are listed at a time


class TooManyPairsError(BadInputError):
    """More pairs are wanted than can be listed."""

    def __init__(self, pairs: int, threshold: float) -> None:
        """pairs: so many at least are over the threshold."""
        super().__init__(
            f"{pairs:,} pairs or more have a cosine of {threshold:.6g} and above, and {MOST_PAIRS:,} can be "
            "listed. Raise the threshold, ask for the best only (--limit 1000), or see them in groups: "
            "nearsay explore duplicates"
        )
        self.pairs = pairs


class Closest(Proposals):
    """The pairs of different rows over a threshold, or the `top` best of them; one bar for all."""

    def __init__(
        self,
        products: Products,
        top: int | None,
        threshold: float | None,
        apart: NDArray[np.int64] | None = None,
    ) -> None:
        """apart: (m,) a number for each row; rows of the same number are no pair."""
        bars = np.full(1, -np.inf if threshold is None else threshold, dtype=np.float32)
        every = np.arange(len(products))
        super().__init__(products, every, bars, max(4 * (top or 0), _PRUNED_FROM), 3 * MOST_PAIRS)
        self._top = top
        self._threshold = float(bars[0])
        self._apart = apart

    def decided(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Both rows (m,) of each pair, the lower first, and their cosines by float32 sums; in no order.

        With `top` so many pairs and all that tie with the last; 1 is the cosine of the same vector only.
        BadInputError, and from looking already, when more are over the threshold than can be listed.
        """
        self._decide()
        return self._one.astype(np.int64), self._other.astype(np.int64), self._low

    def _look(self, some: NDArray[np.int64], rows: slice) -> None:
        if self._apart is not None:
            number = self._apart[rows.start]
            if (self._apart[some] == number).all() and (self._apart[rows] == number).all():
                return  # no two of them are a pair
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
        """Of two that each ask and are found with these rows, the lower asks."""
        wanted: NDArray[np.bool_] = (first < second) | (first >= rows.stop)
        return wanted if self._apart is None else wanted & (self._apart[first] != self._apart[second])

    def _keep(
        self, one: NDArray[np.int64], other: NDArray[np.int64], value: NDArray[np.float32], error: float
    ) -> None:
        super()._keep(np.minimum(one, other), np.maximum(one, other), value, error)

    def _prune(self) -> None:
        """Each pair once, and none that cannot be wanted."""
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
        """To what the best `top` are sure to reach."""
        if self._top is not None and self._low.size >= self._top:
            last = self._low.size - self._top
            self.bars = np.maximum(self.bars, np.partition(self._low, last)[last])


Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]


def _of_vectors(distinct: Distinct, apart: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each of the different vectors, (m,); one of its own where its places have several."""
    of_members = apart[distinct.members]
    lowest = np.minimum.reduceat(of_members, distinct.starts[:-1])
    highest = np.maximum.reduceat(of_members, distinct.starts[:-1])
    own = apart.max(initial=0) + 1 + np.arange(len(distinct))
    return np.where(lowest == highest, lowest, own)


def _of_the_same(distinct: Distinct, apart: NDArray[np.int64] | None) -> int:
    """How many pairs of places share a vector."""
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
    """The pairs of places that share a vector or have a pair of them; in order, cut after `top`.

    apart: (n,) as in `closest_pairs`
    """
    copied = np.flatnonzero(distinct.copies > 1)
    cosine = np.concatenate([np.ones(copied.size, dtype=np.float32), pairs.cosines, pairs.cosines])
    order = np.argsort(-cosine, kind="stable")
    cosine = cosine[order]
    # Of the two vectors of a pair either may be that of the lower place.
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
    """Each place that has a lower vector with the later places of the higher; by cosine, then lower place."""
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
    changes = np.append(changes, left.size)  # all pairs of a place and a cosine stay together
    at = 0
    while at < left.size:
        end = int(np.searchsorted(total, total[at] + _TOGETHER))
        end = int(changes[np.searchsorted(changes, end)])
        some = slice(at, end)
        one = np.repeat(left[some], later[some])
        two = distinct.members[runs(begins[some], later[some])]
        wanted = slice(None) if apart is None else apart[one] != apart[two]
        yield one[wanted], two[wanted], np.repeat(value[some], later[some])[wanted]
        at = end


EXACT_PAIRS_UP_TO = 300_000  # different vectors; each pair is multiplied once, unlike for neighbours
_ROWS = 2048
_NEAREST = 10  # neighbours whose recall says into how many lists is looked


@dataclass(frozen=True, slots=True)
class ClosestPairs:
    """Pairs of places, or of different vectors by their numbers in a Distinct."""

    first: NDArray[np.int64]  # (m,) the lower of each pair
    second: NDArray[np.int64]  # (m,) the higher
    cosines: NDArray[np.float32]  # (m,) 1 for the same vector only
    exact: bool = True  # False: through lists of neighbours, which may miss some
    recall: float = 1.0  # of each passage's ten nearest, measured on a sample where not exact

    @classmethod
    def none(cls) -> "ClosestPairs":
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

    By falling cosine, ties by the first place, then the second.

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
    """What `closest_pairs` gives, but of different vectors, in no order: with those that tie with the last.

    apart: (m,) a number for each of the different vectors
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
    """Each row with all after it."""
    count = len(closest.products)
    pairs = count * (count - 1) // 2
    for begin in range(0, count, _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, count))
        closest.look(rows, slice(begin, count))
        left = count - int(rows[-1]) - 1
        listener(Progress(pairs - left * (left - 1) // 2, pairs, "comparing", "pairs"))


def _in_lists(closest: Closest, listed: ListedProducts, listener: ProgressListener) -> None:
    """Each row with those of the lists that it looks into."""
    for queries in listed.blocks():
        for asking, rows in listed.looks(queries):
            closest.look(asking + queries.start, rows)
        listener(Progress(queries.stop, len(listed.products), "finding neighbours", "passages"))
