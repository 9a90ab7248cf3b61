"""Is a passage nearer to the one that follows it than to passages of other documents?"""

import numpy as np
from numpy.typing import NDArray

from nearsay.training.evaluation.proxies.proxy import Proxy, ProxyFigure, figure_of

__all__ = ["adjacent_passages"]


def adjacent_passages(
    vectors: NDArray[np.float32],
    documents: NDArray[np.int64],
    places: NDArray[np.int64] | None = None,
    *,
    others: int = 99,
    seed: int = 0,
) -> ProxyFigure | None:
    """Rank each passage's next one among drawn passages of other documents; give the mean of 1 / rank.

    vectors:   (passages, dimension) float32 of length 1, in the order of the text
    documents: (passages,) the number of each one's document, those of one document together
    places:    (passages,) where each one stands in its document: those that do not follow each other, as one
               between is left out, are not ranked; None: all follow each other
    others:    most passages that the next one is ranked among
    A tie counts as a worse rank. None when no passage follows another, or there is only one document.

    Adjacent text as a signal: Logeswaran & Lee 2018, https://arxiv.org/abs/1803.02893
    """
    random = np.random.default_rng(seed)
    each: list[float] = []
    ranked_among = []
    follows = documents[:-1] == documents[1:]
    if places is not None:
        follows &= places[:-1] + 1 == places[1:]
    for row in np.flatnonzero(follows):
        elsewhere = np.flatnonzero(documents != documents[row])
        if not len(elsewhere):
            continue
        drawn = random.choice(elsewhere, min(others, len(elsewhere)), replace=False)
        rank = 1 + int((vectors[drawn] @ vectors[row] >= vectors[row + 1] @ vectors[row]).sum())
        each.append(1 / rank)
        ranked_among.append(len(drawn) + 1)
    chance = float(np.mean([(1 / np.arange(1, size + 1)).sum() / size for size in ranked_among] or [0.0]))
    return figure_of(Proxy.ADJACENT, each, chance)
