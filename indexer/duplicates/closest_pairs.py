"""The most similar pairs of passages: all with all up to some hundred thousand, through lists beyond."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.neighbours.graph import ListedProducts
from nearsay.indexer.neighbours.points import (
    GROUP,
    MOST_OF_A_BLOCK,
    Distinct,
    Products,
    Proposals,
    Vectors,
    cosines_of,
    products_at,
    set_places,
    tiles,
)
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

if TYPE_CHECKING:
    import torch

__all__ = ["MOST_PAIRS", "ClosestPairs", "TooManyPairsError", "closest_pairs", "distinct_pairs"]


MOST_PAIRS = 5_000_000  # that are listed: 80 MB
_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
_PRUNED_FROM = 1_000_000  # pairs kept before they are looked through


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
    """The pairs of different rows over a threshold, or the `top` best of them."""

    def __init__(
        self,
        products: Products,
        top: int | None,
        threshold: float | None,
        apart: NDArray[np.int64] | None = None,
    ) -> None:
        """apart: (m,) a number for each row; rows of the same number are no pair."""
        super().__init__(products, room=max(4 * (top or 0), _PRUNED_FROM), most=3 * MOST_PAIRS)
        self._top = top
        self._threshold = -np.inf if threshold is None else float(np.float32(threshold))
        self._apart = apart
        self._bar = self._threshold  # a pair whose cosine is lower is not wanted

    def look(self, some: NDArray[np.int64], rows: slice, *, only_after: bool) -> None:
        """Look for pairs of one of some rows (numbers, rising) and one of others.

        only_after: a row makes a pair with those after it only: for rows that are on both sides.
        BadInputError when more are over the threshold than can be listed.
        """
        if some.size and rows.stop > rows.start:
            for part, others in tiles(some, rows):
                if not only_after or others.stop - 1 > part[0]:
                    self._look(part, others, only_after)

    def _look(self, some: NDArray[np.int64], rows: slice, only_after: bool) -> None:
        if self._all_together(some, rows):
            return
        products, error = self.products.between(some, rows), self.products.error
        found = self._over_the_bar(products, error, some, rows, only_after, MOST_OF_A_BLOCK)
        if found is None:
            products, error = self.products.again(some, rows)
            found = self._over_the_bar(products, error, some, rows, only_after, products.numel())
        if found is not None and found[0].size:
            first, second, values = found
            self._keep(np.minimum(first, second), np.maximum(first, second), values, error)

    def decided(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Both rows (m,) of each pair, the lower first, and their cosines by float32 sums; in no order.

        With `top` so many pairs and all that tie with the last; 1 is the cosine of the same vector only.
        """
        self._decide()
        return self._one.astype(np.int64), self._other.astype(np.int64), self._low

    def _all_together(self, some: NDArray[np.int64], rows: slice) -> bool:
        if self._apart is None:
            return False
        number = self._apart[rows.start]
        return bool((self._apart[some] == number).all() and (self._apart[rows] == number).all())

    def _over_the_bar(
        self,
        products: "torch.Tensor",
        error: float,
        some: NDArray[np.int64],
        rows: slice,
        only_after: bool,
        most: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None:
        """Both rows and the product of what may be among the best; None: more than `most`."""
        import torch

        with torch.inference_mode():
            if self._top is not None and np.isneginf(self._bar):
                self._first_bar(products, error, some, rows, only_after)
            bar = self._bar - error - 2.0**-8 * (products.dtype != torch.float32)
            passing = products >= bar  # lower by what rounding the bar itself may add
            flat = set_places(passing)
            if flat.size > (2 * most if only_after else most):  # those before are still among them
                return None
            number, column = np.divmod(flat, products.shape[1])
            first, second = some[number], column + rows.start
            wanted = first < second if only_after else first != second
            if self._apart is not None:
                wanted &= self._apart[first] != self._apart[second]
            first, second = first[wanted], second[wanted]
            values = products_at(products, number[wanted], column[wanted])
        wanted = values >= self._bar - error
        return first[wanted], second[wanted], values[wanted]

    def _first_bar(
        self, products: "torch.Tensor", error: float, some: NDArray[np.int64], rows: slice, only_after: bool
    ) -> None:
        """A bar that `top` pairs of this block reach, if it has as many."""
        import torch

        top = self._top or 0
        left = torch.from_numpy(some)[:, None]
        right = torch.arange(rows.start, rows.stop)[None, :]
        unwanted = left >= right if only_after else left == right
        if self._apart is not None:
            number = torch.from_numpy(self._apart)
            unwanted |= number[some][:, None] == number[rows][None, :]
        masked = products.masked_fill(unwanted.to(products.device), -torch.inf)
        groups = masked.shape[1] // GROUP
        if groups * len(some) >= 2 * top:
            masked = masked[:, : groups * GROUP].reshape(len(some), groups, GROUP).amax(dim=2)
        if masked.numel() >= top:
            self._bar = float(masked.flatten().topk(top).values[-1]) - error

    def _prune(self) -> None:
        """Each pair once, and none that cannot be wanted."""
        self._gather()
        key = self._one.astype(np.int64) * len(self.products) + self._other
        _, once = np.unique(key, return_index=True)
        self._take(once)
        self._raise_bar()
        self._take(np.flatnonzero(self._high >= self._bar))
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
        self._take(np.flatnonzero(self._low >= self._bar))

    def _raise_bar(self) -> None:
        """To what the best `top` are sure to reach."""
        if self._top is not None and self._low.size >= self._top:
            last = self._low.size - self._top
            self._bar = max(self._bar, float(np.partition(self._low, last)[last]))


Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]


class CopiedPairs:
    """What the places that share a vector do to pairs."""

    def __init__(self, distinct: Distinct, apart: NDArray[np.int64] | None) -> None:
        """apart: (n,) a number for each place; two of the same number are no pair. None = every two are."""
        self._distinct = distinct
        self._apart = None if apart is None else np.unique(apart, return_inverse=True)[1].astype(np.int64)

    def apart_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The number of each of the different vectors, (m,); one of its own where its places have several."""
        if self._apart is None:
            return None
        of_members = self._apart[self._distinct.members]
        lowest = np.minimum.reduceat(of_members, self._distinct.starts[:-1])
        highest = np.maximum.reduceat(of_members, self._distinct.starts[:-1])
        own = self._apart.max(initial=0) + 1 + np.arange(len(self._distinct))
        found: NDArray[np.int64] = np.where(lowest == highest, lowest, own)[numbers]
        return found

    def of_the_same(self) -> int:
        """How many pairs of places share a vector."""
        copies = self._distinct.copies
        pairs = int((copies * (copies - 1) // 2).sum())
        if self._apart is not None and pairs:
            both = self._distinct.number * (int(self._apart.max()) + 1) + self._apart
            together = np.unique(both, return_counts=True)[1]
            pairs -= int((together * (together - 1) // 2).sum())
        return pairs

    def spread(
        self,
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        cosines: NDArray[np.float32],
        top: int | None,
        threshold: float | None,
    ) -> Found:
        """The pairs of places of the pairs of different vectors, after those that share a vector; in order.

        Cut after `top`; TooManyPairsError for more than MOST_PAIRS without it.
        """
        copies = self._distinct.copies
        together = copies[first] * copies[second]
        if top is None and int(together.sum()) + self.of_the_same() > MOST_PAIRS:
            raise TooManyPairsError(
                int(together.sum()) + self.of_the_same(), -1.0 if threshold is None else threshold
            )
        parts = [self._same(top)]
        alone = together == 1
        one, other = self._distinct.first[first[alone]], self._distinct.first[second[alone]]
        parts.append((np.minimum(one, other), np.maximum(one, other), cosines[alone]))
        several = np.flatnonzero(~alone)
        several = several[np.argsort(-cosines[several], kind="stable")]
        parts += self._several(first[several], second[several], cosines[several], top)
        left, right, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.lexsort((right, left, -value))[:top]
        return left[order], right[order], value[order]

    def _same(self, top: int | None) -> Found:
        """The pairs that share a vector, in order."""
        distinct = self._distinct
        left, right = self._listed(
            np.flatnonzero(distinct.copies[distinct.number] > 1),
            lambda place: distinct.places(distinct.number[place]),
            top,
        )
        return left, right, np.ones(left.size, dtype=np.float32)

    def _several(
        self,
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        cosines: NDArray[np.float32],
        top: int | None,
    ) -> list[Found]:
        """The pairs of places of pairs by falling cosine, as many of each as can be among the best."""
        parts: list[Found] = []
        better, there, before = 0, 0, np.inf  # pairs of a greater cosine, and all so far
        for one, other, cosine in zip(first.tolist(), second.tolist(), cosines.tolist(), strict=True):
            if cosine < before:
                better, before = there, cosine
            if top is not None and better >= top:
                break
            left, right = self._across(one, other, None if top is None else top - better)
            there += left.size
            parts.append((left, right, np.full(left.size, cosine, dtype=np.float32)))
        return parts

    def _across(self, one: int, other: int, most: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first pairs of a place that has the one vector and a place that has the other."""
        sides = self._distinct.places(one), self._distinct.places(other)
        return self._listed(
            np.sort(np.concatenate(sides)),
            lambda place: sides[1] if self._distinct.number[place] == one else sides[0],
            most,
        )

    def _listed(
        self, places: NDArray[np.int64], others_of: Callable[[int], NDArray[np.int64]], most: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first pairs of one of the rising places and a later one that it goes with."""
        left, right, count = [], [], 0
        for place in places.tolist():
            if most is not None and count >= most:
                break
            others = others_of(place)
            others = self._paired(place, others[np.searchsorted(others, place, side="right") :])[:most]
            left.append(np.full(others.size, place))
            right.append(others)
            count += others.size
        none = np.zeros(0, dtype=np.int64)
        return np.concatenate([none, *left]), np.concatenate([none, *right])

    def _paired(self, place: int, others: NDArray[np.int64]) -> NDArray[np.int64]:
        return others if self._apart is None else others[self._apart[others] != self._apart[place]]


EXACT_PAIRS_UP_TO = 300_000  # different vectors; each pair is multiplied once, unlike for neighbours
_ROWS = 2048
_OTHERS = 8192  # rows multiplied at a time: with the rows above 32 MB of products
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
    copied = CopiedPairs(distinct, apart)
    same = copied.of_the_same()
    if top is None and same > MOST_PAIRS:
        raise TooManyPairsError(same, 1.0)
    if threshold == 1.0 or (top is not None and same >= top):  # copies alone fill the list
        found = ClosestPairs.none()
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
) -> ClosestPairs:
    """What `closest_pairs` gives, but of different vectors, in no order: with those that tie with the last.

    apart: (m,) a number for each of the different vectors
    """
    if exact is None:
        exact = len(distinct) <= EXACT_PAIRS_UP_TO
    if len(distinct) <= 1:
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
