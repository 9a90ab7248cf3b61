"""Candidates of a search: by vectors, by words, or both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.document import beginning
from nearsay.data.errors import BadInputError
from nearsay.data.threads import ThreadLock
from nearsay.indexer.catalogue.passages import PassageRow, encoded_text
from nearsay.indexer.filters.selection import Selection, list_all, passing
from nearsay.indexer.query.lexical import LexicalCandidates
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.vector_store import Candidates

WEIGHT: Final = 0.2  # of a full match by words, where cosines go from 0 (by chance) to 1
FLOOR: Final = 0.4  # the share of a full match that a passage needs before its words count


class Fusion(StrEnum):
    """How hybrid search combines the two rankings."""

    WEIGHTED = "weighted"  # by their scores
    RECIPROCAL_RANK = "rrf"  # by their ranks alone


def reciprocal_rank_fusion(
    rankings: Sequence[NDArray[np.int64]], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fuse rankings: the score of a passage is the sum of 1 / (60 + rank) over the rankings.

    rankings: passage numbers, best first, each; a passage may be missing from some
    depth:    number of ranks to add. Passages below it in all rankings follow by their best rank alone, so
              the first ones do not depend on the length of the rankings
    returns:  all passages by descending score, then ascending number, (n,), and the scores, (n,)

    Cormack, Clarke & Buettcher 2009, https://doi.org/10.1145/1571941.1572114
    """
    ids, places = np.unique(np.concatenate(rankings), return_inverse=True)
    ranks = np.concatenate([np.arange(1, ranking.size + 1) for ranking in rankings])
    shares = 1.0 / (60 + ranks)
    sums, best = np.zeros((2, ids.size))
    np.add.at(sums, places, shares * (ranks <= depth))
    np.maximum.at(best, places, shares)
    scores = np.maximum(sums, best)
    order = np.lexsort((ids, -scores))
    return ids[order], scores[order]


def word_shares(scores: NDArray[np.float64], full_score: float) -> NDArray[np.float64]:
    """BM25 relative to that of a full match, 0 for passages without any word of the query.

    full_score: see `LexicalCandidates`; such a passage gets 1, one with more or repeated words gets more.
                Relative to the best score found, the best of bad matches would count as good
    """
    return scores / full_score if full_score > 0 else np.zeros_like(scores)


def weighted_fusion(
    cosines: NDArray[np.float64],
    shares: NDArray[np.float64],
    chance: float = 0.0,
    weight: float = WEIGHT,
    floor: float = FLOOR,
) -> NDArray[np.float64]:
    """Fuse by score: cosine + weight · (1 - chance) · max(0, share - floor) / (1 - floor).

    cosines, shares: (n,), of the same passages; 0 if there is none
    chance:          the mean cosine of two passages, so that the order is the same for an encoder whose
        cosines are all close to each other

    The order is that of the convex combination studied by Bruch, Gai & Ingber 2023
    (https://doi.org/10.1145/3596512), with BM25 relative to a full match, and with a floor: a passage that
    shares a few words by chance gains nothing, and its score is its cosine.
    """
    counted: NDArray[np.float64] = np.maximum(0.0, shares - floor) / (1.0 - floor)
    return cosines + weight * (1.0 - chance) * counted


# The passages nearest to a query among those that a selection lets through.
#
# Where it is known which pass, few are scored one by one, and the index is searched among many. Where a
# filter asks of ids, titles, texts or sources, candidates come from the index and are checked in SQL, more
# of them until enough passed, and from further away until hardly any better one turns up; where too few of
# the nearest pass, all that pass are listed.


_FIRST_DRAW = 4  # candidates drawn at first, as a multiple of what is wanted
_LEAST_DRAWN = 64
_WIDENING = 1.12  # of the reach for every doubling of how far away the neighbours lie that pass
_WORTH_LISTING = 16  # queries under one filter: for so many, all that passes is listed once
_MOST_DRAWN = 5_000  # candidates: beyond, listing all that pass costs less


def dense_candidates(
    connection: sa.Connection,
    snapshot: Snapshot,
    queries: NDArray[np.float32],
    count: int,
    selection: Selection,
    sure_of: int,
) -> list[Candidates]:
    """For each query, the `count` nearest passages in the selection, in this transaction.

    queries: (n, d) unit length. Fewer passages are returned only if fewer qualify
    sure_of: the first this many have the contract's recall, if all passages are allowed
    """
    if selection.everything:
        return snapshot.nearest_many(queries, count, sure_of=sure_of)
    allowed = selection.allowed
    if allowed is None and len(queries) < _WORTH_LISTING:
        return [_drawn(connection, snapshot, query, count, selection) for query in queries]
    if allowed is None:
        allowed = list_all(connection, snapshot, selection)
    return snapshot.nearest_many(queries, count, allowed)


def _drawn(
    connection: sa.Connection,
    snapshot: Snapshot,
    query: NDArray[np.float32],
    count: int,
    selection: Selection,
) -> Candidates:
    """Check the nearest passages of all against the filter, or list those that match if they are few."""
    drawn = max(_FIRST_DRAW * count, _LEAST_DRAWN)
    most = max(_MOST_DRAWN, drawn)
    reach = before = None
    checked, held = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    newer = snapshot.newer(query[None, :], drawn)
    while drawn <= most:
        if reach is None:  # as sure of those that pass as the usual reach is of the nearest of all
            reach = _WIDENING ** max(0, int(np.ceil(np.log2(drawn / count))))
        (found,) = snapshot.looked_up(query[None, :], drawn, snapshot.alive, reach, newer)
        unchecked = np.setdiff1d(found.ids, checked, assume_unique=True)
        checked = np.append(checked, unchecked)
        held = np.append(held, passing(connection, snapshot, unchecked, selection))
        passed = np.isin(found.ids, checked[held])
        enough = int(passed.sum())
        best = Candidates(found.ids[passed][:count], found.scores[passed][:count])
        if found.ids.size < drawn:
            return best
        if enough < count:
            drawn = max(2 * drawn, round(1.5 * count * drawn / max(enough, 1)))
            newer = snapshot.newer(query[None, :], drawn)
            reach = before = None
            continue
        if (before is not None and snapshot.settled(before, best, count)) or not snapshot.reaches_beyond(
            reach
        ):
            return best
        before, reach = best, 2.0 * reach
    return snapshot.nearest(query, count, list_all(connection, snapshot, selection))


_SHOWN: Final = 60  # characters of what a judge cannot score
RERANKED: Final = 50  # candidates that are judged among themselves, or k if that is more


@runtime_checkable
class PairJudge(Protocol):
    """Scores pairs of query and passage, as a cross-encoder does."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Score each pair, (pairs,); higher is better."""


def judged_scores(judge: PairJudge, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Score each pair; BadInputError if the judge does not return one number per pair."""
    scores = np.asarray(judge.scores(pairs))
    if scores.shape != (len(pairs),) or scores.dtype.kind not in "fiu":
        raise BadInputError(
            f"the judge gave {scores.dtype} of shape {scores.shape} for {len(pairs)} pairs. "
            "Let its `scores` return one number a pair"
        )
    if np.isnan(scores).any():
        query, text = pairs[int(np.isnan(scores).argmax())]
        raise BadInputError(
            f"the judge gave no number for '{beginning(query, _SHOWN)}' and '{beginning(text, _SHOWN)}', but "
            "NaN, by which nothing can be ranked. Let its `scores` return one number a pair"
        )
    found: list[float] = scores.tolist()
    return found


def judged_anew(
    judge: PairJudge, query: str, found: list[tuple[float, PassageRow]], together: int, first: int
) -> list[tuple[float, PassageRow]]:
    """Rerank candidates by the judge's scores in blocks: the first `together`, the next, and so on.

    So each candidate is on one page only. Blocks that end before `first` are left unchanged.
    """
    if len(found) <= first:
        return found
    begin = first // together * together
    some = found[begin:]
    scores = judged_scores(judge, [(query, encoded_text(row.title, row.text)) for _, row in some])
    judged = [(score, row) for score, (_, row) in zip(scores, some, strict=True)]
    ranked = found[:begin]
    for at in range(0, len(judged), together):  # stable: what ties stays in the order it came in
        ranked += sorted(judged[at : at + together], key=lambda pair: -pair[0])
    return ranked


class PairJudges:
    """Cross-encoders by name or folder, each loaded once. Thread-safe."""

    def __init__(self, device: str | None = None) -> None:
        """`device`: cpu, cuda, cuda:1, mps; None = the fastest available. Nothing is loaded yet."""
        self._device = device
        self._loaded: dict[str, PairJudge] = {}
        self._loads: dict[str, ThreadLock] = {}  # held while the judge of that name is loaded

    def judge(self, named: str | PairJudge) -> PairJudge:
        """Load the cross-encoder of a name or folder; a judge object is returned unchanged."""
        if not isinstance(named, str):
            return named
        from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge

        if named not in self._loaded:
            with self._loads.setdefault(named, ThreadLock()):  # others' users do not wait for this load
                if named not in self._loaded:
                    self._loaded[named] = CrossEncoderJudge.load(named, device=self._device)
        return self._loaded[named]


DEPTH: Final = 100  # candidates of either kind that are fused, at least; by their ranks, no more
_CHECKED: Final = 200  # lexical candidates held against a filter at a time


@dataclass(frozen=True, slots=True)
class Ranking:
    """Passages, best first, with the scores that they were ranked by."""

    ids: list[int]
    scores: list[float]
    exhausted: bool  # no more would be found with more candidates
    cosines: dict[int, float] = field(default_factory=dict)
    words: dict[int, float] = field(default_factory=dict)  # BM25
    full_score: float = 0.0  # BM25 of a full match; 0 if not requested


def weight_of_words(snapshot: Snapshot) -> float:
    """The weight of words in a collection's fusion: the one learned from judgements, or the default."""
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
    """At least the `count` best candidates that pass; fewer only if fewer qualify.

    query:   (d,) unit length; None = only words are searched for
    nearest: returns this many of the nearest passages that pass
    lexical: candidates by words; None = only vectors are searched
    passes:  which of the passages match the filter
    weight:  of words, in weighted fusion
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
    there = np.isin(lexical.ids, near.ids)  # however far down the ranking by words
    words |= dict(zip(lexical.ids[there].tolist(), lexical.scores[there].tolist(), strict=True))
    if fusion is Fusion.RECIPROCAL_RANK:
        ranked, fused = reciprocal_rank_fusion([near.ids, by_words], DEPTH)
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
    """The candidates of both kinds by descending fused score, then ascending number, and their cosines."""
    every = np.union1d(near.ids, by_words)
    cosines = _cosines(snapshot, vector, every, near)
    shares = word_shares(np.array([words.get(number, 0.0) for number in every.tolist()]), full_score)
    known = np.array([cosines.get(number, 0.0) for number in every.tolist()])
    fused = weighted_fusion(known, shares, snapshot.chance, weight)
    order = np.lexsort((every, -fused))
    return every[order], fused[order], cosines


def _reach(
    lexical: LexicalCandidates, farthest: float, best: NDArray[np.float64], chance: float, weight: float
) -> int:
    """How many lexical candidates, best first, could be among the `best` if their cosine were `farthest`.

    A passage not seen yet cannot be nearer than the farthest seen one, so with these the best are exact.
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
    """The cosine of every candidate that has a vector, by whichever search it was found."""
    known = dict(zip(near.ids.tolist(), near.scores.tolist(), strict=True))
    others = np.setdiff1d(ids, near.ids)
    if others.size:
        scored = snapshot.vectors.nearest_among(query, others.size, others)
        known |= dict(zip(scored.ids.tolist(), scored.scores.tolist(), strict=True))
    return known
