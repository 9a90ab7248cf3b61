"""Neighbours among different vectors turned into neighbours among passages, copies included."""

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.distinct import Distinct
from nearsay.indexer.neighbours.points import Vectors
from nearsay.indexer.neighbours.products import cosines_of

__all__ = ["with_copies"]


def with_copies(
    points: Vectors,
    distinct: Distinct,
    rows: NDArray[np.int32],
    cosines: NDArray[np.float32],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k nearest places of every place (n, k), -1 = no more, and their cosines.

    rows, cosines: (m, up to k) the nearest different vectors of each different vector
    """
    copies = distinct.copies
    neighbours = np.full((len(points), k), -1, dtype=np.int32)
    found = np.full((len(points), k), -1.0, dtype=np.float32)
    width = rows.shape[1]
    # As they are where neither a passage nor a neighbour has copies.
    if width:
        place_of = np.append(distinct.first, -1)  # the last for -1
        neighbours[distinct.first, :width] = place_of[rows]
        found[distinct.first, :width] = cosines
    repeated = copies > 1
    if not repeated.any():
        return neighbours, found
    touched = repeated | (np.append(repeated, False)[rows].any(axis=1) if width else False)
    numbers = np.flatnonzero(touched)
    with_itself = np.ones(len(distinct), dtype=np.float32)
    own = np.flatnonzero(repeated)
    with_itself[own] = cosines_of(points, distinct.first[own], distinct.first[own])
    for number in numbers.tolist():
        near = rows[number][rows[number] >= 0]
        groups = [distinct.places(number)[: k + 1]] + [distinct.places(row)[:k] for row in near.tolist()]
        values = np.append(with_itself[number], cosines[number, : near.size])
        sizes = [group.size for group in groups]
        places, value = np.concatenate(groups), np.repeat(values, sizes)
        order = np.lexsort((places, -value))
        places, value = places[order], value[order]
        mine = distinct.places(number)
        # All copies have the same list but for themselves; beyond the first k + 1 none is in it.
        for some in mine[: k + 1, None] if mine.size <= k + 1 else [*mine[: k + 1, None], mine[k + 1 :]]:
            kept = np.flatnonzero(places != some[0])[:k]
            neighbours[some, : kept.size] = places[kept]
            found[some, : kept.size] = value[kept]
    return neighbours, found
