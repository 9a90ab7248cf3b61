"""How many clusters there are, where nobody says."""

import numpy as np

from nearsay.indexer.clusters.graph_communities import Distinct, graph_communities
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["CRITERION", "chosen_number"]

CRITERION = "the communities of the neighbour graph of a sample"
_SAMPLE = 20_000


def chosen_number(given: Distinct, neighbours: int, *, listener: ProgressListener = unheard) -> int:
    """As many clusters as the neighbour graph of up to 20,000 of the vectors has communities.

    Silhouette (rising to the largest number tried) and Calinski-Harabasz (a third of the labels' number, or
    the largest tried) were measured beside it and chose badly; see tests/benchmarks/LOG.md.
    """
    count = min(len(given), _SAMPLE)
    if count == len(given):
        sample = given
    else:  # the first in the content's order are a random sample
        rows = given.points.rows(np.arange(count))
        places = np.arange(count, dtype=np.int64)
        sample = Distinct(Points.from_array(places, rows), given.counts[:count], places)
    return int(graph_communities(sample, neighbours, listener=listener).labels.max(initial=-1)) + 1
