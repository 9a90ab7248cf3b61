"""The clusters of a collection as they stand: what was saved, without passages that were removed since."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import clusterings, collections, passages
from nearsay.indexer.catalogue.clusterings import ClusteringRow, ClusterRow, Members
from nearsay.indexer.clusters.clustered import Made
from nearsay.indexer.clusters.clustering import CentralPassage, Cluster, Clustering
from nearsay.indexer.clusters.matching import Movement
from nearsay.indexer.clusters.saved import living_members
from nearsay.indexer.neighbours.explored import Explored

__all__ = ["current_clustering", "kept_row", "no_clusters", "rename_cluster", "shown_clustering"]

_LONGEST_NAME = 200  # characters


def current_clustering(explored: Explored) -> Clustering | None:
    """The live generation's clustering; None if it was never clustered."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        row = clusterings.of_live(connection, snapshot.collection.id)
        if row is None:
            return None
        every = tuple(clusterings.clusters_of(connection, row.id))
        ids, numbers = clusterings.members(connection, row.id)
    ids, numbers = living_members(snapshot, ids, numbers)
    living = snapshot.vectors.ids[snapshot.alive[snapshot.vectors.ids]]
    looked_at = int(np.count_nonzero(living <= row.through))
    members = Members(ids, numbers, np.zeros(0))
    sizes = _sizes(every, numbers)
    return _shown(explored, row, every, sizes, members, looked_at, living.size - looked_at, saved=True)


def kept_row(explored: Explored) -> ClusteringRow | None:
    """What the catalogue says of the live generation's clustering; None if it was never clustered."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        return clusterings.of_live(connection, snapshot.collection.id)


def shown_clustering(explored: Explored, made: Made) -> Clustering:
    """What was just made."""
    sizes = {each.number: each.size for each in made.clusters}
    found = _shown(
        explored, made.row, made.clusters, sizes, made.members, made.row.passages, 0, saved=made.saved
    )
    return Clustering(
        **{name: getattr(found, name) for name in Clustering.__slots__ if name != "notes"},
        notes=made.notes,
    )


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


def _shown(
    explored: Explored,
    row: ClusteringRow,
    every: tuple[ClusterRow, ...],
    sizes: dict[int, int],
    members: Members,
    looked_at: int,
    newer: int,
    *,
    saved: bool,
) -> Clustering:
    wanted = [number for each in every for number in each.central]
    with explored.store.database.reading() as connection:
        rows = passages.read_passages(connection, row.collection_id, wanted)
    central = {
        number: CentralPassage(number, found.document_id, found.title, found.text)
        for number, found in rows.items()
    }
    clusters = tuple(
        Cluster(
            number=each.number,
            name=each.name,
            named_by_user=each.named_by_user,
            terms=each.terms,
            central=tuple(central[number] for number in each.central if number in central),
            size=sizes.get(each.number, 0),
            cohesion=each.cohesion,
            silhouette=each.silhouette,
            parent=each.parent,
            level=each.level,
        )
        for each in every
    )
    moved = row.report.get("movement")
    return Clustering(
        collection=explored.name,
        generation=row.generation,
        method=row.method,
        parameters=row.parameters["used"],
        clusters=clusters,
        passages=looked_at,
        outliers=looked_at - members.ids.size,
        newer=newer,
        movement=None if moved is None else Movement.from_json(moved),
        created_at=row.created_at,
        saved=saved,
        members=members,
    )
