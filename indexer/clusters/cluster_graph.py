"""The neighbour graph as clustering needs it: exact for small sets, soon enough for large ones."""

from nearsay.indexer.neighbours.graph import NeighbourGraph, neighbour_graph
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.plans.engine import faiss_is_installed
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["EXACT_UP_TO", "cluster_graph"]

# Different vectors. All products of 117,000 take a minute or more where lists take a fraction, and a graph
# with .96 of the true neighbours costs the communities less than .01 of V-measure.
EXACT_UP_TO = 50_000


def cluster_graph(points: Points, neighbours: int, *, listener: ProgressListener = unheard) -> NeighbourGraph:
    """Each vector's neighbours: all of the nearest, beyond 50,000 vectors .95 of them or more.

    Without FAISS exact up to 200,000; MissingExtraError beyond.
    """
    exact = False if len(points) > EXACT_UP_TO and faiss_is_installed() else None
    return neighbour_graph(points, neighbours, exact=exact, listener=listener)
