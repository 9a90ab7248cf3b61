"""From the ranking of an anchor to the texts that may be its negatives."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.report import Report
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus


@dataclass(frozen=True, slots=True)
class Anchor:
    """A text, and its positives in the order of the pairs."""

    text: str
    key: str
    positives: tuple[str, ...]  # each once, at least one


@dataclass(frozen=True, slots=True)
class AnchorSet:
    """The anchors in the order of the pairs, and which texts the pairs put together."""

    anchors: tuple[Anchor, ...]
    partners: Mapping[str, Set[str]]  # a text's key to the keys of all texts that it is paired with
    repeated: int  # pairs that were there before

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "AnchorSet":
        """Group pairs (anchor, positive) by anchor; BadInputError when there are none.

        A pair of a text with itself says nothing about the text's neighbours and counts as repeated.
        """
        texts: dict[str, str] = {}
        positives: dict[str, dict[str, str]] = {}
        partners: dict[str, set[str]] = {}
        repeated = 0
        for anchor, positive in pairs:
            key, other = normalised_text(anchor), normalised_text(positive)
            mine = positives.setdefault(key, {})
            if other in mine or other == key:
                repeated += 1
                continue
            texts.setdefault(key, anchor)
            mine[other] = positive
            partners.setdefault(key, set()).add(other)
            partners.setdefault(other, set()).add(key)
        anchors = tuple(Anchor(text, key, tuple(positives[key].values())) for key, text in texts.items())
        if not anchors:
            raise BadInputError("there are no pairs of two different texts. Give (anchor, positive) pairs")
        return cls(anchors, partners, repeated)

    def positives(self) -> Iterable[str]:
        """The positives, anchor by anchor."""
        return (positive for anchor in self.anchors for positive in anchor.positives)

    def belongs(self, anchor: Anchor, key: str) -> bool:
        """Whether a text is no negative for an anchor, by what the pairs say.

        It is the anchor itself, is paired with it (as its positive or the other way round), or shares a
        partner with it: two questions with one answer, or a duplicate's duplicate.
        """
        mine = self.partners[anchor.key]
        return key == anchor.key or key in mine or not mine.isdisjoint(self.partners.get(key, ()))


class Filter(StrEnum):
    """What takes a candidate away, in the order in which they are asked."""

    KNOWN = "known"
    RANK = "rank"
    MIN_SCORE = "min-score"
    MAX_SCORE = "max-score"
    ABSOLUTE_MARGIN = "absolute-margin"
    RELATIVE_MARGIN = "relative-margin"
    JUDGE = "judge"  # the cross-encoder, or what scores in its place

    @property
    def reason(self) -> str:
        """Why a text was left out, for people."""
        return _REASONS[self]


_REASONS: Final = {
    Filter.KNOWN: "known to belong to the anchor",
    Filter.RANK: "nearer than the first rank",
    Filter.MIN_SCORE: "below the lowest score",
    Filter.MAX_SCORE: "above the highest score",
    Filter.ABSOLUTE_MARGIN: "within the absolute margin",
    Filter.RELATIVE_MARGIN: "within the relative margin",
    Filter.JUDGE: "false negatives to a judge",
}


@dataclass(frozen=True, slots=True)
class Candidates:
    """Corpus texts in falling order of score; all arrays (candidates,)."""

    rows: NDArray[np.int64]  # in the corpus
    scores: NDArray[np.float32]  # cosine similarity to the anchor
    ranks: NDArray[np.int64]  # 1 = the nearest that is not known to belong to the anchor

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, positions: NDArray[np.int64] | NDArray[np.bool_]) -> "Candidates":
        """The candidates at positions, or where a mask is true."""
        return Candidates(self.rows[positions], self.scores[positions], self.ranks[positions])


def candidates(
    rows: NDArray[np.int64],
    scores: NDArray[np.float32],
    known: NDArray[np.bool_],
    positive: float,
    config: MiningConfig,
) -> tuple[Candidates, Counter[Filter]]:
    """Return what ranks, margins and score bounds leave of an anchor's ranking, and how many each took.

    rows, scores: (k,), best first
    known:        (k,), True = belongs to the anchor; such texts are taken away before ranks are counted
    positive:     the lowest score of the anchor's positives

    A candidate counts for the first filter that takes it; texts beyond the last rank are not counted at all.
    """
    kept = np.flatnonzero(~known)[: config.last_rank]
    left = Candidates(rows[kept], scores[kept], np.arange(1, len(kept) + 1, dtype=np.int64))
    looked_at = len(known) if len(kept) < config.last_rank else int(kept[-1]) + 1
    taken = Counter({Filter.KNOWN: int(known[:looked_at].sum())})
    alive = np.ones(len(left), dtype=np.bool_)
    for name, passes in _bounds(left, positive, config):
        taken[name] += int((alive & ~passes).sum())
        alive &= passes
    return left.at(alive), taken


def _bounds(
    left: Candidates, positive: float, config: MiningConfig
) -> Iterator[tuple[Filter, NDArray[np.bool_]]]:
    yield Filter.RANK, left.ranks >= config.first_rank
    if config.min_score is not None:
        yield Filter.MIN_SCORE, left.scores >= config.min_score
    if config.max_score is not None:
        yield Filter.MAX_SCORE, left.scores <= config.max_score
    if config.absolute_margin is not None:
        yield Filter.ABSOLUTE_MARGIN, left.scores <= positive - config.absolute_margin
    if config.relative_margin is not None:
        # Not (1 - margin) times the score: of a positive below 0 that would be above it.
        yield Filter.RELATIVE_MARGIN, left.scores <= positive - abs(positive) * config.relative_margin


@dataclass(frozen=True, slots=True)
class MiningReport(Report):
    """How the negatives came about; scores are cosine similarities by the mining encoder."""

    REPORT: ClassVar = "mined negatives"

    encoder: str
    corpus: str
    judge: str | None
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
    judged: int  # candidates that the judge was asked about
    encoding_seconds: float
    search_seconds: float  # with the filters
    judging_seconds: float
    out: Path | None = None  # the file that they were written to


@dataclass(frozen=True, slots=True)
class MinedNegatives:
    """Rows of anchor, positive, negative_1, …, all equally wide, in the order of the anchors."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    report: MiningReport


def mined_rows(
    grouped: AnchorSet, corpus: MiningCorpus, chosen: Sequence[Candidates], config: MiningConfig
) -> Iterator[tuple[str, ...]]:
    """Return a row for each pair whose anchor has enough negatives (for each of its negatives, as triplets).

    chosen: the negatives of each anchor
    """
    for anchor, found in zip(grouped.anchors, chosen, strict=True):
        if len(found) < config.least:
            continue
        negatives = [corpus.texts[row] for row in found.rows.tolist()]
        for positive in anchor.positives:
            if config.triplets:
                yield from ((anchor.text, positive, negative) for negative in negatives)
            else:
                yield (anchor.text, positive, *negatives)
