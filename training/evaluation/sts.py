"""Semantic textual similarity: do cosines order sentence pairs as people do?"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from nearsay.data.similarity_pairs import ScoredPair
from nearsay.training.evaluation.correlation import pearson_correlation, spearman_correlation
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["StsReport", "evaluate_sts"]


@dataclass(frozen=True, slots=True)
class StsReport:
    """What an encoder reached on scored sentence pairs."""

    pairs: int
    spearman: float  # of cosine and score, times 100: the field's figure
    pearson: float  # the same, times 100
    truncated: int  # sentences that were cut at the encoder's length limit
    seconds: float  # encoding included


def evaluate_sts(encoder: TextEncoder, pairs: Sequence[ScoredPair]) -> StsReport:
    """Correlate the cosines of the pairs' vectors with their scores.

    Both sentences are encoded as passages: the task is symmetric, and an encoder's query prompt usually asks
    for an answer. Raises BadInputError for fewer than 2 pairs, or when all scores are the same.

    Reimers & Gurevych 2019, section 4.1, https://arxiv.org/abs/1908.10084; Cer et al. 2017,
    https://arxiv.org/abs/1708.00055
    """
    started = perf_counter()
    sentences = [pair.sentence1 for pair in pairs] + [pair.sentence2 for pair in pairs]
    window = next(iter(encoder.stream([sentences], kind=TextKind.PASSAGE)))
    vectors = window.vectors / np.linalg.norm(window.vectors, axis=1, keepdims=True)
    cosines = np.einsum("pd,pd->p", vectors[: len(pairs)], vectors[len(pairs) :])
    scores = [pair.score for pair in pairs]
    return StsReport(
        pairs=len(pairs),
        spearman=100 * spearman_correlation(cosines, scores),
        pearson=100 * pearson_correlation(cosines, scores),
        truncated=window.truncated,
        seconds=perf_counter() - started,
    )
