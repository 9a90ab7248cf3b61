"""The clusters that a collection was last put into, by passage."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.clusterings import ClusteringRow, ClusterRow
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.snapshots.snapshot import Snapshot

__all__ = ["SavedClusters", "living_members", "saved_clustering"]


@dataclass(frozen=True, slots=True)
class SavedClusters:
    """The live generation's clustering: which living passage is in which cluster."""

    ids: NDArray[np.int64]  # (n,) passage numbers, rising; outliers and removed passages are left out
    numbers: NDArray[np.int32]  # (n,) their clusters
    names: Mapping[int, str]  # of the clusters of every level
    parents: Mapping[int, int]  # of those clusters that belong to one of the level above
    row: ClusteringRow  # method, parameters, when; `through`: the last passage that was looked at


def saved_clustering(explored: Explored) -> SavedClusters | None:
    """What was saved with the live generation; None if it was never clustered."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        row = clusterings.of_live(connection, snapshot.collection.id)
        if row is None:
            return None
        every = clusterings.clusters_of(connection, row.id)
        ids, numbers = clusterings.members(connection, row.id)
    ids, numbers = living_members(snapshot, ids, numbers)
    parents = {each.number: each.parent for each in every if each.parent is not None}
    return SavedClusters(ids, numbers, _names(every), parents, row)


def living_members(
    snapshot: Snapshot, ids: NDArray[np.int64], numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Members without the passages that were removed since."""
    there = ids < snapshot.alive.size
    there[there] = snapshot.alive[ids[there]]
    return ids[there], numbers[there]


def _names(every: list[ClusterRow]) -> dict[int, str]:
    return {each.number: each.name for each in every}
