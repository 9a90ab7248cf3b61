"""Semantic textual similarity: do similarities order sentence pairs as people do?"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder, encoded_texts


def pearson_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Return Pearson's r, -1 to 1: how near the two are to a straight line.

    r = covariance / (standard deviation * standard deviation)

    Raises BadInputError for lists of unlike length, shorter than 2, or with one value throughout, for which
    it is not defined. Pearson 1895, https://doi.org/10.1098/rspl.1895.0041
    """
    from scipy import stats

    x, y = _checked(first, second)
    return float(stats.pearsonr(x, y).statistic)


def spearman_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Return Spearman's rho, -1 to 1: how well the two agree in order.

    rho = Pearson's r of the ranks; equal values share the average of their ranks

    Raises BadInputError as `pearson_correlation` does. Spearman 1904, https://doi.org/10.2307/1412159
    """
    from scipy import stats

    x, y = _checked(first, second)
    return float(stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic)


def _checked(first: ArrayLike, second: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise BadInputError(
            f"a correlation needs two lists of one length, 2 or more; these are {x.shape} and {y.shape}. "
            "Give more pairs"
        )
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        raise BadInputError(
            f"a correlation of {len(x)} pairs is not defined where one side is the same throughout. "
            "Give pairs of different scores, and an encoder that gives them different similarities"
        )
    return x, y


_BLOCK_PAIRS: Final = 4096  # pairs whose float64 copies are in memory


class Similarity(StrEnum):
    """How near two vectors are; higher is nearer for each, as distances are taken below zero."""

    COSINE = "cosine"  # u · v / (|u| |v|)
    DOT = "dot"  # u · v
    EUCLIDEAN = "euclidean"  # -sqrt(sum (u - v)²)
    MANHATTAN = "manhattan"  # -sum |u - v|

    @property
    def suffix(self) -> str:
        """What follows a figure's name: nothing for the cosine, which decides; else `_dot` and so on."""
        return "" if self is Similarity.COSINE else f"_{self.value}"


def pair_similarities(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> dict[Similarity, NDArray[np.float64]]:
    """Return the similarity of each row of `first` with the same row of `second`, by every measure.

    first, second: (pairs, dimension) float32, no row of zeros
    returns:       by measure (pairs,) float64, higher is nearer

    Computed in float64, so that equal pairs tie exactly.
    """
    found = {similarity: np.empty(len(first)) for similarity in Similarity}
    for start in range(0, len(first), _BLOCK_PAIRS):
        rows = slice(start, start + _BLOCK_PAIRS)
        u, v = first[rows].astype(np.float64), second[rows].astype(np.float64)
        dots = np.einsum("pd,pd->p", u, v)
        lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
        apart = np.abs(u - v)
        found[Similarity.COSINE][rows] = dots / lengths
        found[Similarity.DOT][rows] = dots
        found[Similarity.EUCLIDEAN][rows] = -np.linalg.norm(apart, axis=1)
        found[Similarity.MANHATTAN][rows] = -apart.sum(axis=1)
    return found


def text_pair_similarities(
    encoder: VectorEncoder, first: Sequence[str], second: Sequence[str], *, progress: Progress | None = None
) -> tuple[dict[Similarity, NDArray[np.float64]], int]:
    """Return the similarities of texts, pair by pair, and how many texts were cut; all encoded as passages.

    The task is symmetric, and an encoder's query prompt usually asks for an answer.
    Reimers & Gurevych 2019, section 4.1, https://arxiv.org/abs/1908.10084; Cer et al. 2017,
    https://arxiv.org/abs/1708.00055
    """
    texts = [*first, *second]
    vectors, truncated = encoded_texts(encoder, texts, progress=progress)
    return pair_similarities(vectors[: len(first)], vectors[len(first) :]), truncated


def sts_figures(
    similarities: Mapping[Similarity, NDArray[np.float64]], scores: ArrayLike
) -> dict[str, float]:
    """Return Spearman's and Pearson's correlation, times 100, of each similarity with the scores.

    returns: `spearman` and `pearson` of the cosine, and the others' with their names behind, as
             `spearman_dot`; raises BadInputError where a correlation is not defined
    """
    figures: dict[str, float] = {}
    for similarity, values in similarities.items():
        figures[f"spearman{similarity.suffix}"] = 100 * spearman_correlation(values, scores)
        figures[f"pearson{similarity.suffix}"] = 100 * pearson_correlation(values, scores)
    return figures
