"""Which documents say nearly the same, from the pairs of their passages."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.duplicates.closest_pairs import DistinctPairs

__all__ = ["DocumentPairs", "document_pairs"]


@dataclass(frozen=True, slots=True)
class DocumentPairs:
    """Documents by the different vectors that their passages have, and which of them are near-duplicates."""

    number: NDArray[np.int64]  # (documents,) of the contents; two of the same number are copies
    count: int  # different contents
    first: NDArray[np.int64]  # (m,) the lower content of each pair
    second: NDArray[np.int64]  # (m,) the higher
    cosines: NDArray[np.float32]  # (m,) mean over the passages of both of the cosine of their nearest there


def document_pairs(
    document: NDArray[np.int64], vector: NDArray[np.int64], pairs: DistinctPairs
) -> DocumentPairs:
    """Two documents are near-duplicates where each passage of either has a near-duplicate in the other.

    document: (n,) the document of each passage, 0, 1, …; vector: (n,) its number in a Distinct
    pairs:    the different vectors that are near-duplicates
    """
    held = np.unique(np.stack([document, vector], axis=1), axis=0)
    bounds = np.searchsorted(held[:, 0], np.arange(int(document.max(initial=-1)) + 2))
    known: dict[tuple[int, ...], int] = {}
    number = np.array(
        [
            known.setdefault(tuple(held[begin:end, 1].tolist()), len(known))
            for begin, end in pairwise(bounds.tolist())
        ],
        dtype=np.int64,
    )
    order = sorted(known)  # by content, so that ties fall the same way whatever came first
    rank = np.empty(len(order), dtype=np.int64)
    rank[[known[content] for content in order]] = np.arange(len(order))
    near = _neighbourhoods(pairs)
    first, second, cosines = _compared(order, near)
    return DocumentPairs(rank[number], len(order), first, second, cosines)


Near = dict[int, dict[int, float]]


def _neighbourhoods(pairs: DistinctPairs) -> Near:
    near: Near = defaultdict(dict)
    for one, other, cosine in zip(
        pairs.first.tolist(), pairs.second.tolist(), pairs.cosines.tolist(), strict=True
    ):
        near[one][other] = near[other][one] = cosine
    return near


def _compared(
    contents: list[tuple[int, ...]], near: Near
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    holders: dict[int, list[int]] = defaultdict(list)
    for content, vectors in enumerate(contents):
        for vector in vectors:
            holders[vector].append(content)
    first, second, cosines = [], [], []
    for content, vectors in enumerate(contents):
        # Whatever matches the whole matches each passage, so the rarest one names all that can.
        reach = [[vector, *near.get(vector, ())] for vector in vectors]
        rarest = min(reach, key=lambda found: sum(len(holders[vector]) for vector in found))
        for other in sorted({holder for vector in rarest for holder in holders[vector]}):
            if other > content:
                cosine = _matched(vectors, contents[other], near)
                if cosine is not None:
                    first.append(content)
                    second.append(other)
                    cosines.append(cosine)
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64), np.array(cosines, np.float32)


def _matched(one: tuple[int, ...], other: tuple[int, ...], near: Near) -> float | None:
    """The mean cosine of each passage's nearest on the other side; None where one has none there."""
    total = 0.0
    for here, there in ((one, frozenset(other)), (other, frozenset(one))):
        for vector in here:
            if vector in there:
                total += 1.0
                continue
            matches = [cosine for neighbour, cosine in near.get(vector, {}).items() if neighbour in there]
            if not matches:
                return None
            total += max(matches)
    return total / (len(one) + len(other))
