"""The threshold on a score that parts two classes best."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearsay.data.errors import BadInputError

__all__ = ["BestThreshold", "best_accuracy", "best_f1"]


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
