"""The current clusters of a collection: the saved ones without passages removed since."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.durable import ending_of
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import clusterings, collections, passages
from nearsay.indexer.catalogue.clusterings import MADE_THROUGH, ClusteringRow, ClusterRow, Members
from nearsay.indexer.catalogue.tables import clusterings as clustering_table
from nearsay.indexer.catalogue.tables import clusters as cluster_table
from nearsay.indexer.clusters import scores
from nearsay.indexer.clusters.clustered import SavedClusters, shown
from nearsay.indexer.clusters.clustering import Clustering
from nearsay.indexer.neighbours.points import Explored, Points
from nearsay.indexer.query.export import write_csv, write_lines
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import ProgressListener, unheard


def saved_clustering(explored: Explored, snapshot: Snapshot | None = None) -> SavedClusters | None:
    """The live generation's clustering with its existing passages; None if there is none."""
    snapshot = snapshot or explored.snapshot()
    with explored.store.database.reading() as connection:
        row = clusterings.of_live(connection, snapshot.collection.id)
        saved = None if row is None else SavedClusters.of(connection, row)
    if saved is None:
        return None
    there = snapshot.finds(saved.ids)
    return replace(saved, ids=saved.ids[there], numbers=saved.numbers[there])


_LONGEST_NAME = 200  # characters


def current_clustering(explored: Explored) -> Clustering:
    """The live generation's clusters, without passages removed since; BadInputError if there are none."""
    snapshot = explored.snapshot()
    kept = saved_clustering(explored, snapshot)
    if kept is None:
        raise no_clusters(explored.name)
    living = snapshot.living()
    looked_at = int(np.count_nonzero(living <= kept.row.through))
    members = Members(kept.ids, kept.numbers, np.zeros(0))
    sizes, newer = _sizes(kept.clusters, kept.numbers), living.size - looked_at
    return shown(
        explored,
        kept.row,
        kept.clusters,
        members,
        saved=True,
        sizes=sizes,
        looked_at=looked_at,
        newer=newer,
    )


def kept_row(explored: Explored) -> ClusteringRow | None:
    """The catalogue row of the live generation's clustering; None if there is none."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        return clusterings.of_live(connection, snapshot.collection.id)


def rename_cluster(explored: Explored, number: int, name: str) -> None:
    """Rename a cluster; later clusterings keep the name. BadInputError if the cluster does not exist."""
    cleaned = " ".join(name.split())
    if not cleaned or len(cleaned) > _LONGEST_NAME or not cleaned.isprintable():
        raise BadInputError(
            f"{name!r} is not a valid cluster name. Give 1 to {_LONGEST_NAME} printable characters"
        )
    snapshot = explored.snapshot()
    locked = explored.locked(snapshot.collection, "rename a cluster")
    with locked as store, store.database.writing() as connection:
        row = clusterings.of_live(connection, snapshot.collection.id)
        if row is None:
            raise no_clusters(explored.name)
        if not clusterings.rename(connection, row.id, number, cleaned):
            raise BadInputError(
                f"'{explored.name}' has no cluster {number}. "
                f"List the clusters: nearsay explore clusters {explored.name}"
            )
        collections.changed(connection, snapshot.collection.id)


def no_clusters(collection: str) -> BadInputError:
    """The error for a collection without clusters."""
    return BadInputError(
        f"the live generation of '{collection}' has no clusters. "
        f"Find them: nearsay explore clusters {collection}"
    )


def _sizes(every: Iterable[ClusterRow], numbers: NDArray[np.int32]) -> dict[int, int]:
    """The existing passages of each cluster; a cluster of a higher level counts those of its children."""
    counts = np.bincount(numbers, minlength=1)
    sizes: dict[int, int] = {}
    for each in every:  # the lowest level first
        if each.level == 0:
            sizes[each.number] = int(counts[each.number]) if each.number < counts.size else 0
        if each.parent is not None:
            sizes[each.parent] = sizes.get(each.parent, 0) + sizes.get(each.number, 0)
    return sizes


_WITHIN = 5.0  # percentile of the members' cosines to the centre that a passage has to reach


@dataclass(frozen=True, slots=True)
class Assigned:
    """The number of assigned passages and outliers."""

    assigned: int
    outliers: int  # too far from every centre


def assign_newer(explored: Explored, *, progress: ProgressListener = unheard) -> Assigned:
    """Assign passages added after the clustering to the cluster with the nearest centre.

    A passage has to be at least as near to the centre as all but the farthest 5 % of the members that the
    clustering found; other passages become outliers. Repeated assignments do not move the centres. Raises
    BadInputError without a clustering.
    """
    snapshot = explored.snapshot()
    with explored.locked(snapshot.collection, "assign to clusters") as store:
        snapshot = explored.snapshot()  # the one taken before the lock may be stale
        kept = saved_clustering(explored, snapshot)
        if kept is None:
            raise no_clusters(explored.name)
        row = kept.row
        living = snapshot.living()
        newer = living[living > row.through]
        if not newer.size:
            return Assigned(0, 0)
        members = _fitting(snapshot, kept, newer, progress)
        with store.database.writing() as connection:
            still = clusterings.of_live(connection, snapshot.collection.id)
            if still is None or still.id != row.id:
                raise BusyError(f"'{explored.name}' was clustered again meanwhile. Run the command again")
            clusterings.add_members(connection, row.id, members)
            _grow(connection, row.id, members)
            values = {
                "through": int(newer[-1]),
                "passages": row.passages + newer.size,
                "report": {**row.report, MADE_THROUGH: row.made_through},
            }
            connection.execute(
                clustering_table.update().where(clustering_table.c.id == row.id).values(**values)
            )
            collections.changed(connection, snapshot.collection.id)
    return Assigned(members.ids.size, newer.size - members.ids.size)


def _fitting(
    snapshot: Snapshot, kept: SavedClusters, newer: NDArray[np.int64], listener: ProgressListener
) -> Members:
    """The newer passages that are near enough to a centre, and their clusters."""
    own = kept.ids <= kept.row.made_through  # passages assigned since must not move the centres
    if not own.any():
        return Members(newer[:0], kept.numbers[:0], np.zeros(0))
    used = np.array(sorted(kept.of_level(0)), dtype=np.int32)
    labels = np.searchsorted(used, kept.numbers[own]).astype(np.int32)
    inside = Points.of(snapshot, kept.ids[own])
    middles = scores.centres(inside, labels)
    cosines = scores.own_cosines(inside, labels, middles)
    bounds = np.array(
        [
            np.percentile(its, _WITHIN, method="lower") if (its := cosines[labels == place]).size else np.inf
            for place in range(len(middles))
        ]
    )
    nearest, near = scores.nearest_centre(Points.of(snapshot, newer), middles, listener=listener)
    fits = near >= bounds[nearest] - scores.ROUNDING
    return Members(newer[fits], used[nearest[fits]], near[fits].astype(np.float64))


def _grow(connection: sa.Connection, clustering: int, members: Members) -> None:
    parents = {each.number: each.parent for each in clusterings.clusters_of(connection, clustering)}
    grown: dict[int, int] = {}
    for number, count in zip(*np.unique(members.numbers, return_counts=True), strict=True):
        ancestor: int | None = int(number)
        while ancestor is not None:
            grown[ancestor] = grown.get(ancestor, 0) + int(count)
            ancestor = parents[ancestor]
    for number, more in grown.items():
        where = (cluster_table.c.clustering == clustering) & (cluster_table.c.number == number)
        connection.execute(cluster_table.update().where(where).values(size=cluster_table.c.size + more))


_PAGE = 1_000
_COLUMNS = ("cluster", "name", "id", "passage", "title", "text")


def write_members(explored: Explored, out: str | Path, clustering: Clustering | None = None) -> int:
    """Write each clustered passage with its cluster to a .jsonl or .csv file; returns their number.

    clustering: None = the saved one

    The file is written atomically, by level, descending size of the cluster, and order of addition; outliers
    are omitted. In CSV, text that a spreadsheet would evaluate is prefixed with an apostrophe.
    """
    rows, file = member_rows(explored, clustering or current_clustering(explored)), Path(out)
    if ending_of(file, "jsonl", "csv") == "jsonl":
        return write_lines(rows, file)
    return write_csv(rows, _COLUMNS, file)


def member_rows(
    explored: Explored, clustering: Clustering, only: Container[int] | None = None
) -> Iterator[dict[str, Any]]:
    """A row for each existing passage in a cluster.

    only: numbers of clusters, None = all
    """
    snapshot = explored.snapshot()
    for cluster in clustering.clusters:
        if only is not None and cluster.number not in only:
            continue
        ids = clustering.members.ids[clustering.members.numbers == cluster.number]
        for some in np.split(ids, range(_PAGE, ids.size, _PAGE)):
            with explored.store.database.reading() as connection:
                rows = passages.read_passages(connection, snapshot.collection.id, some.tolist())
            for number in some.tolist():
                if number in rows:
                    row = rows[number]
                    yield {
                        "cluster": cluster.number,
                        "name": cluster.name,
                        "id": row.document_id,
                        "passage": row.ordinal,
                        "title": row.title,
                        "text": row.text,
                        "metadata": dict(row.metadata),
                    }
