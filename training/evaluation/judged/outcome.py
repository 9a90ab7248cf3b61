"""What an encoder reached on one judged set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.training.evaluation.judged.kind import EvaluationKind

__all__ = ["Outcome", "mean_of_drawn"]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The figures of one encoder on one set, and what is needed to say how sure they are."""

    name: str  # the set's
    kind: EvaluationKind
    metrics: Mapping[str, float]  # by name; correlations times 100, everything else 0 to 1
    main: str  # the name of the figure that decides; higher is better
    items: int  # what is drawn for an interval: pairs, triplets, queries, texts
    truncated: int  # texts that were cut at the encoder's length limit
    seconds: float  # encoding included
    resampled: Callable[[NDArray[np.int64]], float]  # the main figure over items drawn with replacement,
    # given by their numbers; NaN where it is not defined on them
    details: Mapping[str, JsonValue] = field(default_factory=dict)  # counts and settings beside the figures

    @property
    def figure(self) -> float:
        """The figure that decides."""
        return self.metrics[self.main]


def mean_of_drawn(each: NDArray[np.float64]) -> Callable[[NDArray[np.int64]], float]:
    """Give the `resampled` of a figure that is the mean of one value an item, (items,)."""
    return lambda drawn: float(each[drawn].mean())
