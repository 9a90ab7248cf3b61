"""A collection's clusters, as they are shown, exported and asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue.clusterings import Members
from nearsay.indexer.clusters.matching import Movement

__all__ = ["CentralPassage", "Cluster", "Clustering"]


@dataclass(frozen=True, slots=True)
class CentralPassage:
    """One of the passages nearest to a cluster's centre."""

    number: int
    id: str  # its document's
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Passages that say like things."""

    number: int  # kept from clustering to clustering
    name: str
    named_by_user: bool
    terms: tuple[str, ...]  # that tell it from the others, best first
    central: tuple[CentralPassage, ...]  # the most central passages, no two of them alike
    size: int  # passages that are there
    cohesion: float  # mean cosine to its centre
    silhouette: float | None  # between -1 and 1, by centres; None where there is no other cluster
    parent: int | None  # the cluster of the level above
    level: int  # 0: holds passages itself; 1…: holds clusters

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        row = {name: getattr(self, name) for name in ("number", "name", "named_by_user", "size", "cohesion")}
        row |= {"silhouette": self.silhouette, "parent": self.parent, "level": self.level}
        row["terms"] = list(self.terms)
        row["central"] = [{"id": one.id, "title": one.title, "text": one.text} for one in self.central]
        return row


@dataclass(frozen=True, slots=True)
class Clustering:
    """The clusters of a collection's live generation."""

    collection: str
    generation: int
    method: str
    parameters: Mapping[str, JsonValue]  # what was used, and chosen by which criterion
    clusters: tuple[Cluster, ...]  # by level and falling size
    passages: int  # that were looked at and are still there
    outliers: int  # of these, those in no cluster
    newer: int  # passages that came since: in no cluster yet
    movement: Movement | None  # what became of the clusters before; None: there were none
    created_at: str
    saved: bool
    members: Members = field(repr=False, compare=False)  # of level 0
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without the clusters."""
        return {
            "collection": self.collection,
            "generation": self.generation,
            "method": self.method,
            "parameters": dict(self.parameters),
            "clusters": sum(1 for each in self.clusters if each.level == 0),
            "passages": self.passages,
            "outliers": self.outliers,
            "newer": self.newer,
            "movement": None if self.movement is None else self.movement.to_json(),
            "created_at": self.created_at,
            "saved": self.saved,
        }
