"""Places in the plane for a weighted graph, as UMAP finds them.

McInnes, Healy & Melville 2018, section 4.2 and algorithm 5, https://arxiv.org/abs/1802.03426: neighbours
attract each other as often as their weight says, and every time the neighbour that is moved is pushed off
from five points drawn at random. umap-learn moves one pair at a time in compiled code; here a share of the
points moves at once in numpy, which places neighbours as well, needs no compiler, and can be stopped.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["CURVE", "rounds_for", "settled"]

CURVE = (1.5769434603, 0.8950608779)  # a and b of 1 / (1 + a d^2b), fitted to min_dist .1 and spread 1
_PUSHES = 5  # points that a point is pushed off from each time it is pulled
_LARGEST_STEP = 4.0  # in each direction, before it is scaled by the round's share
_TOGETHER = 16_384  # pairs that move at once at most: what they need stays in the processor's cache
_LEAST_TOGETHER = 128
_OFF = 0.001  # keeps a push finite
_MANY = 10_000  # points; up to so many 500 rounds, beyond 200, as umap-learn has it


def rounds_for(points: int) -> int:
    """How many rounds a layout of so many points takes."""
    return 500 if points <= _MANY else 200


@dataclass(slots=True)
class _Edges:
    """The graph's edges in a mixed order, and the round in which each is due next."""

    head: NDArray[np.intp]
    tail: NDArray[np.intp]
    period: NDArray[np.float32]  # rounds from one pull to the next
    due: NDArray[np.float32]

    @classmethod
    def of(cls, graph: "csr_matrix", rounds: int, generator: np.random.Generator) -> "_Edges":
        """Edges so light that they would never be due are left out."""
        edges = graph.tocoo()
        heaviest = float(edges.data.max(initial=0.0))
        kept = np.flatnonzero(edges.data >= heaviest / rounds)
        kept = generator.permutation(kept)
        period = (heaviest / edges.data[kept]).astype(np.float32)
        return cls(edges.row[kept].astype(np.intp), edges.col[kept].astype(np.intp), period, period.copy())

    def due_in(self, number: int) -> NDArray[np.intp]:
        """The edges of a round, 1…; each is put off to its next."""
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
    """Move points from their start until neighbours lie together and the others apart.

    graph: (n, n) symmetric weights; start: (n, 2); returns: (n, 2)
    first_share: of every step in the first round; it falls to 0. Less than 1 stays nearer to the start.
    fixed:       so many of the first points do not move, and the others are pushed off from them alone
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
    """Pull both ends of some edges together, and push their heads off from points drawn at random.

    Where some are fixed every head is free and every tail is fixed.
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
    """The step of the first of two points away from the second; nothing for a point and itself.

    2b / ((.001 + d^2) (1 + a d^2b)) times the difference: the gradient of log (1 - 1 / (1 + a d^2b)).
    """
    a, b = np.float32(CURVE[0]), np.float32(CURVE[1])
    square = along_x * along_x + along_y * along_y
    factor = (2 * b) / ((np.float32(_OFF) + square) * (1 + a * np.power(square, b)))
    return _clipped(factor * along_x), _clipped(factor * along_y)


def _clipped(step: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    limited: NDArray[np.float32] = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
    return limited
