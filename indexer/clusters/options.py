"""How clusters are to be found."""

from dataclasses import dataclass
from enum import StrEnum

from nearsay.data.errors import BadInputError

__all__ = ["ClusterMethod", "ClusterOptions", "Linkage"]

_ONLY = {
    "clusters": ("kmeans", "agglomerative"),
    "threshold": ("communities", "agglomerative"),
    "resolution": ("graph",),
}


class ClusterMethod(StrEnum):
    """The ways to find clusters."""

    GRAPH = "graph"  # communities of the neighbour graph, by modularity; nothing needs to be chosen
    KMEANS = "kmeans"  # so many round clusters; every passage is in one
    DENSITY = "density"  # HDBSCAN on the neighbour graph; what lies alone is an outlier
    COMMUNITIES = "communities"  # passages within a cosine of a central one; the rest are outliers
    AGGLOMERATIVE = "agglomerative"  # merged pair by pair, for up to some 20,000 passages


class Linkage(StrEnum):
    """What two clusters' distance is when clusters are merged pair by pair."""

    WARD = "ward"  # how much a merge widens them: clusters of like size
    AVERAGE = "average"  # the mean distance of their passages
    COMPLETE = "complete"  # the largest


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How clusters are to be found; None = the method's own, chosen or default."""

    method: ClusterMethod = ClusterMethod.GRAPH
    clusters: int | None = None  # how many (kmeans, agglomerative); None: chosen by a criterion
    threshold: float | None = None  # cosine that holds a cluster together (communities, agglomerative)
    resolution: float | None = None  # of modularity (graph): higher: more, smaller clusters; None: chosen
    # Passages; those of a smaller cluster are outliers. None: 5, of fewer than 50 passages a tenth but at
    # least 2 (graph), 10 (density, communities), else 1
    least_size: int | None = None
    neighbours: int = 15  # of each passage in the neighbour graph (graph, density)
    linkage: Linkage = Linkage.WARD  # agglomerative
    assign_outliers: bool = False  # put each outlier into the cluster whose centre is nearest

    def __post_init__(self) -> None:
        """BadInputError for what no method can use; names are converted."""
        for name, choices in (("method", ClusterMethod), ("linkage", Linkage)):
            if getattr(self, name) not in list(choices):
                raise BadInputError(
                    f"{name} = {getattr(self, name)!r} is none of {', '.join(choices)}. Give one of them"
                )
            object.__setattr__(self, name, choices(getattr(self, name)))
        for name, methods in _ONLY.items():
            if getattr(self, name) is not None and self.method not in methods:
                raise BadInputError(
                    f"{name} = {getattr(self, name)} means nothing to the method {self.method}. "
                    f"Leave it out, or take the method {' or '.join(methods)}"
                )
        if self.clusters is not None and self.clusters < 1:
            raise BadInputError(f"clusters = {self.clusters}, but there is at least 1. Give a number from 1")
        if self.threshold is not None and not -1 < self.threshold <= 1:
            raise BadInputError(
                f"threshold = {self.threshold} is no cosine similarity. Give a number between -1 and 1"
            )
        if self.clusters is not None and self.threshold is not None:
            raise BadInputError(
                f"clusters = {self.clusters} and threshold = {self.threshold} both say where to "
                "stop merging. Give one of them"
            )
        if self.resolution is not None and not 0 < self.resolution <= 1000:
            raise BadInputError(f"resolution = {self.resolution}. Give a number over 0, up to 1000")
        if self.least_size is not None and self.least_size < 1:
            raise BadInputError(f"least_size = {self.least_size}. Give a number of passages from 1")
        if not 2 <= self.neighbours <= 100:
            raise BadInputError(f"neighbours = {self.neighbours}. Give a number from 2 to 100")
