"""Pairs of different vectors turned into pairs of passages, and the pairs that copies make."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.duplicates.closest import MOST_PAIRS, TooManyPairsError
from nearsay.indexer.neighbours.distinct import Distinct

__all__ = ["CopiedPairs"]

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
        parts.append(
            _in_order(self._distinct.first[first[alone]], self._distinct.first[second[alone]], cosines[alone])
        )
        several = np.flatnonzero(~alone)
        several = several[np.argsort(-cosines[several], kind="stable")]
        parts += self._several(first[several], second[several], cosines[several], top)
        left, right, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.lexsort((right, left, -value))[:top]
        return left[order], right[order], value[order]

    def _same(self, top: int | None) -> Found:
        """The pairs that share a vector, in order."""
        distinct = self._distinct
        members = np.flatnonzero(distinct.copies[distinct.number] > 1)
        left, right, count = [], [], 0
        for place in members.tolist():
            if top is not None and count >= top:
                break
            copies = distinct.places(distinct.number[place])
            others = self._paired(place, copies[np.searchsorted(copies, place) + 1 :])[:top]
            left.append(np.full(others.size, place))
            right.append(others)
            count += others.size
        return _in_order(_joined(left), _joined(right), np.ones(count, dtype=np.float32))

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
        left, right, count = [], [], 0
        for place in np.sort(np.concatenate(sides)).tolist():
            if most is not None and count >= most:
                break
            across = sides[1] if self._distinct.number[place] == one else sides[0]
            others = self._paired(place, across[np.searchsorted(across, place) :])[:most]
            left.append(np.full(others.size, place))
            right.append(others)
            count += others.size
        return _joined(left), _joined(right)

    def _paired(self, place: int, others: NDArray[np.int64]) -> NDArray[np.int64]:
        return others if self._apart is None else others[self._apart[others] != self._apart[place]]


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _in_order(left: NDArray[np.int64], right: NDArray[np.int64], value: NDArray[np.float32]) -> Found:
    return np.minimum(left, right), np.maximum(left, right), value
