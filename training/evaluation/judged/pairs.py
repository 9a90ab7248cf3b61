"""Pairs with people's scores, or labelled as the same or not, as judged sets."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    PairScorer,
    Row,
    RowSet,
    scores_of_pairs,
)
from nearsay.training.evaluation.rank_metrics import average_precision, resampled_average_precision
from nearsay.training.evaluation.sts import Similarity, sts_figures, text_pair_similarities
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """What the best threshold reaches; chosen on the items that it is measured on, so a little too good."""

    figure: float  # 0 to 1
    threshold: float  # scores at or above it are positive; halfway between two scores


def best_f1(positive: ArrayLike, scores: ArrayLike) -> BestThreshold:
    """Return the highest F1 of the positive class over all thresholds, and the threshold.

    F1 = 2 · true positives / (positives + predicted positives); of equal ones the highest threshold

    positive: (items,) 0 or 1; scores: (items,), higher should be positive
    Raises BadInputError without a positive item. As in MTEB's pair classification (Muennighoff et al. 2023,
    https://arxiv.org/abs/2210.07316).
    """
    found, taken, thresholds = _cuts(positive, scores)
    return _best(2 * found / (found[-1] + taken), thresholds)


def best_accuracy(positive: ArrayLike, scores: ArrayLike) -> BestThreshold:
    """Return the highest accuracy over all thresholds, and the threshold.

    accuracy = (true positives + true negatives) / items; of equal ones the highest threshold
    As `best_f1`.
    """
    found, taken, thresholds = _cuts(positive, scores)
    negatives = taken[-1] - found[-1]
    return _best((found + negatives - (taken - found)) / taken[-1], thresholds)


def _cuts(
    positive: ArrayLike, scores: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """True and predicted positives at each threshold, from one above all scores to the lowest of them."""
    flags, values = np.asarray(positive, dtype=np.bool_), np.asarray(scores, dtype=np.float64)
    if flags.shape != values.shape or flags.ndim != 1 or not flags.any():
        raise BadInputError(
            f"a threshold needs one score for each item and at least one positive item; there are "
            f"{values.size} scores and {int(flags.sum())} positive of {flags.size}. Give some of each"
        )
    order = np.argsort(-values, kind="stable")
    flags, values = flags[order], values[order]
    ends = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)
    found = np.concatenate([[0], np.cumsum(flags)[ends]])
    taken = np.concatenate([[0], ends + 1])
    distinct = values[ends]
    between = (distinct[:-1] + distinct[1:]) / 2
    # Of two neighbouring numbers the half may be the lower one, which must stay below the threshold.
    between = np.where(between > distinct[1:], between, distinct[:-1])
    return found, taken, np.concatenate([[np.nextafter(distinct[0], np.inf)], between, distinct[-1:]])


def _best(figures: NDArray[np.float64], thresholds: NDArray[np.float64]) -> BestThreshold:
    place = int(np.argmax(figures))
    return BestThreshold(float(figures[place]), float(thresholds[place]))


def resampled_spearman(first: ArrayLike, second: ArrayLike) -> Callable[[NDArray[np.int64]], float]:
    """Return a function from the numbers of drawn pairs to Spearman's rho of them, times 100.

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


class _Pairs(RowSet[Row]):
    """Pairs whose similarities are compared with what people said of them."""

    def measure(self, encoder: VectorEncoder, progress: Progress | None = None) -> Outcome:
        """By the similarities of vectors; BadInputError where the figures are not defined."""
        started = perf_counter()
        first, second = zip(*map(self.texts_of, self.rows), strict=True) if self.rows else ((), ())
        similarities, truncated = text_pair_similarities(encoder, first, second, progress=progress)
        return self._outcome(similarities, truncated, started)

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """As `measure`, by a cross-encoder's scores alone."""
        started = perf_counter()
        pairs = [self.texts_of(row) for row in self.rows]
        scores = scores_of_pairs(scorer, pairs, progress).astype(np.float64)
        return self._outcome({Similarity.COSINE: scores}, scorer.cut(pairs), started)

    @abstractmethod
    def texts_of(self, row: Row) -> tuple[str, str]:
        """The two texts of a pair."""

    @abstractmethod
    def _outcome(
        self, similarities: Mapping[Similarity, NDArray[np.float64]], truncated: int, started: float
    ) -> Outcome:
        """What the similarities reach."""


class StsSet(_Pairs[ScoredPair]):
    """Pairs with people's scores; Spearman's correlation with the cosine decides."""

    kind = EvaluationKind.STS

    def texts_of(self, row: ScoredPair) -> tuple[str, str]:
        """Both sentences."""
        return row.sentence1, row.sentence2

    def _outcome(
        self, similarities: Mapping[Similarity, NDArray[np.float64]], truncated: int, started: float
    ) -> Outcome:
        scores = [pair.score for pair in self.rows]
        return self.outcome(
            sts_figures(similarities, scores),
            resampled_spearman(similarities[Similarity.COSINE], scores),
            truncated=truncated,
            started=started,
            details={"pairs": len(self)},
        )


class PairSet(_Pairs[tuple[str, str, bool]]):
    """Pairs, and whether they mean the same; average precision of the cosine decides."""

    kind = EvaluationKind.PAIRS

    def texts_of(self, row: tuple[str, str, bool]) -> tuple[str, str]:
        """Both texts."""
        return row[0], row[1]

    def _outcome(
        self, similarities: Mapping[Similarity, NDArray[np.float64]], truncated: int, started: float
    ) -> Outcome:
        same = np.array([same for _, _, same in self.rows], dtype=np.bool_)
        return self.outcome(
            pair_figures(similarities, same),
            resampled_average_precision(same, similarities[Similarity.COSINE]),
            truncated=truncated,
            started=started,
            details={"pairs": len(self), "same": int(same.sum())},
        )


def pair_figures(
    similarities: Mapping[Similarity, NDArray[np.float64]], same: NDArray[np.bool_]
) -> dict[str, float]:
    """Return average precision, best F1 and best accuracy with their thresholds, for each similarity.

    The cosine's have plain names, the others' a name behind, as `best_f1_dot`. A distance's threshold is told
    as a distance: pairs at or below it are the same.
    """
    figures: dict[str, float] = {}
    for similarity, values in similarities.items():
        sign = -1 if similarity in {Similarity.EUCLIDEAN, Similarity.MANHATTAN} else 1
        end = similarity.suffix
        f1, accuracy = best_f1(same, values), best_accuracy(same, values)
        figures[f"average_precision{end}"] = average_precision(same, values)
        figures[f"best_f1{end}"] = f1.figure
        figures[f"best_f1_threshold{end}"] = sign * f1.threshold
        figures[f"best_accuracy{end}"] = accuracy.figure
        figures[f"best_accuracy_threshold{end}"] = sign * accuracy.threshold
    return figures
