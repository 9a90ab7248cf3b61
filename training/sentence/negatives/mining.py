"""Hard negatives for pairs: texts near the anchor that do not belong to it."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from time import perf_counter
from typing import Final, TypeAlias, TypedDict

import numpy as np

from nearsay.training.sentence.negatives.anchors import AnchorSet
from nearsay.training.sentence.negatives.candidates import Candidates, Filter
from nearsay.training.sentence.negatives.judges import Judge
from nearsay.training.sentence.negatives.mined import MinedNegatives, MiningReport, mined_rows
from nearsay.training.sentence.negatives.mining_config import MiningConfig
from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus
from nearsay.training.sentence.negatives.nearest_texts import require_faiss
from nearsay.training.sentence.negatives.pair_vectors import pair_vectors
from nearsay.training.sentence.negatives.ranking import AnchorRanking
from nearsay.training.sentence.negatives.selection import Selection
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["MiningProgress", "MiningStage", "mine_negatives"]

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
    encoder: TextEncoder,
    config: MiningConfig = _USUAL,
    *,
    judges: Sequence[Judge] = (),
    progress: MiningProgress = _unheard,
) -> MinedNegatives:
    """Find, for each anchor, corpus texts that lie near it and do not belong to it.

    pairs:    (anchor, positive); the pairs of one anchor share its negatives
    encoder:  encodes anchors as queries, and positives and corpus as passages; vectors that the corpus brings
              along must be its own
    judges:   asked in turn about the candidates that ranks, scores and margins leave, best first, until an
              anchor has its negatives; with a judge that drops none the result is the same as without
    progress: told the stage, how much of it is done, and how much it is

    Ranks are those among the texts that the pairs do not put together with the anchor. Equal input and
    configuration give equal rows. The vectors are held in memory, 4 bytes a number, and the scores of a block
    of anchors alone. BadInputError when there are no pairs, MissingExtraError without FAISS.

    Xiong et al. 2021 (ANCE), https://arxiv.org/abs/2007.00808; Moreira et al. 2024 (NV-Retriever),
    https://arxiv.org/abs/2407.15831
    """
    require_faiss()
    grouped = AnchorSet.of(pairs)
    started = perf_counter()
    vectors = pair_vectors(
        grouped, corpus, encoder, lambda done, total: progress(MiningStage.ENCODING, done, total)
    )
    encoded = perf_counter()
    ranking = AnchorRanking(grouped, corpus, vectors, config)
    selection = Selection(grouped, corpus, config, judges)
    total = len(grouped.anchors)
    for begin in range(0, total, _BLOCK_ANCHORS):
        block = range(begin, min(begin + _BLOCK_ANCHORS, total))
        selection.add(block, ranking.candidates(block))
        progress(MiningStage.MINING, block.stop, total)
    rows = mined_rows(grouped, corpus, selection.chosen, config)
    report = MiningReport(
        encoder=encoder.name,
        corpus=corpus.name,
        judges=tuple(judge.name for judge in judges),
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
        **_found(selection.chosen, config),
    )
    return MinedNegatives(config.columns, rows, report)


class _Found(TypedDict):
    """The part of the report that tells of the negatives."""

    anchors_with_all: int
    anchors_with_some: int
    anchors_with_none: int
    negatives: int
    negative_score: float | None
    negative_rank: float | None


def _found(chosen: Sequence[Candidates], config: MiningConfig) -> _Found:
    counts = np.array([len(its) for its in chosen])
    used = [its for its in chosen if len(its) >= config.least]
    scores = [float(score) for its in used for score in its.scores]
    ranks = [int(rank) for its in used for rank in its.ranks]
    return {
        "anchors_with_all": int((counts == config.per_anchor).sum()),
        "anchors_with_some": int(((counts > 0) & (counts < config.per_anchor)).sum()),
        "anchors_with_none": int((counts == 0).sum()),
        "negatives": len(scores),
        "negative_score": float(np.mean(scores)) if scores else None,
        "negative_rank": float(np.mean(ranks)) if ranks else None,
    }
