"""Clusterings in the catalogue: the newest of each generation.

Removed passages remain members until the collection is compacted; functions that count members exclude them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.bulk import count_of, insert_columns, number_lists, one_of
from nearsay.indexer.catalogue.explored import HANDED_OVER, leave_clustering
from nearsay.indexer.catalogue.tables import (
    cluster_members,
    clusterings,
    clusters,
    collections,
    generations,
    passages,
    removed_passages,
)

MADE_THROUGH = "made through"  # in the report of a clustering to which newer passages were assigned
_ROWS = 50_000  # members in one call: their Python objects take some 10 MB


@dataclass(frozen=True, slots=True)
class ClusteringRow:
    """A clustering in the catalogue."""

    id: int
    collection_id: int
    generation: int
    method: str
    parameters: Mapping[str, Any]
    report: Mapping[str, Any]
    passages: int  # clustered ones and outliers
    through: int  # the last of them
    created_at: str

    @property
    def made_of(self) -> int:
        """The generation whose vectors were clustered; it may have been dropped since."""
        return int(self.report.get(HANDED_OVER, self.generation))

    @property
    def made_through(self) -> int:
        """The last passage when it was computed; those up to `through` were assigned later."""
        return int(self.report.get(MADE_THROUGH, self.through))


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster in the catalogue."""

    number: int
    parent: int | None  # the cluster one level above
    level: int  # 0 = contains passages directly
    name: str
    named_by_user: bool
    terms: tuple[str, ...]
    central: tuple[int, ...]  # passage numbers
    size: int  # passages
    cohesion: float
    silhouette: float | None


class NamedCluster(NamedTuple):
    """A cluster that a filter can name, see `ClusterRow`."""

    number: int
    parent: int | None
    level: int
    name: str


@dataclass(frozen=True, slots=True)
class Members:
    """The clusters of passages at level 0."""

    ids: NDArray[np.int64]  # (n,) passage numbers, ascending
    numbers: NDArray[np.int32]  # (n,) of the clusters
    cosines: NDArray[np.float64]  # (n,) to the clusters' centres; (0,) if not requested

    def among(self, ids: NDArray[np.int64]) -> "Members":
        """The members among some passages; ids: their numbers, without duplicates."""
        there = np.isin(self.ids, ids, assume_unique=True)
        return Members(self.ids[there], self.numbers[there], self.cosines[there])


def of_live(connection: sa.Connection, collection_id: int) -> ClusteringRow | None:
    """The clustering of the collection's live generation, if it has one of its own."""
    live = sa.and_(
        generations.c.collection_id == clusterings.c.collection_id,
        generations.c.number == clusterings.c.generation,
        generations.c.state == "live",
    )
    statement = sa.select(clusterings).join(generations, live)
    row = connection.execute(statement.where(clusterings.c.collection_id == collection_id)).one_or_none()
    return None if row is None or HANDED_OVER in row.report else ClusteringRow(*row)


def names_among(connection: sa.Connection, collection_id: int, numbers: Sequence[int]) -> dict[int, str]:
    """The cluster names of those of at most a few hundred passages that are in a cluster."""
    row = of_live(connection, collection_id)
    if row is None:
        return {}
    same = sa.and_(
        clusters.c.clustering == cluster_members.c.clustering, clusters.c.number == cluster_members.c.cluster
    )
    statement = sa.select(cluster_members.c.passage, clusters.c.name).join(clusters, same)
    statement = statement.where(cluster_members.c.clustering == row.id)
    found = connection.execute(statement.where(one_of(cluster_members.c.passage, [*numbers])))
    return {number: name for number, name in found}  # noqa: C416 - rows are no pairs for mypy


def latest(connection: sa.Connection, collection_id: int) -> ClusteringRow | None:
    """The most recent clustering of any generation."""
    statement = sa.select(clusterings).where(clusterings.c.collection_id == collection_id)
    row = connection.execute(statement.order_by(clusterings.c.id.desc()).limit(1)).one_or_none()
    return None if row is None else ClusteringRow(*row)


def clusters_of(connection: sa.Connection, clustering: int) -> list[ClusterRow]:
    """The clusters of all levels, by level and descending size, then by number."""
    columns = [clusters.c[name] for name in ClusterRow.__slots__]
    statement = sa.select(*columns).where(clusters.c.clustering == clustering)
    order = (clusters.c.level, clusters.c.size.desc(), clusters.c.number)
    rows = connection.execute(statement.order_by(*order))
    found = (ClusterRow(*row) for row in rows)
    return [dataclasses.replace(row, terms=tuple(row.terms), central=tuple(row.central)) for row in found]


def named_clusters(connection: sa.Connection, clustering: int) -> list[NamedCluster]:
    """The clusters of all levels, lowest first. Fast, because every search with a cluster filter calls it."""
    columns = [clusters.c[name] for name in NamedCluster._fields]
    statement = sa.select(*columns).where(clusters.c.clustering == clustering).order_by(clusters.c.level)
    return [NamedCluster(*row) for row in connection.execute(statement)]


def count(connection: sa.Connection, clustering: int) -> int:
    """Number of clusters that contain passages directly."""
    return count_of(connection, clusters, clusters.c.clustering == clustering, clusters.c.level == 0)


def stray_members(connection: sa.Connection, collection_id: int) -> int:
    """Number of members with a passage that never existed, or a cluster that does not exist."""
    of_it = clusterings.join(cluster_members, clusterings.c.id == cluster_members.c.clustering)
    member = cluster_members.c.passage
    passage = passages.select().where(passages.c.number == member)
    removed = removed_passages.select().where(removed_passages.c.passage == member)
    own = (
        some.where(some.selected_columns.collection_id == collection_id).correlate(cluster_members).exists()
        for some in (passage, removed)
    )
    cluster = clusters.select().where(
        clusters.c.clustering == cluster_members.c.clustering, clusters.c.number == cluster_members.c.cluster
    )
    sound = sa.and_(sa.or_(*own), cluster.correlate(cluster_members).exists())
    return count_of(connection, of_it, clusterings.c.collection_id == collection_id, ~sound)


def leave_removed(connection: sa.Connection, collection_id: int) -> None:
    """Delete removed passages from the clusters of all generations of a collection."""
    own = sa.select(clusterings.c.id).where(clusterings.c.collection_id == collection_id)
    gone = sa.select(removed_passages.c.passage).where(removed_passages.c.collection_id == collection_id)
    connection.execute(
        cluster_members.delete().where(
            cluster_members.c.clustering.in_(own), cluster_members.c.passage.in_(gone)
        )
    )


def members(connection: sa.Connection, clustering: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The passages in clusters, ascending, (n,), and their clusters, (n,), including removed passages."""
    columns = (cluster_members.c.passage, cluster_members.c.cluster)
    statement = sa.select(*columns).where(cluster_members.c.clustering == clustering)
    ids, numbers = number_lists(connection, statement)
    if (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids)
        ids, numbers = ids[order], numbers[order]
    return ids, numbers.astype(np.int32)


def replace(
    connection: sa.Connection,
    values: Mapping[str, Any],
    rows: Sequence[ClusterRow],
    who: Members,
) -> int:
    """Replace a generation's clustering in the current transaction. Returns its id.

    values: the columns of `clusterings` except `id`
    """
    leave_clustering(connection, values["collection_id"], values["generation"])
    made = clusterings.insert().values(**values).returning(clusterings.c.id)
    id_ = int(connection.execute(made).scalar_one())
    table = [
        {name: getattr(row, name) for name in ClusterRow.__slots__}
        | {"clustering": id_, "terms": list(row.terms), "central": list(row.central)}
        for row in rows
    ]
    if table:
        connection.execute(clusters.insert(), table)
    add_members(connection, id_, who)
    return id_


def add_members(connection: sa.Connection, clustering: int, who: Members) -> None:
    """Insert passages into clusters."""
    for begin in range(0, who.ids.size, _ROWS):
        some = slice(begin, begin + _ROWS)
        ids, numbers, cosines = who.ids[some], who.numbers[some], who.cosines[some]
        columns = {
            "clustering": [clustering] * ids.size,
            "passage": ids.tolist(),
            "cluster": numbers.tolist(),
            "cosine": cosines.tolist(),
        }
        insert_columns(connection, cluster_members, columns)


def rename(connection: sa.Connection, clustering: int, number: int, name: str) -> bool:
    """Set a user's name for a cluster. False if there is no such cluster."""
    where = (clusters.c.clustering == clustering) & (clusters.c.number == number)
    values = {"name": name, "named_by_user": True}
    return connection.execute(clusters.update().where(where).values(values)).rowcount == 1


def take_cluster_numbers(connection: sa.Connection, collection_id: int, count: int) -> int:
    """Reserve this many cluster numbers. Returns the first. No number is used twice in a collection."""
    statement = (
        collections.update()
        .where(collections.c.id == collection_id)
        .values(next_cluster=collections.c.next_cluster + count)
        .returning(collections.c.next_cluster)
    )
    return int(connection.execute(statement).scalar_one()) - count
