"""Two-dimensional layout of a weighted graph, as in UMAP.

McInnes, Healy & Melville 2018, section 4.2 and algorithm 5, https://arxiv.org/abs/1802.03426: neighbours
attract each other with a frequency given by their edge's weight, and at each attraction the moved point is
repelled by five random points. umap-learn moves one pair at a time in compiled code; here numpy moves many
pairs at once, which preserves neighbours as well, needs no compiler, and can be interrupted.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SIDE = 10.0  # of the square of an initial layout, as in umap-learn
_BLOCK = 8192


def main_directions(vectors: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """The two principal components of the vectors, scaled into a square; signs are fixed.

    vectors: (n, d)
    returns: (n, 2)

    As good an initialization as the spectrum of the graph (Kobak & Linderman 2021,
    https://doi.org/10.1038/s41587-020-00809-z), and robust to disconnected components. A little noise
    separates coinciding points.
    """
    generator = np.random.default_rng(seed)
    dimension = vectors.shape[1]
    mean = vectors.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((dimension, dimension))
    for begin in range(0, len(vectors), _BLOCK):
        centred = vectors[begin : begin + _BLOCK] - mean
        scatter += centred.T @ centred
    axes = np.linalg.eigh(scatter)[1][:, ::-1][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0.0, -1.0, 1.0)
    places = np.zeros((len(vectors), 2))
    places[:, : axes.shape[1]] = (vectors - mean) @ axes
    spread = np.ptp(places, axis=0)
    places = SIDE * (places - places.min(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    noisy: NDArray[np.float32] = (places + generator.normal(scale=1e-4, size=places.shape)).astype(np.float32)
    return noisy


def begun_from(
    known: NDArray[np.bool_],
    places: NDArray[np.float32],
    neighbours: NDArray[np.int32],
    weights: NDArray[np.float64],
    seed: int,
) -> NDArray[np.float32]:
    """Initialize from an older map; new points start at the weighted mean of their neighbours there.

    known: (n,) whether the older map has the point
    places: (n, 2), arbitrary for other points
    neighbours, weights: (n, k), -1 = none

    Points whose neighbours are all new are placed in later rounds; points not connected to known ones start
    in the middle.
    """
    found, have = places.astype(np.float64), known.copy()
    found[~have] = found[have].mean(axis=0)
    while not have.all():
        missing = np.flatnonzero(~have)
        near = neighbours[missing]
        weight = weights[missing] * (near >= 0) * have[near]
        total = weight.sum(axis=1)
        reached = total > 0.0
        if not reached.any():
            break
        mean = np.einsum("nk,nkd->nd", weight[reached], found[near[reached]]) / total[reached, None]
        found[missing[reached]] = mean
        have[missing[reached]] = True
    noise = np.random.default_rng(seed).normal(scale=1e-3, size=found.shape)
    noise[known] = 0.0
    begun: NDArray[np.float32] = (found + noise).astype(np.float32)
    return begun


def aligned(
    places: NDArray[np.float32], shared: NDArray[np.intp], older: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Translate, rotate and reflect a map so that the shared points are closest to their old places.

    places: (n, 2)
    shared: (m,) rows of `places` that the older map has
    older:  (m, 2) their places there

    Minimizes the squared distances (orthogonal Procrustes: Schönemann 1966,
    https://doi.org/10.1007/BF02289451). The scale is fixed: least squares would shrink a map that has little
    in common with the old one, and points projected later move by steps of a layout's scale. With fewer than
    two distinct shared points the map is only translated.
    """
    from scipy.linalg import orthogonal_procrustes

    if not shared.size:
        return places
    here, there = places[shared].astype(np.float64), older.astype(np.float64)
    middle, old_middle = here.mean(axis=0), there.mean(axis=0)
    here, there = here - middle, there - old_middle
    if not here.any() or not there.any():
        shifted: NDArray[np.float32] = (places - middle + old_middle).astype(np.float32)
        return shifted
    moved = (places - middle) @ orthogonal_procrustes(here, there)[0] + old_middle
    narrow: NDArray[np.float32] = moved.astype(np.float32)
    return narrow


def levelled(places: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rotate a map (n, 2) so that its greatest variance is horizontal, and centre it at zero."""
    centred = places.astype(np.float64) - places.mean(axis=0, dtype=np.float64)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(2)] < 0.0, -1.0, 1.0)
    narrow: NDArray[np.float32] = (centred @ axes).astype(np.float32)
    return narrow


def mean_shift(places: NDArray[np.float32], older: NDArray[np.float32]) -> float:
    """The mean distance of points from their old places, in units of the older map's spread.

    Both (n, 2). The spread is the root mean square distance from the mean; unrelated maps are about 1.3
    apart.
    """
    middle = older.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(((older - middle) ** 2).sum(axis=1).mean()))
    distances = np.linalg.norm(places.astype(np.float64) - older, axis=1)
    return float(distances.mean()) / spread if spread else 0.0


CURVE = (1.5769434603, 0.8950608779)  # a and b of 1 / (1 + a d^2b), fitted to min_dist .1 and spread 1
_PUSHES = 5  # repulsions for each attraction
_LARGEST_STEP = 4.0  # in each direction, before it is multiplied by the round's learning rate
_TOGETHER = 16_384  # most pairs that move at once: they fit into the processor's cache
_LEAST_TOGETHER = 128
_OFF = 0.001  # keeps repulsion finite
_MANY = 10_000  # points up to which there are 500 rounds, as in umap-learn


def rounds_for(points: int) -> int:
    """The number of rounds for a layout of this many points."""
    return 500 if points <= _MANY else 200


@dataclass(slots=True)
class _Edges:
    """The graph's edges in a random order, and the round in which each is next due."""

    head: NDArray[np.intp]
    tail: NDArray[np.intp]
    period: NDArray[np.float32]  # rounds between two attractions
    due: NDArray[np.float32]

    @classmethod
    def of(cls, graph: "csr_matrix", rounds: int, generator: np.random.Generator) -> "_Edges":
        """Edges with weights too low to be due in any round are omitted."""
        edges = graph.tocoo()
        heaviest = float(edges.data.max(initial=0.0))
        kept = np.flatnonzero(edges.data >= heaviest / rounds)
        kept = generator.permutation(kept)
        period = (heaviest / edges.data[kept]).astype(np.float32)
        return cls(edges.row[kept].astype(np.intp), edges.col[kept].astype(np.intp), period, period.copy())

    def due_in(self, number: int) -> NDArray[np.intp]:
        """The edges due in a round, 1…; their next round is set."""
        now = np.flatnonzero(self.due <= number)
        self.due[now] += self.period[now]
        return now


def settled(
    graph: "csr_matrix",
    start: NDArray[np.float32],
    *,
    rounds: int,
    seed: int,
    first_share: float = 1.0,
    fixed: int = 0,
    listener: ProgressListener = unheard,
) -> NDArray[np.float32]:
    """Optimize a layout: move neighbours together and other points apart.

    graph:       (n, n) symmetric weights
    start:       (n, 2)
    first_share: learning rate of the first round, from which it falls to 0; below 1 stays nearer to the start
    fixed:       number of leading points that do not move; only they repel the others
    returns:     (n, 2)
    """
    generator = np.random.default_rng(seed)
    edges = _Edges.of(graph, rounds, generator)
    x, y = start[:, 0].astype(np.float32).copy(), start[:, 1].astype(np.float32).copy()
    together = int(np.clip(x.size // 3, _LEAST_TOGETHER, _TOGETHER))
    for number in range(rounds):
        share = np.float32(first_share * (1.0 - number / rounds))
        due = edges.due_in(number + 1)
        for begin in range(0, due.size, together):
            some = due[begin : begin + together]
            _move(x, y, edges.head[some], edges.tail[some], share, generator, fixed)
        listener(Progress(number + 1, rounds, "laying out", "rounds"))
    return np.stack([x, y], axis=1)


def _move(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    head: NDArray[np.intp],
    tail: NDArray[np.intp],
    share: np.float32,
    generator: np.random.Generator,
    fixed: int,
) -> None:
    """Attract the ends of some edges, and repel their heads from random points.

    If some points are fixed, every head is free and every tail is fixed.
    """
    head_x, head_y = x[head], y[head]
    pull_x, pull_y = _pull(head_x - x[tail], head_y - y[tail])
    drawn = generator.integers(0, fixed or x.size, (_PUSHES, head.size), dtype=np.int32)
    push_x, push_y = _push(head_x - x[drawn], head_y - y[drawn])
    for at, pull, push in ((x, pull_x, push_x), (y, pull_y, push_y)):
        np.add.at(at, head, share * (pull + push.sum(axis=0)))
        if not fixed:
            np.add.at(at, tail, -share * pull)


def _pull(
    along_x: NDArray[np.float32], along_y: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The step of the first of two points towards the second; along: from the second to the first.

    -2ab d^(2b-2) / (1 + a d^2b) times the difference: the gradient of log 1 / (1 + a d^2b).
    """
    a, b = np.float32(CURVE[0]), np.float32(CURVE[1])
    square = along_x * along_x + along_y * along_y
    square[square == 0.0] = 1.0  # the difference is zero there: no step
    power = np.power(square, b)
    factor = (-2 * a * b) * power / (square * (1 + a * power))
    return _clipped(factor * along_x), _clipped(factor * along_y)


def _push(
    along_x: NDArray[np.float32], along_y: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The step of the first of two points away from the second; zero for a point and itself.

    2b / ((.001 + d^2) (1 + a d^2b)) times the difference: the gradient of log (1 - 1 / (1 + a d^2b)).
    """
    a, b = np.float32(CURVE[0]), np.float32(CURVE[1])
    square = along_x * along_x + along_y * along_y
    factor = (2 * b) / ((np.float32(_OFF) + square) * (1 + a * np.power(square, b)))
    return _clipped(factor * along_x), _clipped(factor * along_y)


def _clipped(step: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    limited: NDArray[np.float32] = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
    return limited
