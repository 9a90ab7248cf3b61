"""How sure a figure, or the difference of two, is: the bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.judged_set import Outcome, mean_of_drawn


@dataclass(frozen=True, slots=True)
class Interval:
    """Between which two values a figure lies at the level that was asked for."""

    low: float
    high: float


def bootstrap_interval(
    outcome: Outcome, *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Return the percentile interval of an outcome's main figure over its items drawn with replacement.

    draws: how often as many items as there are are drawn; seed: of the drawing; level: 0 to 1
    It tells how the figure would vary with other items of the same kind, not with another training seed.
    Draws on which the figure is not defined are left out. Raises BadInputError for draws under 1, for a level
    that is not between 0 and 1, and when no draw gives a figure.

    Efron & Tibshirani 1993, chapter 13; for systems' scores: Koehn 2004, https://aclanthology.org/W04-3250/
    """
    return _interval(outcome.resampled, outcome.items, draws=draws, seed=seed, level=level)


def bootstrap_difference(
    before: Outcome, after: Outcome, *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Return the percentile interval of `after` less `before`: the same items are drawn for both.

    As `bootstrap_interval`; `beyond_chance` says what follows from it. Raises BadInputError too when the two
    were not measured on the same set. Paired: Koehn 2004, section 5.
    """
    if (before.name, before.kind, before.items) != (after.name, after.kind, after.items):
        raise BadInputError(
            f"{before.name} ({before.kind}, {before.items} items) and {after.name} ({after.kind}, "
            f"{after.items} items) are not the same set. Compare figures of one set"
        )
    return _interval(
        lambda drawn: after.resampled(drawn) - before.resampled(drawn),
        before.items,
        draws=draws,
        seed=seed,
        level=level,
    )


def interval_of_mean(
    each: NDArray[np.float64], *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Return the percentile interval of a mean over items, (items,); as `bootstrap_interval`."""
    return _interval(mean_of_drawn(each), len(each), draws=draws, seed=seed, level=level)


def _interval(
    figure: Callable[[NDArray[np.int64]], float], items: int, *, draws: int, seed: int, level: float
) -> Interval:
    if draws < 1 or not 0 < level < 1:
        raise BadInputError(
            f"an interval at the level {level} from {draws} draws is asked for; "
            "give a level between 0 and 1 and 1 draw or more (0.95 and 1000 are usual)"
        )
    random = np.random.default_rng(seed)
    figures = np.array([figure(random.integers(items, size=items)) for _ in range(draws)])
    figures = figures[~np.isnan(figures)]
    if not len(figures):
        raise BadInputError(
            f"the figure is not defined on any of {draws} draws of {items} items. Give more items"
        )
    low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
