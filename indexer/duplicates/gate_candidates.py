"""For one passage of each document the earlier documents that have one like it.

Some documents are asked for through the collection's own search, many by matrix products of all with all
before. Both may propose too many: what is decided on is looked at closely afterwards.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.duplicates.arrangement import Arrangement
from nearsay.indexer.neighbours.products import Products
from nearsay.indexer.snapshot import Snapshot

__all__ = ["MOST", "Asked", "Candidates", "Multiplied"]

MOST = 1000  # nearest passages of one that are looked at
_STEPS = (16, 128, MOST)  # nearest that are asked for, until the last is below the threshold
_OTHERS = 8192  # rows multiplied at a time
_SURELY = 1e-5  # below the threshold: more than float32 errs


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
        asking, answering, values = [], [], []
        for begin in range(0, end, _OTHERS):
            others = slice(begin, min(begin + _OTHERS, end))
            with torch.inference_mode():
                products = self._products.between(rows, others)
                passing = (products >= self._bar).cpu().numpy()
                passing &= kept_rows[None, others]
                flat = np.flatnonzero(passing)
                chosen = products.reshape(-1)[torch.from_numpy(flat).to(products.device)]
                values.append(chosen.float().cpu().numpy())
            number, column = np.divmod(flat, others.stop - others.start)
            asking.append(number)
            answering.append(column + begin)
        return self._most(ranks.size, *map(np.concatenate, (asking, answering, values)))

    def _most(
        self,
        count: int,
        asking: NDArray[np.int64],
        answering: NDArray[np.int64],
        values: NDArray[np.float32],
    ) -> list[NDArray[np.int64]]:
        order = np.lexsort((answering, -values, asking))
        bounds = np.searchsorted(asking[order], np.arange(count + 1))
        ranks = self._arrangement.ranks[answering[order]]
        return [
            np.unique(ranks[begin : min(begin + MOST, end)])
            for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
