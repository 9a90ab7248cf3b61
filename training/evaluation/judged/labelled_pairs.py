"""Pairs labelled as the same or not, as a judged set."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.labelled_texts import read_labelled_texts
from nearsay.training.evaluation.encoded_texts import Progress
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    PairScorer,
    drawn_note,
    drawn_rows,
    scores_of_pairs,
)
from nearsay.training.evaluation.rank_metrics import average_precision, resampled_average_precision
from nearsay.training.evaluation.sts import Similarity, text_pair_similarities
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "read_pair_set",
]


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """What the best threshold reaches; chosen on the items that it is measured on, so a little too good."""

    figure: float  # 0 to 1
    threshold: float  # scores at or above it are positive; halfway between two scores


def best_f1(positive: ArrayLike, scores: ArrayLike) -> BestThreshold:
    """Give the highest F1 of the positive class over all thresholds, and the threshold.

    F1 = 2 · true positives / (positives + predicted positives); of equal ones the highest threshold

    positive: (items,) 0 or 1; scores: (items,), higher should be positive
    Raises BadInputError without a positive item. As in MTEB's pair classification (Muennighoff et al. 2023,
    https://arxiv.org/abs/2210.07316).
    """
    found, taken, thresholds = _cuts(positive, scores)
    return _best(2 * found / (found[-1] + taken), thresholds)


def best_accuracy(positive: ArrayLike, scores: ArrayLike) -> BestThreshold:
    """Give the highest accuracy over all thresholds, and the threshold.

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


_SAME: Final = frozenset({"1", "1.0", "true", "yes", "same", "duplicate", "paraphrase"})
_DIFFERENT: Final = frozenset({"0", "0.0", "false", "no", "different", "not_duplicate", "not_paraphrase"})


@dataclass(frozen=True, slots=True)
class PairSet:
    """Pairs that mean the same or not; average precision of the cosine decides."""

    kind: ClassVar = EvaluationKind.PAIRS
    name: str
    pairs: tuple[tuple[str, str], ...]
    same: tuple[bool, ...]  # of each pair
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)

    def texts(self) -> Iterator[str]:
        """Both texts of each pair."""
        for pair in self.pairs:
            yield from pair

    def held_out(self) -> Iterator[tuple[str, str]]:
        """The pairs."""
        return iter(self.pairs)

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its pairs."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        return replace(
            self,
            pairs=tuple(self.pairs[row] for row in rows),
            same=tuple(self.same[row] for row in rows),
            notes=(*self.notes, drawn_note(self.name, len(rows), len(self), seed)),
        )

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """As `pair_figures`; raises BadInputError when no pair means the same."""
        started = perf_counter()
        similarities, truncated = text_pair_similarities(
            encoder,
            [first for first, _ in self.pairs],
            [second for _, second in self.pairs],
            progress=progress,
        )
        return self._outcome(similarities, truncated, started)

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """As `measure`, by a cross-encoder's scores alone."""
        started = perf_counter()
        scores = scores_of_pairs(scorer, self.pairs, progress).astype(np.float64)
        return self._outcome({Similarity.COSINE: scores}, scorer.cut(self.pairs), started)

    def _outcome(
        self, similarities: Mapping[Similarity, NDArray[np.float64]], truncated: int, started: float
    ) -> Outcome:
        same = np.array(self.same, dtype=np.bool_)
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics=pair_figures(similarities, same),
            main="average_precision",
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=resampled_average_precision(same, similarities[Similarity.COSINE]),
            details={"pairs": len(self), "same": int(same.sum())},
        )


def pair_figures(
    similarities: Mapping[Similarity, NDArray[np.float64]], same: NDArray[np.bool_]
) -> dict[str, float]:
    """Give average precision, best F1 and best accuracy with their thresholds, for each similarity.

    The cosine's have plain names, the others' a name behind, as `best_f1_dot`. A distance's threshold is told
    as a distance: pairs at or below it are the same.
    """
    figures: dict[str, float] = {}
    for similarity, values in similarities.items():
        sign = -1 if similarity.is_distance else 1
        end = similarity.suffix
        f1, accuracy = best_f1(same, values), best_accuracy(same, values)
        figures[f"average_precision{end}"] = average_precision(same, values)
        figures[f"best_f1{end}"] = f1.figure
        figures[f"best_f1_threshold{end}"] = sign * f1.threshold
        figures[f"best_accuracy{end}"] = accuracy.figure
        figures[f"best_accuracy_threshold{end}"] = sign * accuracy.threshold
    return figures


def read_pair_set(path: Path, name: str) -> PairSet:
    """Read pairs with a label of 0 or 1 (or true, duplicate, …); BadInputError names a row of another one."""
    found = read_labelled_texts(path)
    pairs, same = [], []
    for row in found.rows:
        label = row.label.lower()
        if row.pair is None or label not in _SAME | _DIFFERENT:
            raise BadInputError(
                f"{path}:{row.line}: a pair's label is 0 or 1, and this row has {row.label!r} for "
                f"{'one text' if row.pair is None else 'two texts'}. Mend the row, or name another kind"
            )
        pairs.append((row.text, row.pair))
        same.append(label in _SAME)
    return PairSet(name, tuple(pairs), tuple(same), tuple(found.notes))
