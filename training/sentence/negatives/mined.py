"""What mining gives: rows to train on, and how they came about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from nearsay.training.sentence.negatives.anchors import AnchorSet
from nearsay.training.sentence.negatives.candidates import Candidates
from nearsay.training.sentence.negatives.mining_config import MiningConfig
from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus

__all__ = ["MinedNegatives", "MiningReport", "mined_rows"]


@dataclass(frozen=True, slots=True)
class MiningReport:
    """How the negatives came about; scores are cosine similarities by the mining encoder."""

    encoder: str
    corpus: str
    judges: tuple[str, ...]
    pairs: int  # different ones
    repeated_pairs: int  # left out: there before, or of a text with itself
    anchors: int
    corpus_texts: int  # different ones
    repeated_texts: int  # of the corpus, left out
    truncated: int  # anchors, positives and corpus texts cut at the encoder's length limit
    rows: int  # one for each pair whose anchor has its negatives
    anchors_with_all: int  # as many negatives as were asked for
    anchors_with_some: int
    anchors_with_none: int
    negatives: int  # over all anchors that are in the rows, each anchor counted once
    positive_score: float  # mean over the pairs
    negative_score: float | None  # mean over the negatives; None: there are none
    negative_rank: float | None  # mean rank; 1 = the nearest text not known to belong to the anchor
    candidates: int  # texts between the first and the last rank, over all anchors
    taken: Mapping[str, int]  # by `Filter`: the texts that it took away, over all anchors
    judged: int  # candidates that the judges were asked about
    encoding_seconds: float
    search_seconds: float  # with the filters
    judging_seconds: float


@dataclass(frozen=True, slots=True)
class MinedNegatives:
    """Rows of anchor, positive, negative_1, …, all equally wide, in the order of the anchors."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    report: MiningReport


def mined_rows(
    grouped: AnchorSet, corpus: MiningCorpus, chosen: Sequence[Candidates], config: MiningConfig
) -> tuple[tuple[str, ...], ...]:
    """Give a row for each pair whose anchor has enough negatives (for each of its negatives, as triplets).

    chosen: the negatives of each anchor; a row that lacks some repeats those that it has in turn
    """
    return tuple(_rows(grouped, corpus, chosen, config))


def _rows(
    grouped: AnchorSet, corpus: MiningCorpus, chosen: Sequence[Candidates], config: MiningConfig
) -> Iterator[tuple[str, ...]]:
    for anchor, found in zip(grouped.anchors, chosen, strict=True):
        if len(found) < config.least:
            continue
        negatives = [corpus.texts[row] for row in found.rows.tolist()]
        for positive in anchor.positives:
            if config.triplets:
                yield from ((anchor.text, positive, negative) for negative in negatives)
            else:
                yield (anchor.text, positive, *islice(cycle(negatives), config.per_anchor))
