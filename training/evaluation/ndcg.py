"""Normalised discounted cumulative gain."""

from collections.abc import Mapping, Sequence
from math import log2

__all__ = ["ndcg"]


def ndcg(ranking: Sequence[str], judgements: Mapping[str, int], *, depth: int = 10) -> float:
    """Give nDCG at a depth, 0 to 1, higher is better: how near the ranking is to the best possible one.

    nDCG = DCG(ranking) / DCG(judged documents, best first)
    DCG = sum over ranks 1 to `depth` of relevance / log2(rank + 1)

    ranking:    document ids, best first, no id twice
    judgements: relevance by document id; documents without one, or below 0, count 0
    returns:    0.0 when nothing is relevant

    The gain is the relevance itself, as in trec_eval's ndcg_cut and BEIR, not 2**relevance - 1; the two agree
    where relevance is 0 or 1. Järvelin & Kekäläinen 2002, https://doi.org/10.1145/582415.582418
    """
    best = _dcg(sorted(judgements.values(), reverse=True)[:depth])
    if best == 0:
        return 0.0
    return _dcg([judgements.get(document, 0) for document in ranking[:depth]]) / best


def _dcg(gains: Sequence[int]) -> float:
    return sum(max(gain, 0) / log2(rank + 1) for rank, gain in enumerate(gains, start=1))
