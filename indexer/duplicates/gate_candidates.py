"""For one passage of each document the earlier documents that have one like it.

Some documents are asked for through the collection's own search, many by matrix products of all with all
before. Both may propose too many: what is decided on is looked at closely afterwards.
"""

from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.duplicates.arrangement import Arrangement
from nearsay.indexer.neighbours.products import Products, products_at
from nearsay.indexer.snapshots.snapshot import Snapshot

__all__ = ["MOST", "Asked", "Candidates", "Multiplied"]

MOST = 1000  # nearest passages of one that are looked at
_STEPS = (16, 128, MOST)  # nearest that are asked for, until the last is below the threshold
_OTHERS = 8192  # rows multiplied at a time
_HELD = 2_000_000  # proposals, before all but the nearest of each are let go: some 300 MB with a step's own
_SURELY = 1e-5  # below the threshold: more than float32 errs
# The document that asks (p,) by its place in the block, the row that is proposed, and their product.
_Proposals: TypeAlias = tuple[NDArray[np.uint16], NDArray[np.int64], NDArray[np.float32]]


class Candidates(Protocol):
    """Proposes documents."""

    def near(self, ranks: NDArray[np.int64], kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """For each document the ranks, rising, of those that may be near it, before the last one's end.

        ranks: (m,) rising; kept: by rank, False = not to be proposed. A document itself may be among them,
        and later ones.
        """
        ...


class Asked:
    """By the collection's search, exact or through its index."""

    def __init__(self, arrangement: Arrangement, snapshot: Snapshot, threshold: float) -> None:
        """The arrangement is of the snapshot."""
        self._arrangement = arrangement
        self._snapshot = snapshot
        self._bar = threshold - _SURELY
        self._rank = np.full(snapshot.alive.size, -1, dtype=np.int64)  # by passage number
        self._rank[arrangement.points.ids[arrangement.places]] = arrangement.ranks

    def near(self, ranks: NDArray[np.int64], kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """See `Candidates`."""
        arrangement = self._arrangement
        allowed = arrangement.ids(int(ranks[-1]) + 1, kept)
        queries = arrangement.points.rows(arrangement.places[arrangement.middle(ranks)])
        found = [np.zeros(0, dtype=np.int64)] * ranks.size
        asking = np.arange(ranks.size)
        for k in _STEPS:
            answers = self._snapshot.nearest_many(queries[asking], k, allowed) if allowed.size else []
            more = []
            for number, answer in zip(asking.tolist(), answers, strict=bool(allowed.size)):
                over = answer.scores >= self._bar
                found[number] = np.unique(self._rank[answer.ids[over]])
                if over.size == k and over.all():
                    more.append(number)
            asking = np.array(more, dtype=np.int64)
            if not asking.size:
                break
        return found


class Multiplied:
    """By matrix products in the narrowest format that the machine multiplies quickly."""

    def __init__(self, arrangement: Arrangement, threshold: float, device: str | None = "cpu") -> None:
        """Two bytes a number of every vector are held where the machine multiplies those."""
        self._arrangement = arrangement
        self._products = Products.of(arrangement.points, arrangement.places, device)
        # A product is rounded, to 2^-9 of it at worst, and that is in the bound; the bar itself is, too.
        self._bar = threshold - self._products.error - 2.0**-8 - _SURELY

    def near(self, ranks: NDArray[np.int64], kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """See `Candidates`."""
        import torch

        arrangement = self._arrangement
        rows = arrangement.middle(ranks)
        end = int(arrangement.starts[int(ranks[-1]) + 1])
        kept_rows = kept[arrangement.ranks[:end]]
        found: list[_Proposals] = []
        for begin in range(0, end, _OTHERS):
            others = slice(begin, min(begin + _OTHERS, end))
            with torch.inference_mode():
                products = self._products.between(rows, others)
                passing = (products >= self._bar).cpu().numpy()
                passing &= kept_rows[None, others]
                number, column = np.divmod(np.flatnonzero(passing), others.stop - others.start)
                values = products_at(products, number, column)
            found.append((number.astype(np.uint16), column + begin, values))
            if sum(values.size for _, _, values in found) > _HELD:
                found = [_nearest(found)]
        asking, answering, _ = _nearest(found)
        bounds = np.searchsorted(asking, np.arange(ranks.size + 1))
        return [
            np.unique(arrangement.ranks[answering[begin:end]]) for begin, end in pairwise(bounds.tolist())
        ]


def _nearest(found: list[_Proposals]) -> _Proposals:
    """By who asks the nearest of them, at most MOST of each; of those as near the first.

    found: parts whose rows rise from one to the next, and within each where they are as near to the same
    """
    asking, answering, values = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(-values, kind="stable")
    order = order[np.argsort(asking[order], kind="stable")]
    sorted_asking = asking[order]
    place = np.arange(order.size) - np.searchsorted(sorted_asking, sorted_asking)
    order = order[place < MOST]
    return asking[order], answering[order], values[order]
