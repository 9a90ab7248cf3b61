"""Passages that came after a clustering, put into its clusters without clustering anew."""

from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from nearsay.indexer.catalogue import clusterings, collections
from nearsay.indexer.catalogue.clusterings import Members
from nearsay.indexer.catalogue.tables import clusterings as clustering_table
from nearsay.indexer.catalogue.tables import clusters as cluster_table
from nearsay.indexer.clusters import scores
from nearsay.indexer.clusters.current import no_clusters
from nearsay.indexer.clusters.saved import living_members
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["Assigned", "assign_newer"]

_WITHIN = 5.0  # percentile of the members' cosines to the centre: a passage has to be as near as that


@dataclass(frozen=True, slots=True)
class Assigned:
    """What became of the passages that came since the clustering."""

    assigned: int
    outliers: int  # too far from every centre


def assign_newer(explored: Explored, *, listener: ProgressListener = unheard) -> Assigned:
    """Put the passages that came since into the cluster whose centre is nearest.

    Only where they are at least as near to it as all but the farthest twentieth of its passages; the others
    are outliers from now on. Centres stay where the clustering put them. BadInputError without a clustering.
    """
    snapshot = explored.snapshot()
    with explored.locked(snapshot.collection, "assign to clusters") as store:
        snapshot = explored.snapshot()  # that of before the lock may show what is no longer there
        with store.database.reading() as connection:
            row = clusterings.of_live(connection, snapshot.collection.id)
            if row is None:
                raise no_clusters(explored.name)
            lowest = [each.number for each in clusterings.clusters_of(connection, row.id) if each.level == 0]
            ids, numbers = clusterings.members(connection, row.id)
        ids, numbers = living_members(snapshot, ids, numbers)
        living = snapshot.vectors.ids[snapshot.alive[snapshot.vectors.ids]]
        newer = living[living > row.through]
        if not newer.size or not ids.size:
            return Assigned(0, int(newer.size))
        used = np.array(sorted(lowest), dtype=np.int32)
        labels = np.searchsorted(used, numbers).astype(np.int32)
        inside = Points.of(snapshot, ids)
        middles = scores.centres(inside, labels)
        cosines = scores.own_cosines(inside, labels, middles)
        bounds = np.array(
            [
                np.percentile(cosines[labels == place], _WITHIN) if (labels == place).any() else np.inf
                for place in range(len(middles))
            ]
        )
        nearest, near = scores.nearest_centre(Points.of(snapshot, newer), middles, listener=listener)
        fits = near >= bounds[nearest]
        who = Members(newer[fits], used[nearest[fits]], near[fits].astype(np.float64))
        with store.database.writing() as connection:
            still = clusterings.of_live(connection, snapshot.collection.id)
            if still is None or still.id != row.id:
                raise BusyError(
                    f"the clusters of '{explored.name}' were made anew meanwhile. Run the same command again"
                )
            clusterings.add_members(connection, row.id, who)
            _grow(connection, row.id, who)
            told = {"through": int(newer[-1]), "passages": row.passages + newer.size}
            connection.execute(
                clustering_table.update().where(clustering_table.c.id == row.id).values(**told)
            )
            collections.changed(connection, snapshot.collection.id)
    return Assigned(int(fits.sum()), int(newer.size - fits.sum()))


def _grow(connection: sa.Connection, clustering: int, who: Members) -> None:
    """Enter the new sizes, those of higher levels too."""
    parents = {each.number: each.parent for each in clusterings.clusters_of(connection, clustering)}
    grown: dict[int, int] = {}
    for number, count in zip(*np.unique(who.numbers, return_counts=True), strict=True):
        at: int | None = int(number)
        while at is not None:
            grown[at] = grown.get(at, 0) + int(count)
            at = parents[at]
    for number, more in grown.items():
        where = (cluster_table.c.clustering == clustering) & (cluster_table.c.number == number)
        connection.execute(cluster_table.update().where(where).values(size=cluster_table.c.size + more))
