"""Communities by a threshold: a central passage and all within a cosine similarity of it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.clusters.content_order import Distinct
from nearsay.indexer.clusters.scores import nearest_centre
from nearsay.indexer.duplicates.closest import MOST_PAIRS, TooManyPairsError
from nearsay.indexer.duplicates.closest_pairs import closest_pairs
from nearsay.indexer.neighbours.graph import EXACT_UP_TO, neighbour_graph
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.progress import Progress, ProgressListener, unheard

__all__ = ["LEAST_SIZE", "THRESHOLD", "threshold_communities"]

THRESHOLD = 0.75  # both are sentence-transformers' defaults
LEAST_SIZE = 10
_QUERIES = 1024
_ROWS = 8192  # rows multiplied at a time: with the queries above 32 MB of products
_CANDIDATES = 256  # possible centres looked at together
_NEIGHBOURS = 50
_SAMPLE = 256  # vectors whose neighbourhoods say how many pairs there are
_LISTED = 1 / 200  # of all pairs: listing more takes longer than multiplying all twice, and more memory


def threshold_communities(
    given: Distinct,
    threshold: float = THRESHOLD,
    least_size: int = LEAST_SIZE,
    *,
    exact: bool | None = None,
    listener: ProgressListener = unheard,
) -> NDArray[np.int32]:
    """The community (m,) of each vector, the largest first, -1 where it is in none.

    The largest neighbourhood becomes a community; what is in one is taken out of the others; those that
    still have `least_size` passages become communities too. The same as sentence-transformers'
    `util.community_detection` gives for the passages in the content's order (whose order decides between
    neighbourhoods of the same size). Where few pairs are within the threshold, five million at
    most, they are listed; else they are looked for twice, in memory that does not grow with them.

    exact: False looks for neighbourhoods among the 50 nearest and those whose 50 nearest they are: a
    community of more than that can come in several, and what is then left over joins the nearest centre
    within the threshold. None: exact up to 200,000 different vectors.
    """
    if exact is None:
        exact = len(given) <= EXACT_UP_TO
    if not exact:
        return _through_graph(given, threshold, least_size, listener)
    if _are_few(given, threshold):
        with contextlib.suppress(TooManyPairsError):  # the sample said that there were fewer
            pairs = closest_pairs(given.points, threshold=threshold, exact=True, listener=listener)
            return _taken_in_turn(given, _both_ways(len(given), pairs.first, pairs.second), least_size)[0]
    sizes = _neighbourhood_sizes(given, threshold, listener)
    return _communities(given, threshold, least_size, sizes, listener)


def _are_few(given: Distinct, threshold: float) -> bool:
    """Whether so few pairs are within the threshold that they are listed, told from the first vectors."""
    count = len(given)
    queries = given.points.rows(np.arange(min(_SAMPLE, count)))
    within = sum(np.count_nonzero(queries @ rows.T >= threshold) for _, rows in given.points.blocks(_ROWS))
    of_all = (within - len(queries)) / max(1, len(queries) * (count - 1))
    return of_all <= min(_LISTED, MOST_PAIRS / max(1, count * (count - 1) / 2))


def _neighbourhood_sizes(given: Distinct, threshold: float, listener: ProgressListener) -> NDArray[np.int64]:
    """How many passages (m,) lie within the threshold of each vector, itself among them."""
    sizes = np.zeros(len(given), dtype=np.int64)
    counts = given.counts.astype(np.float32) if len(given) < 2**24 else given.counts
    for begin, queries in given.points.blocks(_QUERIES):
        for row, rows in given.points.blocks(_ROWS):
            within = queries @ rows.T >= threshold
            sizes[begin : begin + len(queries)] += (
                np.count_nonzero(within, axis=1)
                if int(given.counts.max()) == 1
                else (within @ counts[row : row + len(rows)]).astype(np.int64)
            )
        listener(Progress(begin + len(queries), len(given), "counting neighbours", "passages"))
    return sizes


def _communities(
    given: Distinct,
    threshold: float,
    least_size: int,
    sizes: NDArray[np.int64],
    listener: ProgressListener,
) -> NDArray[np.int32]:
    labels = np.full(len(given), -1, dtype=np.int32)
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] >= least_size]
    found = 0
    for looked_at, centre, members in _neighbourhoods(given.points, order, labels, threshold):
        free = members[labels[members] < 0]
        if int(given.counts[free].sum()) >= least_size:
            labels[free] = found
            labels[centre] = found
            found += 1
        listener(Progress(looked_at, order.size, "choosing communities", "neighbourhoods"))
    return labels


def _neighbourhoods(
    points: Points, order: NDArray[np.int64], labels: NDArray[np.int32], threshold: float
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """How far we are, the next centre that is in no community, and the places within the threshold of it."""
    at = 0
    while at < order.size:
        ahead = order[at:]
        free = np.flatnonzero(labels[ahead] < 0)[:_CANDIDATES]
        if not free.size:
            return
        centres = ahead[free]
        queries = points.rows(centres)
        within = np.concatenate([queries @ rows.T >= threshold for _, rows in points.blocks(_ROWS)], axis=1)
        for centre, row in zip(centres, within, strict=True):
            if labels[centre] < 0:
                yield at, int(centre), np.flatnonzero(row)
        at += int(free[-1]) + 1


def _through_graph(
    given: Distinct, threshold: float, least_size: int, listener: ProgressListener
) -> NDArray[np.int32]:
    graph = neighbour_graph(given.points, _NEIGHBOURS, listener=listener)
    near = (graph.neighbours >= 0) & (graph.cosines >= threshold)
    rows = np.repeat(np.arange(len(given), dtype=np.int32), near.sum(axis=1))
    both = _both_ways(len(given), rows, graph.neighbours[near])
    labels, centres = _taken_in_turn(given, both, least_size)
    if centres:
        middles = given.points.rows(np.array(centres))
        left = np.flatnonzero(labels < 0)
        for begin in range(0, left.size, _ROWS):
            some = left[begin : begin + _ROWS]
            nearest, cosines = nearest_centre(Points.from_array(some, given.points.rows(some)), middles)
            labels[some] = np.where(cosines >= threshold, nearest, -1)
            listener(Progress(begin + some.size, left.size, "assigning to communities", "passages"))
    return labels


def _both_ways(count: int, first: NDArray[Any], second: NDArray[Any]) -> Any:  # noqa: ANN401 - scipy has no types
    """Pairs as a symmetric sparse matrix (n, n) of booleans, each with itself among them."""
    from scipy import sparse

    there = np.ones(first.size, dtype=np.bool_)
    one_way = sparse.csr_array((there, (first, second)), shape=(count, count))
    return (one_way + one_way.T + sparse.eye_array(count, dtype=np.bool_, format="csr")).tocsr()


def _taken_in_turn(
    given: Distinct,
    near: Any,  # noqa: ANN401 - scipy has no types
    least_size: int,
) -> tuple[NDArray[np.int32], list[int]]:
    """The community of each vector, and their centres; near: a row of neighbours for each."""
    sizes = near.astype(np.int64) @ given.counts
    labels = np.full(len(given), -1, dtype=np.int32)
    centres: list[int] = []
    for place in np.argsort(-sizes, kind="stable"):
        if sizes[place] < least_size:
            break
        if labels[place] >= 0:
            continue
        members = near.indices[near.indptr[place] : near.indptr[place + 1]]
        free = members[labels[members] < 0]
        if int(given.counts[free].sum()) >= least_size:
            labels[free] = len(centres)
            centres.append(int(place))
    return labels, centres
