"""Semantic textual similarity: do similarities order sentence pairs as people do?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.correlation import pearson_correlation, spearman_correlation
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts
from nearsay.training.evaluation.vector_similarity import Similarity, pair_similarities
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["StsReport", "evaluate_sts", "sts_figures", "text_pair_similarities"]


@dataclass(frozen=True, slots=True)
class StsReport:
    """What an encoder reached on scored sentence pairs; correlations times 100, of similarity and score."""

    pairs: int
    spearman: float  # of the cosine: the field's figure
    pearson: float  # of the cosine
    truncated: int  # sentences that were cut at the encoder's length limit
    seconds: float  # encoding included
    spearman_dot: float  # of the dot product
    pearson_dot: float
    spearman_euclidean: float  # of the Euclidean distance below zero
    pearson_euclidean: float
    spearman_manhattan: float  # of the Manhattan distance below zero
    pearson_manhattan: float


def evaluate_sts(encoder: TextEncoder, pairs: Sequence[ScoredPair]) -> StsReport:
    """Correlate the similarities of the pairs' vectors with their scores.

    Both sentences are encoded as passages: the task is symmetric, and an encoder's query prompt usually asks
    for an answer. Raises BadInputError for fewer than 2 pairs, or when all scores are the same.

    Reimers & Gurevych 2019, section 4.1, https://arxiv.org/abs/1908.10084; Cer et al. 2017,
    https://arxiv.org/abs/1708.00055
    """
    started = perf_counter()
    found, truncated = text_pair_similarities(
        encoder, [pair.sentence1 for pair in pairs], [pair.sentence2 for pair in pairs]
    )
    figures = sts_figures(found, [pair.score for pair in pairs])
    return StsReport(pairs=len(pairs), truncated=truncated, seconds=perf_counter() - started, **figures)


def text_pair_similarities(
    encoder: TextEncoder, first: Sequence[str], second: Sequence[str], *, progress: Progress | None = None
) -> tuple[dict[Similarity, NDArray[np.float64]], int]:
    """Give the similarities of texts, pair by pair, and how many texts were cut; all encoded as passages."""
    texts = [*first, *second]
    vectors, truncated = encoded_texts(
        encoder, texts, listener=None if progress is None else lambda done: progress(done, len(texts))
    )
    return pair_similarities(vectors[: len(first)], vectors[len(first) :]), truncated


def sts_figures(
    similarities: Mapping[Similarity, NDArray[np.float64]], scores: ArrayLike
) -> dict[str, float]:
    """Give Spearman's and Pearson's correlation, times 100, of each similarity with the scores.

    returns: `spearman` and `pearson` of the cosine, and the others' with their names behind, as
             `spearman_dot`; raises BadInputError where a correlation is not defined
    """
    figures: dict[str, float] = {}
    for similarity, values in similarities.items():
        figures[f"spearman{similarity.suffix}"] = 100 * spearman_correlation(values, scores)
        figures[f"pearson{similarity.suffix}"] = 100 * pearson_correlation(values, scores)
    return figures
