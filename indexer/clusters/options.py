"""How clusters are to be found."""

from dataclasses import dataclass
from enum import StrEnum

from nearsay.data.errors import BadInputError

__all__ = ["ClusterMethod", "ClusterOptions"]

_ONLY = {"clusters": "kmeans", "resolution": "graph"}


class ClusterMethod(StrEnum):
    """The ways to find clusters."""

    GRAPH = "graph"  # communities of the neighbour graph, by modularity; nothing needs to be chosen
    KMEANS = "kmeans"  # so many round clusters; every passage is in one


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How clusters are to be found; None = the method's own, chosen or default."""

    method: ClusterMethod = ClusterMethod.GRAPH
    clusters: int | None = None  # how many (kmeans); None: chosen by a criterion
    resolution: float | None = None  # of modularity (graph): higher: more, smaller clusters; None: chosen
    # Passages; those of a smaller cluster are outliers. None: 5, of fewer than 50 passages a tenth but at
    # least 2 (graph), else 1
    least_size: int | None = None
    neighbours: int = 15  # of each passage in the neighbour graph
    assign_outliers: bool = False  # put each outlier into the cluster whose centre is nearest

    def __post_init__(self) -> None:
        """BadInputError for what no method can use; names are converted."""
        if self.method not in list(ClusterMethod):
            raise BadInputError(
                f"method = {self.method!r} is none of {', '.join(ClusterMethod)}. Give one of them"
            )
        object.__setattr__(self, "method", ClusterMethod(self.method))
        for name, method in _ONLY.items():
            if getattr(self, name) is not None and self.method != method:
                raise BadInputError(
                    f"{name} = {getattr(self, name)} means nothing to the method {self.method}. "
                    f"Leave it out, or take the method {method}"
                )
        if self.clusters is not None and self.clusters < 1:
            raise BadInputError(f"clusters = {self.clusters}, but there is at least 1. Give a number from 1")
        if self.resolution is not None and not 0 < self.resolution <= 1000:
            raise BadInputError(f"resolution = {self.resolution}. Give a number over 0, up to 1000")
        if self.least_size is not None and self.least_size < 1:
            raise BadInputError(f"least_size = {self.least_size}. Give a number of passages from 1")
        if not 2 <= self.neighbours <= 100:
            raise BadInputError(f"neighbours = {self.neighbours}. Give a number from 2 to 100")
