"""The passages nearest to a query among those that a selection lets through.

Where it is known which pass, few are scored one by one, and the index is searched among many. Where a filter
asks of ids, titles, texts or sources, candidates come from the index and are checked in SQL, more of them
until enough passed, and from further away until hardly any better one turns up; where too few of the nearest
pass, all that pass are listed.
"""

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.filters.selection import Selection, list_all, passing
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.vector_store import Candidates

__all__ = ["dense_batch", "dense_candidates"]

_FIRST_DRAW = 4  # candidates drawn at first, as a multiple of what is wanted
_LEAST_DRAWN = 64
_WIDENING = 1.12  # of the reach for every doubling of how far away the neighbours lie that pass
_WORTH_LISTING = 16  # queries under one filter: for so many, all that passes is listed once
_MOST_DRAWN = 5_000  # candidates: beyond, listing all that pass costs less


def dense_candidates(
    connection: sa.Connection,
    snapshot: Snapshot,
    query: NDArray[np.float32],
    count: int,
    selection: Selection,
) -> Candidates:
    """The `count` nearest living passages that the selection lets through, verified in this transaction.

    query: (d,) unit length. Fewer come back only when fewer qualify.
    """
    if selection.everything:
        return snapshot.nearest(query, count)
    allowed = selection.allowed
    if allowed is None:
        found = _drawn(connection, snapshot, query, count, selection)
        if found is not None:
            return found
        allowed = list_all(connection, snapshot, selection)
    return snapshot.nearest(query, count, allowed)


def dense_batch(
    connection: sa.Connection,
    snapshot: Snapshot,
    queries: NDArray[np.float32],
    count: int,
    selection: Selection,
) -> list[Candidates] | None:
    """What `dense_candidates` gives for each of several queries, looked for together.

    queries: (n, d) unit length. None where what passes is not listed, and too much to list for so few.
    """
    if selection.everything:
        return snapshot.nearest_many(queries, count)
    allowed = selection.allowed
    if allowed is None and len(queries) >= _WORTH_LISTING:
        allowed = list_all(connection, snapshot, selection)
    return None if allowed is None else snapshot.nearest_many(queries, count, allowed)


def _drawn(
    connection: sa.Connection,
    snapshot: Snapshot,
    query: NDArray[np.float32],
    count: int,
    selection: Selection,
) -> Candidates | None:
    """The nearest of all, checked; None where too few of so many pass that it costs less to list them."""
    drawn = max(_FIRST_DRAW * count, _LEAST_DRAWN)
    most = max(_MOST_DRAWN, drawn)
    reach = before = None
    checked, held = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    newer = snapshot.newer(query[None, :], drawn)
    while drawn <= most:
        if reach is None:  # as sure of those that pass as the usual reach is of the nearest of all
            reach = _WIDENING ** max(0, int(np.ceil(np.log2(drawn / count))))
        (found,) = snapshot.looked_up(query[None, :], drawn, snapshot.alive, reach, newer)
        unchecked = np.setdiff1d(found.ids, checked, assume_unique=True)
        checked = np.append(checked, unchecked)
        held = np.append(held, passing(connection, snapshot, unchecked, selection))
        passed = np.isin(found.ids, checked[held])
        enough = int(passed.sum())
        best = Candidates(found.ids[passed][:count], found.scores[passed][:count])
        if found.ids.size < drawn:
            return best
        if enough < count:
            drawn = max(2 * drawn, round(1.5 * count * drawn / max(enough, 1)))
            newer = snapshot.newer(query[None, :], drawn)
            reach = before = None
            continue
        if (before is not None and snapshot.settled(before, best, count)) or not snapshot.reaches_beyond(
            reach
        ):
            return best
        before, reach = best, 2.0 * reach
    return None
