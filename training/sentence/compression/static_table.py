"""The numbers of a static encoder: a vector for each token, whose mean is the text's vector."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["fitted_table", "observed_probabilities", "sif_weights", "token_shares", "zipf_probabilities"]

_SIF = 1e-4  # of Arora et al. and of model2vec; 1e-3 was no better on the STS benchmark
# With few rounds the tokens that the texts hardly tell about stay near their start, and more gain nothing.
_RIDGE = 1e-3
_ROUNDS = 30


def zipf_probabilities(tokens: int) -> NDArray[np.float64]:
    """Guess tokens' probabilities by their place in the vocabulary, which stands in order of frequency.

    returns: (tokens,), 1 / (place + 2), places from 0, scaled to the sum 1

    As model2vec does, https://github.com/MinishLab/model2vec
    """
    inverse = 1 / np.arange(2, tokens + 2, dtype=np.float64)
    probabilities: NDArray[np.float64] = inverse / inverse.sum()
    return probabilities


def observed_probabilities(token_ids: Sequence[Sequence[int]], tokens: int) -> NDArray[np.float64]:
    """Count tokens' probabilities in texts, each token of the vocabulary once more than it is there."""
    counts = np.bincount([token for ids in token_ids for token in ids], minlength=tokens) + 1.0
    probabilities: NDArray[np.float64] = counts / counts.sum()
    return probabilities


def sif_weights(probabilities: NDArray[np.float64], coefficient: float = _SIF) -> NDArray[np.float64]:
    """Weight rare tokens with nearly 1 and frequent ones with less: a / (a + p).

    Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings",
    https://openreview.net/forum?id=SyK00v5xx
    """
    weights: NDArray[np.float64] = coefficient / (coefficient + probabilities)
    return weights


def token_shares(token_ids: Sequence[Sequence[int]], tokens: int) -> "scipy.sparse.csr_matrix":
    """Give the (texts, tokens) matrix that turns a table of token vectors into the texts' means."""
    lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
    columns = np.fromiter((token for ids in token_ids for token in ids), dtype=np.int64, count=lengths.sum())
    shares = np.repeat(1 / np.maximum(lengths, 1), lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_matrix((shares, columns, starts), shape=(len(token_ids), tokens))


def fitted_table(
    start: NDArray[np.float64],
    shares: "scipy.sparse.csr_matrix",
    targets: NDArray[np.float64],
    *,
    ridge: float = _RIDGE,
    rounds: int = _ROUNDS,
) -> NDArray[np.float64]:
    """Change a table so that the means of texts' tokens come near the texts' vectors of another encoder.

    start:   (tokens, dimension); it is scaled as a whole to fit best, and then changed as little as need be
    shares:  (texts, tokens) of `token_shares`
    targets: (texts, dimension)
    returns: (tokens, dimension), the minimum of |shares table - targets|² + ridge |table - start|²,
             as near as so many rounds of conjugate gradients come, each dimension by itself

    Hestenes & Stiefel 1952, https://doi.org/10.6028/jres.049.044
    """
    means = shares @ start
    size = float((means * means).sum())
    start = start * (float((means * targets).sum()) / size if size else 1.0)
    transposed = shares.T.tocsr()
    left = transposed @ (targets - shares @ start)
    change = np.zeros_like(start)
    direction = left.copy()
    squares = (left * left).sum(axis=0)
    for _ in range(rounds):
        image = transposed @ (shares @ direction) + ridge * direction
        step = _quotient(squares, (direction * image).sum(axis=0))
        change += step * direction
        left -= step * image
        before, squares = squares, (left * left).sum(axis=0)
        direction = left + _quotient(squares, before) * direction
    table: NDArray[np.float64] = start + change
    return table


def _quotient(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quotients, 0 where a dimension has nothing left to gain."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
