"""Hard negatives for pairs: texts near the anchor that do not belong to it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.retrieval import nearest
from nearsay.training.sentence.batching import distinct
from nearsay.training.sentence.negatives.candidates import (
    Anchor,
    AnchorSet,
    Candidates,
    Filter,
    MinedNegatives,
    MiningReport,
    candidates,
    mined_rows,
)
from nearsay.training.sentence.negatives.cross_encoder import Judge
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus, NegativeSampling
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows


@dataclass(frozen=True, slots=True)
class PairVectors:
    """Unit vectors by one encoder."""

    anchors: NDArray[np.float32]  # (anchors, dimension), as queries
    corpus: NDArray[np.float32]  # (texts, dimension), as passages
    positive_scores: tuple[NDArray[np.float32], ...]  # an array for each anchor, a cosine for each positive
    truncated: int  # texts cut at the encoder's length limit


def pair_vectors(
    grouped: AnchorSet, corpus: MiningCorpus, encoder: VectorEncoder, progress: Callable[[int, int], None]
) -> PairVectors:
    """Encode what has no vector yet, each text once for each kind; `progress` is told texts done and in all.

    BadInputError when the corpus brings vectors of another dimension.
    """
    if corpus.vectors is not None and corpus.vectors.shape[1] != encoder.dimension:
        raise BadInputError(
            f"the vectors of {corpus.name} have {corpus.vectors.shape[1]} dimensions and those of "
            f"{encoder.name} {encoder.dimension}. Mine with the encoder that made the vectors"
        )
    rows = {text: row for row, text in enumerate(corpus.texts)}
    others, _ = distinct([positive for positive in grouped.positives() if positive not in rows])
    anchors = [anchor.text for anchor in grouped.anchors]
    bare = list(corpus.texts) if corpus.vectors is None else []
    total = len(anchors) + len(bare) + len(others)
    queries, cut_queries = encoded_texts(
        encoder, anchors, kind=TextKind.QUERY, progress=progress, total=total
    )
    passages, cut_passages = encoded_texts(
        encoder, [*bare, *others], progress=progress, before=len(anchors), total=total
    )
    unit_rows(queries)
    unit_rows(passages)
    of_corpus = passages[: len(bare)] if corpus.vectors is None else corpus.vectors
    of_others = dict(zip(others, passages[len(bare) :], strict=True))
    positive_scores = tuple(
        np.array(
            [
                np.dot(query, of_corpus[rows[positive]] if positive in rows else of_others[positive])
                for positive in anchor.positives
            ],
            dtype=np.float32,
        )
        for anchor, query in zip(grouped.anchors, queries, strict=True)
    )
    return PairVectors(queries, of_corpus, positive_scores, cut_queries + cut_passages)


_KNOWN_EXPECTED: Final = 16  # texts fetched beyond the last rank, for those that turn out to be known
_DEEPER: Final = 4  # how much deeper an anchor is searched whose known texts are more


class AnchorRanking:
    """Searches and filters anchors a block at a time, and counts what its filters take."""

    def __init__(
        self, grouped: AnchorSet, corpus: MiningCorpus, vectors: PairVectors, config: MiningConfig
    ) -> None:
        """Nothing is searched yet."""
        self._grouped = grouped
        self._corpus = corpus
        self._vectors = vectors
        self._config = config
        self.taken: Counter[Filter] = Counter()
        self.looked_at = 0  # texts between the first and the last rank

    def candidates(self, block: range) -> list[Candidates]:
        """Return what ranks, score bounds and margins leave of each anchor's neighbours."""
        found: dict[int, Candidates] = {}
        waiting = list(block)
        depth = self._config.last_rank + _KNOWN_EXPECTED
        while waiting:
            anchors, corpus = self._vectors.anchors[waiting], self._vectors.corpus
            short = []
            for number, rows in zip(waiting, nearest(anchors, corpus, depth=depth), strict=True):
                known = self._known(self._grouped.anchors[number], rows)
                if np.count_nonzero(~known) < self._config.last_rank and depth < len(self._corpus.texts):
                    short.append(number)
                else:
                    found[number] = self._filtered(number, rows, known)
            waiting, depth = short, depth * _DEEPER
        return [found[number] for number in block]

    def _known(self, anchor: Anchor, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        keys, untitled = self._corpus.keys, self._corpus.untitled_keys
        belongs = self._grouped.belongs
        known = [belongs(anchor, keys[row]) or belongs(anchor, untitled[row]) for row in rows.tolist()]
        return np.array(known, dtype=np.bool_)

    def _filtered(self, number: int, rows: NDArray[np.int64], known: NDArray[np.bool_]) -> Candidates:
        scores = self._vectors.corpus[rows] @ self._vectors.anchors[number]
        lowest = float(self._vectors.positive_scores[number].min())
        left, taken = candidates(rows, scores, known, lowest, self._config)
        self.taken += taken
        self.looked_at += len(left) + sum(taken.values()) - taken[Filter.KNOWN] - taken[Filter.RANK]
        return left


_Question: TypeAlias = tuple[int, int]  # number of the anchor in its block, position among its candidates


class Selection:
    """Takes negatives for anchors a block at a time.

    Candidates are asked for in an order that the judge does not change, so judging stops as soon as an anchor
    has its negatives, and what is taken is what judging all of them would give.
    """

    def __init__(
        self, grouped: AnchorSet, corpus: MiningCorpus, config: MiningConfig, judge: Judge | None
    ) -> None:
        """Nothing is taken yet."""
        self._grouped = grouped
        self._corpus = corpus
        self._config = config
        self._judge = judge
        self.chosen: list[Candidates] = []  # the negatives of each anchor so far, nearest first
        self.taken: Counter[Filter] = Counter()
        self.judged = 0  # candidates that the judge was asked about
        self.seconds = 0.0  # spent by the judge

    def add(self, block: range, found: Sequence[Candidates]) -> None:
        """Take the negatives of a block of anchors; `found`: each one's candidates."""
        orders = [self._order(number, len(its)) for number, its in zip(block, found, strict=True)]
        accepted: list[list[int]] = [[] for _ in block]
        asked = [0] * len(block)
        judge = self._judge
        limits = np.empty(0, np.float32) if judge is None else self._limits(block, judge)
        while True:
            questions: list[_Question] = []
            for place, order in enumerate(orders):
                upto = asked[place] + self._config.per_anchor - len(accepted[place])
                questions += [(place, position) for position in order[asked[place] : upto]]
                asked[place] = min(upto, len(order))
            if not questions:
                break
            if judge is not None:
                questions = self._passing(block, found, questions, judge, limits)
            for place, position in questions:
                accepted[place].append(position)
        self.chosen += [
            its.at(np.array(sorted(positions), dtype=np.int64))
            for its, positions in zip(found, accepted, strict=True)
        ]

    def _order(self, number: int, count: int) -> list[int]:
        if self._config.sampling is NegativeSampling.TOP:
            return list(range(count))
        # A generator for each anchor: what one draws does not hang on what the others found.
        drawn: list[int] = np.random.default_rng((self._config.seed, number)).permutation(count).tolist()
        return drawn

    def _limits(self, block: range, judge: Judge) -> NDArray[np.float32]:
        """The score of each anchor's lowest positive, (anchors of the block,); what is above it goes."""
        anchors = self._grouped.anchors[block.start : block.stop]
        pairs = [(anchor.text, positive) for anchor in anchors for positive in anchor.positives]
        starts = np.cumsum([0] + [len(anchor.positives) for anchor in anchors[:-1]])
        return np.minimum.reduceat(self._scores(judge, pairs), starts)

    def _passing(
        self,
        block: range,
        found: Sequence[Candidates],
        questions: list[_Question],
        judge: Judge,
        limits: NDArray[np.float32],
    ) -> list[_Question]:
        self.judged += len(questions)
        texts = self._corpus.texts
        pairs = [
            (self._grouped.anchors[block[place]].text, texts[int(found[place].rows[position])])
            for place, position in questions
        ]
        dropped = self._scores(judge, pairs) > limits[[place for place, _ in questions]]
        self.taken[Filter.JUDGE] += int(dropped.sum())
        return [question for question, drop in zip(questions, dropped, strict=True) if not drop]

    def _scores(self, judge: Judge, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        started = perf_counter()
        scores = judge.scores(pairs)
        self.seconds += perf_counter() - started
        return scores


_BLOCK_ANCHORS: Final = 512  # anchors searched, filtered and judged together
_USUAL: Final = MiningConfig()


class MiningStage(StrEnum):
    """What is under way; its count is of texts, then of anchors."""

    ENCODING = "encoding"
    MINING = "mining"


MiningProgress: TypeAlias = Callable[[MiningStage, int, int], None]


def _unheard(_stage: MiningStage, _done: int, _total: int) -> None:
    return


def mine_negatives(
    pairs: Iterable[tuple[str, str]],
    corpus: MiningCorpus,
    encoder: VectorEncoder,
    config: MiningConfig = _USUAL,
    *,
    judge: Judge | None = None,
    progress: MiningProgress = _unheard,
) -> MinedNegatives:
    """Find, for each anchor, corpus texts that lie near it and do not belong to it.

    pairs:    (anchor, positive); the pairs of one anchor share its negatives
    encoder:  encodes anchors as queries, and positives and corpus as passages; vectors that the corpus brings
              along must be its own
    judge:    asked about the candidates that ranks, scores and margins leave, best first, until an anchor has
              its negatives; it drops what it scores above the anchor's lowest positive
    progress: told the stage, how much of it is done, and how much it is

    Ranks are those among the texts that the pairs do not put together with the anchor. Equal input and
    configuration give equal rows. The vectors are held in memory, 4 bytes a number, and the scores of a block
    of anchors alone. BadInputError when there are no pairs.

    Xiong et al. 2021 (ANCE), https://arxiv.org/abs/2007.00808; Moreira et al. 2024 (NV-Retriever),
    https://arxiv.org/abs/2407.15831
    """
    grouped = AnchorSet.of(pairs)
    started = perf_counter()
    vectors = pair_vectors(
        grouped, corpus, encoder, lambda done, total: progress(MiningStage.ENCODING, done, total)
    )
    encoded = perf_counter()
    ranking = AnchorRanking(grouped, corpus, vectors, config)
    selection = Selection(grouped, corpus, config, judge)
    total = len(grouped.anchors)
    for begin in range(0, total, _BLOCK_ANCHORS):
        block = range(begin, min(begin + _BLOCK_ANCHORS, total))
        selection.add(block, ranking.candidates(block))
        progress(MiningStage.MINING, block.stop, total)
    rows = tuple(mined_rows(grouped, corpus, selection.chosen, config))
    counts = np.array([len(its) for its in selection.chosen])
    used = [its for its in selection.chosen if len(its) >= config.least]
    scores = np.concatenate([np.empty(0), *(its.scores for its in used)])
    ranks = np.concatenate([np.empty(0), *(its.ranks for its in used)])
    report = MiningReport(
        encoder=encoder.name,
        corpus=corpus.name,
        judge=None if judge is None else judge.name,
        pairs=sum(len(anchor.positives) for anchor in grouped.anchors),
        repeated_pairs=grouped.repeated,
        anchors=total,
        corpus_texts=len(corpus.texts),
        repeated_texts=corpus.repeated,
        truncated=vectors.truncated,
        rows=len(rows),
        positive_score=float(np.mean(np.concatenate(vectors.positive_scores))),
        candidates=ranking.looked_at,
        taken={name.value: ranking.taken[name] + selection.taken[name] for name in Filter},
        judged=selection.judged,
        encoding_seconds=encoded - started,
        search_seconds=perf_counter() - encoded - selection.seconds,
        judging_seconds=selection.seconds,
        anchors_with_all=int((counts == config.per_anchor).sum()),
        anchors_with_some=int(((counts > 0) & (counts < config.per_anchor)).sum()),
        anchors_with_none=int((counts == 0).sum()),
        negatives=len(scores),
        negative_score=float(scores.mean()) if len(scores) else None,
        negative_rank=float(ranks.mean()) if len(ranks) else None,
    )
    return MinedNegatives(config.columns, rows, report)
