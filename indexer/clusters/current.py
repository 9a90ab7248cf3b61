"""The clusters of a collection as they stand: what was saved, without passages that were removed since."""

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
    """What was saved with the live generation, of passages that are there; None if it was never clustered."""
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
    """The live generation's clusters, without passages removed since; BadInputError if it has none."""
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
    """What the catalogue says of the live generation's clustering; None if it was never clustered."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        return clusterings.of_live(connection, snapshot.collection.id)


def rename_cluster(explored: Explored, number: int, name: str) -> None:
    """Give a cluster a name that later clusterings keep; BadInputError if it is not there."""
    cleaned = " ".join(name.split())
    if not cleaned or len(cleaned) > _LONGEST_NAME or not cleaned.isprintable():
        raise BadInputError(
            f"{name!r} is not a cluster's name. Give 1 to {_LONGEST_NAME} characters that can be printed"
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
                f"See which there are: nearsay explore clusters {explored.name}"
            )
        collections.changed(connection, snapshot.collection.id)


def no_clusters(collection: str) -> BadInputError:
    """The error of asking for clusters where there are none."""
    return BadInputError(
        f"the live generation of '{collection}' was not put into clusters yet. "
        f"Make them: nearsay explore clusters {collection}"
    )


def _sizes(every: Iterable[ClusterRow], numbers: NDArray[np.int32]) -> dict[int, int]:
    """How many living passages each cluster holds, those of higher levels through what belongs to them."""
    counts = np.bincount(numbers, minlength=1)
    sizes: dict[int, int] = {}
    for each in every:  # the lowest level first
        if each.level == 0:
            sizes[each.number] = int(counts[each.number]) if each.number < counts.size else 0
        if each.parent is not None:
            sizes[each.parent] = sizes.get(each.parent, 0) + sizes.get(each.number, 0)
    return sizes


_WITHIN = 5.0  # percentile of the members' cosines to the centre: a passage has to be as near as that


@dataclass(frozen=True, slots=True)
class Assigned:
    """What became of the passages that came since the clustering."""

    assigned: int
    outliers: int  # too far from every centre


def assign_newer(explored: Explored, *, progress: ProgressListener = unheard) -> Assigned:
    """Put passages that came since the clustering into the cluster whose centre is nearest.

    Only where they are at least as near to it as all but the farthest twentieth of the passages that it was
    made of; the others are outliers from now on. Centres stay where the clustering put them, however often
    passages are assigned. BadInputError without a clustering.
    """
    snapshot = explored.snapshot()
    with explored.locked(snapshot.collection, "assign to clusters") as store:
        snapshot = explored.snapshot()  # that of before the lock may show what is no longer there
        kept = saved_clustering(explored, snapshot)
        if kept is None:
            raise no_clusters(explored.name)
        row = kept.row
        living = snapshot.living()
        newer = living[living > row.through]
        if not newer.size:
            return Assigned(0, 0)
        who = _fitting(snapshot, kept, newer, progress)
        with store.database.writing() as connection:
            still = clusterings.of_live(connection, snapshot.collection.id)
            if still is None or still.id != row.id:
                raise BusyError(
                    f"the clusters of '{explored.name}' were made anew meanwhile. Run the same command again"
                )
            clusterings.add_members(connection, row.id, who)
            _grow(connection, row.id, who)
            told = {
                "through": int(newer[-1]),
                "passages": row.passages + newer.size,
                "report": {**row.report, MADE_THROUGH: row.made_through},
            }
            connection.execute(
                clustering_table.update().where(clustering_table.c.id == row.id).values(**told)
            )
            collections.changed(connection, snapshot.collection.id)
    return Assigned(who.ids.size, newer.size - who.ids.size)


def _fitting(
    snapshot: Snapshot, kept: SavedClusters, newer: NDArray[np.int64], listener: ProgressListener
) -> Members:
    """Those of the newer passages that are near enough to a cluster's centre, and the cluster."""
    own = kept.ids <= kept.row.made_through  # those assigned earlier would draw the centres to themselves
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


_PAGE = 1_000
_COLUMNS = ("cluster", "name", "id", "passage", "title", "text")


def write_members(explored: Explored, out: str | Path, clustering: Clustering | None = None) -> int:
    """Write each passage with its cluster, as .jsonl or .csv; how many. None = the kept clusters.

    By cluster, the largest first, in the order they were added; whole or not at all. In CSV a text that a
    spreadsheet would compute gets an apostrophe before it. Outliers are not in it.
    """
    rows, file = member_rows(explored, clustering or current_clustering(explored)), Path(out)
    if ending_of(file, "jsonl", "csv") == "jsonl":
        return write_lines(rows, file)
    return write_csv(rows, _COLUMNS, file)


def member_rows(
    explored: Explored, clustering: Clustering, only: Container[int] | None = None
) -> Iterator[dict[str, Any]]:
    """A row for each passage in a cluster that is still there; only: in clusters of these numbers."""
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
