"""The passages nearest to a query among those that a selection lets through.

Few that pass are scored one by one. Where many pass, candidates come from the index and are checked in SQL,
more of them until enough passed; where too few of the nearest pass, all that pass are listed, and the index
is searched among them. So it is at once where they are listed already, or a filter comes again that is listed
quickly.
"""

import weakref
from dataclasses import replace

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.filters.selection import (
    LISTED,
    Selection,
    list_again,
    list_all,
    listed_quickly,
    passing,
)
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.snapshot import Snapshot
from nearsay.indexer.vector_store import Candidates

__all__ = ["dense_candidates"]

_FIRST_DRAW = 4  # candidates drawn at first, as a multiple of what is wanted
_LEAST_DRAWN = 64
_WIDENING = 1.12  # probes for every doubling of how far away the neighbours lie that pass
_SPREADING = 0.75  # doublings of the probes for every halving of what passes, where that is listed
_MOST_DRAWN = 5_000  # candidates: beyond, listing all that pass costs less
_MOST_DRAWN_WHERE_DECLARED = 1_000  # the same where declared fields alone say what passes


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
    if selection.numbers is not None and selection.numbers.size <= LISTED:
        return snapshot.nearest(query, count, selection.numbers)
    listed = list_again(connection, snapshot, selection)
    if listed is not None:
        return _looking_at_as_many(snapshot, listed.size).nearest(query, count, listed)
    drawn = max(_FIRST_DRAW * count, _LEAST_DRAWN)
    quickly = listed_quickly(snapshot, selection, connection.dialect.name)
    most = max(min(_MOST_DRAWN, _MOST_DRAWN_WHERE_DECLARED) if quickly else _MOST_DRAWN, drawn)
    while drawn <= most:
        found = _looking_further(snapshot, drawn / count).nearest(query, drawn)
        passed = passing(connection, snapshot, found.ids, selection)
        enough = int(passed.sum())
        if enough >= count or found.ids.size < drawn:
            return Candidates(found.ids[passed][:count], found.scores[passed][:count])
        drawn = max(2 * drawn, round(1.5 * count * drawn / max(enough, 1)))
    numbers = list_all(connection, snapshot, selection)
    return _looking_at_as_many(snapshot, numbers.size).nearest(query, count, numbers)


_FURTHER: "weakref.WeakKeyDictionary[CandidateIndex, dict[int, CandidateIndex]]" = weakref.WeakKeyDictionary()


def _looking_further(snapshot: Snapshot, depth: float) -> Snapshot:
    """The snapshot with an index that is as sure of `depth` times as many neighbours as it is of the first.

    The neighbours that pass a filter lie as much further away, in lists that the usual search leaves out.
    """
    return _probing(snapshot, _WIDENING ** max(0, int(np.ceil(np.log2(depth)))))


def _looking_at_as_many(snapshot: Snapshot, passing: int) -> Snapshot:
    """The snapshot with an index that looks at almost as many passages that pass as without a filter.

    However far from the query they lie; those that do not pass are skipped by their bit.
    """
    share = snapshot.searchable / max(passing, 1)
    return _probing(snapshot, 2.0 ** max(0, int(np.ceil(_SPREADING * np.log2(share)))))


def _probing(snapshot: Snapshot, factor: float) -> Snapshot:
    index = snapshot.index
    if index is None or factor <= 1 or "probes" not in getattr(index, "parameters", {}):
        return snapshot
    probes = round(index.parameters["probes"] * factor)
    known = _FURTHER.setdefault(index, {})
    if probes not in known:
        known[probes] = index.looking({**index.parameters, "probes": probes})
    return replace(snapshot, index=known[probes])
