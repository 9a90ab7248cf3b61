"""The most similar pairs of vectors met so far, from products that may err."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.neighbours.products import Products, cosines_of, products_at, tiles

if TYPE_CHECKING:
    import torch

__all__ = ["MOST_PAIRS", "Closest", "TooManyPairsError"]

MOST_PAIRS = 5_000_000  # that are listed: 80 MB
_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
_GROUP = 32  # products of which the greatest stands for all when the first bar is found
_MOST_OF_A_BLOCK = 4_000_000  # proposals of one block: with more, float32 looks again
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


class Closest:
    """The pairs of different rows over a threshold, or the `top` best of them."""

    def __init__(
        self,
        products: Products,
        top: int | None,
        threshold: float | None,
        apart: NDArray[np.int64] | None = None,
    ) -> None:
        """apart: (m,) a number for each row; rows of the same number are no pair."""
        self.products = products
        self._top = top
        self._threshold = -np.inf if threshold is None else float(np.float32(threshold))
        self._apart = apart
        self._bar = self._threshold  # a pair whose cosine is lower is not wanted
        self._first = np.zeros(0, dtype=np.int32)
        self._second = np.zeros(0, dtype=np.int32)
        self._low = np.zeros(0, dtype=np.float32)  # the cosine is no lower
        self._high = np.zeros(0, dtype=np.float32)  # and no higher
        self._kept = 0  # pairs after the last pruning

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
        found = self._over_the_bar(products, error, some, rows, only_after, _MOST_OF_A_BLOCK)
        if found is None:
            products, error = self.products.again(some, rows)
            found = self._over_the_bar(products, error, some, rows, only_after, products.numel())
        if found is None or not found[0].size:
            return
        first, second, values = found
        self._first = np.concatenate([self._first, np.minimum(first, second).astype(np.int32)])
        self._second = np.concatenate([self._second, np.maximum(first, second).astype(np.int32)])
        self._low = np.concatenate([self._low, values - np.float32(error)])
        self._high = np.concatenate([self._high, values + np.float32(error)])
        if self._first.size > max(2 * self._kept, 4 * (self._top or 0), _PRUNED_FROM):
            self._prune()

    def decided(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Both rows (m,) of each pair, the lower first, and their cosines by float32 sums; in no order.

        With `top` so many pairs and all that tie with the last; 1 is the cosine of the same vector only.
        """
        self._decide()
        return self._first.astype(np.int64), self._second.astype(np.int64), self._low

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
            if passing.device.type == "cpu":
                flat = np.flatnonzero(passing.numpy().ravel())
            else:
                flat = passing.reshape(-1).nonzero()[:, 0].cpu().numpy()
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
        groups = masked.shape[1] // _GROUP
        if groups * len(some) >= 2 * top:
            masked = masked[:, : groups * _GROUP].reshape(len(some), groups, _GROUP).amax(dim=2)
        if masked.numel() >= top:
            self._bar = float(masked.flatten().topk(top).values[-1]) - error

    def _prune(self) -> None:
        self._leave_out()
        self._kept = self._first.size
        if self._kept > 3 * MOST_PAIRS:
            self._decide()
            self._kept = self._first.size

    def _leave_out(self) -> None:
        """Each pair once, and none that cannot be wanted."""
        key = self._first.astype(np.int64) * len(self.products) + self._second
        _, once = np.unique(key, return_index=True)
        self._take(once)
        if self._top is not None and self._low.size >= self._top:
            last = self._low.size - self._top
            self._bar = max(self._bar, float(np.partition(self._low, last)[last]))
        self._take(np.flatnonzero(self._high >= self._bar))
        sure = int(np.count_nonzero(self._low >= self._threshold))
        if self._top is None and sure > MOST_PAIRS:
            raise TooManyPairsError(sure, self._threshold)

    def _decide(self) -> None:
        """Score what is left in float32, and keep what is wanted by that."""
        self._leave_out()
        places = self.products.places
        cosines = cosines_of(self.products.points, places[self._first], places[self._second])
        self._low = self._high = np.minimum(cosines, _BELOW_ONE)
        self._take(np.flatnonzero(self._low >= self._threshold))
        if self._top is not None and self._low.size > self._top:
            last = self._low.size - self._top
            self._bar = max(self._bar, float(np.partition(self._low, last)[last]))
            self._take(np.flatnonzero(self._low >= self._bar))

    def _take(self, kept: NDArray[np.int64]) -> None:
        self._first, self._second = self._first[kept], self._second[kept]
        self._low, self._high = self._low[kept], self._high[kept]
