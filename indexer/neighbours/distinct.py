"""Copies put aside: which vectors are different, and which passages have each.

A text that stands ten thousand times in a collection is one vector here, so copies cost nothing in a search
for neighbours. The vectors come in an order that depends on their content alone.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Vectors

__all__ = ["Distinct"]

_BLOCK = 16_384
_DIGEST = 16  # bytes: two different vectors of a million share one with a chance of 1e-27


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different vectors of some points, in the order of a hash of their bytes."""

    first: NDArray[np.int64]  # (m,) the first place that has each
    number: NDArray[np.int64]  # (n,) which of them each place has
    members: NDArray[np.int64]  # (n,) all places, by rising number, then rising place
    starts: NDArray[np.int64]  # (m + 1,) where the places of each begin in `members`

    @classmethod
    def of(cls, points: Vectors) -> "Distinct":
        """Read every vector once."""
        digests = bytearray()
        for _, vectors in points.blocks(_BLOCK):
            rows = np.ascontiguousarray(vectors)
            for row in rows:
                digests += hashlib.blake2b(row.data, digest_size=_DIGEST).digest()
        keys = np.frombuffer(bytes(digests), dtype=np.uint64).reshape(-1, 2)
        members = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: places rise among copies
        ordered = keys[members]
        new = np.ones(len(points), dtype=np.bool_)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        starts = np.append(np.flatnonzero(new), len(points)).astype(np.int64)
        number = np.empty(len(points), dtype=np.int64)
        number[members] = np.cumsum(new) - 1
        return cls(members[starts[:-1]], number, members, starts)

    def __len__(self) -> int:
        return int(self.first.size)

    @property
    def copies(self) -> NDArray[np.int64]:
        """How many places have each, (m,)."""
        return np.diff(self.starts)

    def places(self, number: int) -> NDArray[np.int64]:
        """The places that have one of the vectors, rising."""
        return self.members[self.starts[number] : self.starts[number + 1]]
