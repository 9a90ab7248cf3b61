"""Scored pairs as a judged set."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.encoded_texts import Progress
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    PairScorer,
    drawn_note,
    drawn_rows,
    scores_of_pairs,
)
from nearsay.training.evaluation.sts import Similarity, sts_figures, text_pair_similarities
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "StsSet",
]


def resampled_spearman(first: ArrayLike, second: ArrayLike) -> Callable[[NDArray[np.int64]], float]:
    """Give a function from the numbers of drawn pairs to Spearman's rho of them, times 100.

    The values are sorted once; a draw is ranked by counting, equal values sharing the average of their ranks.
    It gives NaN where one side of a draw is the same throughout.
    """
    sides = []
    for values in (first, second):
        distinct, place = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)
        sides.append((len(distinct), place))

    def spearman(drawn: NDArray[np.int64]) -> float:
        x, y = (_centred_ranks(place[drawn], size) for size, place in sides)
        scale = float(np.sqrt((x @ x) * (y @ y)))
        return 100 * float(x @ y) / scale if scale else float("nan")

    return spearman


def _centred_ranks(places: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Ranks less their mean, which is (items + 1) / 2 whatever the ties."""
    counts = np.bincount(places, minlength=size)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(ranks[places] - (len(places) + 1) / 2, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class StsSet:
    """Pairs with people's scores; Spearman's correlation with the cosine decides."""

    kind: ClassVar = EvaluationKind.STS
    name: str
    pairs: tuple[ScoredPair, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)

    def texts(self) -> Iterator[str]:
        """Both sentences of each pair."""
        for pair in self.pairs:
            yield pair.sentence1
            yield pair.sentence2

    def held_out(self) -> Iterator[tuple[str, ...]]:
        """The pairs."""
        for pair in self.pairs:
            yield pair.sentence1, pair.sentence2

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its pairs."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        note = drawn_note(self.name, len(rows), len(self), seed)
        return replace(self, pairs=tuple(self.pairs[row] for row in rows), notes=(*self.notes, note))

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """As `evaluate_sts`; raises BadInputError for fewer than 2 pairs, or one score throughout."""
        started = perf_counter()
        similarities, truncated = text_pair_similarities(
            encoder,
            [pair.sentence1 for pair in self.pairs],
            [pair.sentence2 for pair in self.pairs],
            progress=progress,
        )
        return self._outcome(similarities, truncated, started)

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """As `measure`, by a cross-encoder's scores alone."""
        started = perf_counter()
        pairs = [(pair.sentence1, pair.sentence2) for pair in self.pairs]
        scores = scores_of_pairs(scorer, pairs, progress).astype(np.float64)
        return self._outcome({Similarity.COSINE: scores}, scorer.cut(pairs), started)

    def _outcome(
        self, similarities: Mapping[Similarity, NDArray[np.float64]], truncated: int, started: float
    ) -> Outcome:
        scores = [pair.score for pair in self.pairs]
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics=sts_figures(similarities, scores),
            main="spearman",
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=resampled_spearman(similarities[Similarity.COSINE], scores),
            details={"pairs": len(self)},
        )
