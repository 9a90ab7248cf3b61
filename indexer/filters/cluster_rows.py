"""What a filter asks of clusters, as SQL over the rows that say which passage is in which."""

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from nearsay.indexer.catalogue.tables import cluster_members, documents, passages
from nearsay.indexer.filters.comparison import Condition, among
from nearsay.indexer.filters.expression import InClusters, Kind

__all__ = ["documents_in_clusters", "in_clusters", "passages_in_clusters"]


def in_clusters(leaf: InClusters, dialect: str, passage: ColumnElement[int] | None) -> Condition:
    """Whether a passage is in one of the clusters; without it, whether a passage of the document is."""
    if leaf.numbers == ():
        return sa.false()
    members = cluster_members.alias("asked_members")
    chosen = _chosen(leaf, members, dialect)
    if passage is not None:
        here = sa.select(sa.literal(1)).where(chosen, members.c.passage == passage)
        return sa.exists(here.correlate_except(members))
    own = passages.alias("asked_passages")
    here = sa.select(sa.literal(1)).where(
        own.c.collection_id == documents.c.collection_id,
        own.c.document == documents.c.number,
        members.c.passage == own.c.number,
        chosen,
    )
    return sa.exists(here.correlate_except(members, own))


def passages_in_clusters(leaf: InClusters, dialect: str) -> sa.Select[tuple[int]]:
    """The numbers of the passages in the clusters, removed ones among them."""
    return sa.select(cluster_members.c.passage).where(_chosen(leaf, cluster_members, dialect))


def documents_in_clusters(leaf: InClusters, collection_id: int, dialect: str) -> sa.Select[tuple[int]]:
    """The numbers of the documents that have a passage in the clusters, some of them twice."""
    inside = passages.c.number.in_(passages_in_clusters(leaf, dialect))
    return sa.select(passages.c.document).where(passages.c.collection_id == collection_id, inside)


def _chosen(leaf: InClusters, members: sa.FromClause, dialect: str) -> Condition:
    of_it = members.c.clustering == leaf.clustering
    if leaf.numbers is None:
        return of_it
    return sa.and_(of_it, among(leaf.numbers, Kind.NUMBER, dialect).holds(members.c.cluster))
