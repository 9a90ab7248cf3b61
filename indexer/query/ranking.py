"""The candidates of a search, by vectors, by words or by both."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.query.fusion import WEIGHT, Fusion, reciprocal_rank_fusion, weighted_fusion, word_shares
from nearsay.indexer.query.lexical import LexicalCandidates
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.vector_store import Candidates

__all__ = ["DEPTH", "Ranking", "candidates", "weight_of_words"]

DEPTH: Final = 100  # candidates of either kind that are fused, at least
_CHECKED: Final = 200  # lexical candidates held against a filter at a time


@dataclass(frozen=True, slots=True)
class Ranking:
    """Passages, best first, with what they were ranked by."""

    ids: list[int]
    scores: list[float]
    exhausted: bool  # no more would come if more were drawn
    cosines: dict[int, float] = field(default_factory=dict)
    words: dict[int, float] = field(default_factory=dict)  # BM25
    full_score: float = 0.0  # BM25 of a full match by words; 0 where it was not asked


def weight_of_words(snapshot: Snapshot) -> float:
    """The weight of words in a collection's fusion: what judgements chose, or the usual one."""
    return WEIGHT if snapshot.word_weight is None else snapshot.word_weight


def candidates(
    snapshot: Snapshot,
    query: NDArray[np.float32] | None,
    nearest: Callable[[int], Candidates],
    lexical: LexicalCandidates | None,
    passes: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    fusion: Fusion,
    count: int,
    *,
    weight: float = WEIGHT,
) -> Ranking:
    """At least the `count` best candidates that pass, fewer only when fewer qualify.

    query:   (d,) unit length; None where only words are looked for
    nearest: gives so many of the passages nearest to it that pass
    lexical: what the words found; None where only vectors are searched
    passes:  which of the passages a filter lets through
    weight:  of words, where the two are fused by their scores
    """
    if lexical is None:
        found = nearest(count)
        scores = found.scores.tolist()
        ids = found.ids.tolist()
        return Ranking(ids, scores, found.ids.size < count, dict(zip(ids, scores, strict=True)))
    depth = count if query is None else max(count, DEPTH)
    by_words, bm25 = _first_passing(lexical, depth, passes)
    words = dict(zip(by_words.tolist(), bm25.tolist(), strict=True))
    if query is None:
        return Ranking(by_words.tolist(), bm25.tolist(), by_words.size < depth, words=words)
    near = nearest(depth)
    exhausted = near.ids.size < depth and by_words.size < depth
    full = near.ids.size == depth
    words |= _of_these(lexical, near.ids)
    if fusion is Fusion.RECIPROCAL_RANK:
        ranked, fused = reciprocal_rank_fusion([near.ids, by_words])
        cosines = _cosines(snapshot, query, ranked, near)
        return Ranking(ranked.tolist(), fused.tolist(), exhausted, cosines, words)
    every, fused, cosines = _weighted(snapshot, query, near, by_words, words, lexical.full_score, weight)
    farthest = float(near.scores[-1]) if full else 0.0
    reach = _reach(lexical, farthest, fused[:count], snapshot.chance, weight)
    if reach > by_words.size:
        by_words, bm25 = _first_passing(lexical, reach, passes)
        words |= dict(zip(by_words.tolist(), bm25.tolist(), strict=True))
        every, fused, cosines = _weighted(snapshot, query, near, by_words, words, lexical.full_score, weight)
    return Ranking(every.tolist(), fused.tolist(), exhausted, cosines, words, lexical.full_score)


def _weighted(
    snapshot: Snapshot,
    vector: NDArray[np.float32],
    near: Candidates,
    by_words: NDArray[np.int64],
    words: dict[int, float],
    full_score: float,
    weight: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], dict[int, float]]:
    """The candidates of either kind by falling fused score, ties by rising number, and their cosines."""
    every = np.union1d(near.ids, by_words)
    cosines = _cosines(snapshot, vector, every, near)
    shares = word_shares(np.array([words.get(number, 0.0) for number in every.tolist()]), full_score)
    known = np.array([cosines.get(number, 0.0) for number in every.tolist()])
    fused = weighted_fusion(known, shares, snapshot.chance, weight)
    order = np.lexsort((every, -fused))
    return every[order], fused[order], cosines


def _of_these(lexical: LexicalCandidates, ids: NDArray[np.int64]) -> dict[int, float]:
    """The BM25 of those of the passages that have any, however far down the ranking by words they stand."""
    there = np.isin(lexical.ids, ids)
    return dict(zip(lexical.ids[there].tolist(), lexical.scores[there].tolist(), strict=True))


def _reach(
    lexical: LexicalCandidates, farthest: float, best: NDArray[np.float64], chance: float, weight: float
) -> int:
    """How many lexical candidates, best first, could stand among the `best` if their cosine were `farthest`.

    What has not been seen yet is no nearer than the farthest that was, so that with these the best are
    certain, however many candidates were drawn.
    """
    if not best.size:
        return 0
    cosines = np.full(lexical.ids.size, max(farthest, 0.0))  # 0 without a vector
    at_best = weighted_fusion(cosines, word_shares(lexical.scores, lexical.full_score), chance, weight)
    return int(np.count_nonzero((at_best >= best[-1]) & (at_best > cosines)))


def _first_passing(
    lexical: LexicalCandidates, count: int, passes: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    ids: list[NDArray[np.int64]] = [lexical.ids[:0]]
    scores: list[NDArray[np.float64]] = [lexical.scores[:0]]
    there = 0
    for begin in range(0, lexical.ids.size, max(count, _CHECKED)):
        some = slice(begin, begin + max(count, _CHECKED))
        kept = passes(lexical.ids[some])
        ids.append(lexical.ids[some][kept])
        scores.append(lexical.scores[some][kept])
        there += int(kept.sum())
        if there >= count:
            break
    return np.concatenate(ids)[:count], np.concatenate(scores)[:count]


def _cosines(
    snapshot: Snapshot, query: NDArray[np.float32], ids: NDArray[np.int64], near: Candidates
) -> dict[int, float]:
    """The cosine of every candidate that has a vector, whichever way it was found."""
    known = dict(zip(near.ids.tolist(), near.scores.tolist(), strict=True))
    others = np.setdiff1d(ids, near.ids)
    if others.size:
        scored = snapshot.vectors.nearest_among(query, others.size, others)
        known |= dict(zip(scored.ids.tolist(), scored.scores.tolist(), strict=True))
    return known
