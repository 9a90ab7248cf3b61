"""What a filter asks of clusters, as SQL over the rows that say which passage is in which."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue.tables import cluster_members, documents, passages
from nearsay.indexer.filters.comparison import Condition, among
from nearsay.indexer.filters.declared import unindexed
from nearsay.indexer.filters.expression import InClusters, Kind

__all__ = ["documents_in_clusters", "in_clusters", "passages_in_clusters"]


def in_clusters(leaf: InClusters, dialect: str, passage: ColumnElement[int] | None) -> Condition:
    """Whether a passage is in one of the clusters; without it, whether a passage of the document is."""
    if leaf.numbers == ():
        return sa.false()
    if passage is not None:
        return _of_passage(leaf, dialect, passage)
    own = passages.alias("asked_passages")
    here = sa.select(sa.literal(1)).where(
        own.c.collection_id == documents.c.collection_id,
        own.c.document == documents.c.number,
        _of_passage(leaf, dialect, own.c.number),
    )
    return sa.exists(here.correlate_except(own))


def _of_passage(leaf: InClusters, dialect: str, passage: ColumnElement[int]) -> Condition:
    members = cluster_members.alias("asked_members")
    here = sa.select(sa.literal(1)).where(
        members.c.clustering == leaf.clustering, members.c.passage == passage
    )
    if leaf.numbers is not None:
        # SQLite would rather walk whole clusters than look up the one passage: `+` keeps it from that.
        cluster = unindexed(members.c.cluster) if dialect == "sqlite" else members.c.cluster
        here = here.where(_one_of(leaf.numbers, cluster, dialect))
    return sa.exists(here.correlate_except(members))


def passages_in_clusters(leaf: InClusters, dialect: str) -> sa.Select[tuple[int]]:
    """The numbers of the passages in the clusters, removed ones among them."""
    found = sa.select(cluster_members.c.passage).where(cluster_members.c.clustering == leaf.clustering)
    if leaf.numbers is None:
        return found
    return found.where(_one_of(leaf.numbers, cluster_members.c.cluster, dialect))


def documents_in_clusters(leaf: InClusters, collection_id: int, dialect: str) -> sa.Select[tuple[int]]:
    """The numbers of the documents that have a passage in the clusters, some of them twice."""
    inside = passages.c.number.in_(passages_in_clusters(leaf, dialect))
    return sa.select(passages.c.document).where(passages.c.collection_id == collection_id, inside)


def _one_of(numbers: tuple[int, ...], cluster: ColumnElement[int], dialect: str) -> Condition:
    if dialect == "sqlite":
        return among(numbers, Kind.NUMBER, dialect).holds(cluster)
    # PostgreSQL compares with decimals by converting the column: then its index would not serve.
    return cluster == sa.any_(sa.cast(list(numbers), ARRAY(sa.Integer)))
