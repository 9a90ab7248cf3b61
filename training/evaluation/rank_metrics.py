"""Figures of one query's ranking (average precision, nDCG, recall, reciprocal rank); how far two agree."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import log2

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.errors import BadInputError


def average_precision(relevant: ArrayLike, scores: ArrayLike) -> float:
    """Average precision, 0 to 1: the area under precision as recall grows; its mean over queries is MAP.

    AP = sum over distinct scores, highest first, of (recall there - recall before) · precision there

    relevant: (items,) 0 or 1; scores: (items,) higher should be relevant; items of equal score come together
    Raises BadInputError when none is relevant, or the two are of unlike length. As scikit-learn has it, not
    interpolated. Manning, Raghavan & Schütze 2008, section 8.4, https://nlp.stanford.edu/IR-book/
    """
    flags, values = np.asarray(relevant, dtype=np.bool_), np.asarray(scores, dtype=np.float64)
    if flags.shape != values.shape or flags.ndim != 1 or not flags.any():
        raise BadInputError(
            f"average precision needs one score for each item and at least one that is relevant; there are "
            f"{values.size} scores and {int(flags.sum())} relevant of {flags.size}. Give some of each"
        )
    return resampled_average_precision(flags, values)(np.arange(len(flags)))


def resampled_average_precision(
    relevant: NDArray[np.bool_], scores: NDArray[np.float64]
) -> Callable[[NDArray[np.int64]], float]:
    """A function from the numbers of drawn items to their average precision, NaN where none is relevant.

    The items are sorted once; a draw counts how often each was taken.
    """
    order = np.argsort(-scores, kind="stable")
    flags, values = relevant[order].astype(np.int64), scores[order]
    ends = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)  # the last item of each distinct score

    def precision(drawn: NDArray[np.int64]) -> float:
        counts = np.bincount(drawn, minlength=len(order))[order]
        found = np.cumsum(counts * flags)[ends]
        taken = np.cumsum(counts)[ends]
        if not found[-1]:
            return float("nan")
        gained = np.diff(found, prepend=0)
        return float((gained * found / np.maximum(taken, 1)).sum() / found[-1])

    return precision


def ndcg(ranking: Sequence[str], judgements: Mapping[str, int], *, depth: int = 10) -> float:
    """Return nDCG at a depth, 0 to 1, higher is better: how near the ranking is to the best possible one.

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


def recall(ranking: Sequence[str], judgements: Mapping[str, int], *, depth: int = 100) -> float:
    """Return the share of the relevant documents that are among the first `depth`, 0 to 1.

    recall = relevant documents found / relevant documents

    ranking:    document ids, best first, no id twice
    judgements: relevance by document id; above 0 is relevant
    returns:    0.0 when nothing is relevant

    Manning, Raghavan & Schütze 2008, section 8.3, https://nlp.stanford.edu/IR-book/
    """
    relevant = {document for document, relevance in judgements.items() if relevance > 0}
    if not relevant:
        return 0.0
    return len(relevant.intersection(ranking[:depth])) / len(relevant)


def reciprocal_rank(ranking: Sequence[str], judgements: Mapping[str, int], *, depth: int = 10) -> float:
    """Return 1 / rank of the first relevant document, 0.0 when none is among the first `depth`.

    ranking:    document ids, best first
    judgements: relevance by document id; above 0 is relevant

    Voorhees 1999, https://trec.nist.gov/pubs/trec8/papers/qa_report.pdf
    """
    for rank, document in enumerate(ranking[:depth], start=1):
        if judgements.get(document, 0) > 0:
            return 1 / rank
    return 0.0


PERSISTENCE = 0.9  # of a reader who goes on to the next result: the first ten have 86 % of the weight


def overlap(left: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """The share of the longer list that stands in the other, too: 0 to 1; two empty lists agree.

    No list holds anything twice.
    """
    longest = max(len(left), len(right))
    return len(set(left) & set(right)) / longest if longest else 1.0


def rank_biased_overlap(
    left: Sequence[Hashable], right: Sequence[Hashable], persistence: float = PERSISTENCE
) -> float:
    """The overlap of the first d of both, averaged over all depths d, the first ones counting most: 0 to 1.

    persistence: p; depth d weighs (1 - p) p^(d - 1). Beyond the lists' ends the agreement seen there is taken
        to go on. No list holds anything twice. Two empty lists agree, an empty and another do not.

    Webber, Moffat & Zobel 2010, "A similarity measure for indefinite rankings", equation 32 (RBO_EXT, for
    lists of different lengths), https://doi.org/10.1145/1852102.1852106
    """
    short, long = sorted((left, right), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the paper's names
    if not s:
        return 1.0 if not l else 0.0
    seen_short: set[Hashable] = set()
    seen_long: set[Hashable] = set()
    shared = 0  # X_d: what the first d of both have in common
    shared_at_s = 0
    total = 0.0
    for d in range(1, l + 1):
        one = long[d - 1]
        seen_long.add(one)
        if d <= s:
            other = short[d - 1]
            seen_short.add(other)
            shared += (one in seen_short) + (other in seen_long and other != one)
            shared_at_s = shared
        else:
            shared += one in seen_short
            total += shared_at_s * (d - s) / (s * d) * persistence**d
        total += shared / d * persistence**d
    beyond = ((shared - shared_at_s) / l + shared_at_s / s) * persistence**l
    return (1 - persistence) / persistence * total + beyond
