"""Points parted into clusters, whichever the method; nothing is read or saved here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.indexer.clusters import graph_communities
from nearsay.indexer.clusters.choice_of_k import CRITERION, chosen_number
from nearsay.indexer.clusters.content_order import Distinct, distinct
from nearsay.indexer.clusters.hierarchy import levels_above
from nearsay.indexer.clusters.kmeans import kmeans
from nearsay.indexer.clusters.options import ClusterMethod, ClusterOptions
from nearsay.indexer.clusters.scores import centres, nearest_centre
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["SEED", "ClusterMethod", "ClusterOptions", "Partition", "partition"]

SEED = 20190827
_CALLER = "the caller"


@dataclass(frozen=True, slots=True)
class Partition:
    """Which cluster each of the points is in."""

    # (n,) by place; 0, 1, … by falling size, ties in an order that the content decides; -1 = outlier
    labels: NDArray[np.int32]
    # The levels above, the lowest first: parents[0][c] is the number of cluster c's parent among the clusters
    # of level 1, parents[1][p] that of p's among those of level 2; numbered like the labels. Empty: none.
    parents: tuple[NDArray[np.int32], ...]
    method: ClusterMethod
    parameters: Mapping[str, JsonValue]  # what was used, and chosen by which criterion

    @property
    def clusters(self) -> int:
        """How many there are at the lowest level."""
        return int(self.labels.max(initial=-1)) + 1


def partition(
    points: Points,
    options: ClusterOptions | None = None,
    *,
    seed: int = SEED,
    listener: ProgressListener = unheard,
) -> Partition:
    """Find clusters; the same points give the same clusters whatever their order, and copies share theirs.

    options: None = the defaults. Holds the different vectors in memory, and a second time in lists while the
    neighbours of more than 50,000 are looked for: 2.9 GB in all for 300,000 of 384 dimensions, those of the
    mapped file among them.
    """
    options = options or ClusterOptions()
    usual = 1
    if options.method is ClusterMethod.GRAPH:
        usual = graph_communities.usual_least_size(len(points))
    least_size = options.least_size or usual
    options = replace(options, least_size=least_size)
    if not len(points):
        return Partition(np.zeros(0, dtype=np.int32), (), options.method, {})
    given = distinct(points, seed)
    found, how = _find(given, options, least_size, seed, listener)
    labels = _numbered(found, given, least_size)
    outliers = int(given.counts[labels < 0].sum())
    if options.assign_outliers and outliers and labels.max(initial=-1) >= 0:
        nearest, _ = nearest_centre(
            given.points, centres(given.points, labels, given.counts), listener=listener
        )
        labels = _numbered(np.where(labels < 0, nearest, labels), given, 1)
    sizes = np.bincount(labels[labels >= 0], weights=given.counts[labels >= 0]).astype(np.int64)
    parents = levels_above(centres(given.points, labels, given.counts), sizes)
    used: dict[str, JsonValue] = {
        **how,
        "clusters": int(labels.max(initial=-1)) + 1,
        "least_size": least_size,
        "assigned_outliers": outliers if options.assign_outliers else 0,
        "seed": seed,
    }
    return Partition(labels[given.back], parents, options.method, used)


def _find(
    given: Distinct, options: ClusterOptions, least_size: int, seed: int, listener: ProgressListener
) -> tuple[NDArray[np.int32], dict[str, JsonValue]]:
    """Labels of the different vectors, (m,), and what they were found with."""
    neighbours = options.neighbours
    if options.method is ClusterMethod.GRAPH:
        labels, resolution, recall = graph_communities.graph_communities(
            given, neighbours, options.resolution, least_size=least_size, listener=listener
        )
        chosen = graph_communities.CRITERION if options.resolution is None else _CALLER
        how: dict[str, JsonValue] = {"neighbours": neighbours, "neighbour_recall": recall}
        return labels, {**how, "resolution": resolution, "chosen_by": chosen}
    wanted, how = _number(given, options, listener)
    return kmeans(given, wanted, seed, listener=listener).labels, how


def _number(
    given: Distinct, options: ClusterOptions, listener: ProgressListener
) -> tuple[int, dict[str, JsonValue]]:
    """How many clusters are wanted, and what says so."""
    if options.clusters is not None:
        return options.clusters, {"chosen_by": _CALLER}
    return chosen_number(given, options.neighbours, listener=listener), {"chosen_by": CRITERION}


def _numbered(labels: NDArray[np.int32], given: Distinct, least_size: int) -> NDArray[np.int32]:
    """The same clusters by falling size, ties by their old numbers; smaller ones are outliers."""
    used, of_used = np.unique(labels, return_inverse=True)
    sizes = np.bincount(of_used, weights=given.counts)
    kept = (used >= 0) & (sizes >= least_size)
    order = np.lexsort((used, -sizes, ~kept))
    number = np.full(used.size, -1, dtype=np.int32)
    number[order[: int(kept.sum())]] = np.arange(int(kept.sum()))
    return number[of_used]
