"""When a run that no longer gets better is ended."""

import math
from collections.abc import Mapping

__all__ = ["Patience"]


class Patience:
    """Counts the evaluations since the best one.

    Prechelt 1998, "Early stopping: but when?", https://doi.org/10.1007/3-540-49430-8_3
    """

    def __init__(self, metric: str | None = None, most: int | None = None) -> None:
        """`metric`: higher is better; `most`: evaluations in a row without a new best; None never ends."""
        self._metric = metric
        self._most = most
        self._best = -math.inf
        self._since = 0

    def count(self, evaluation: Mapping[str, float]) -> None:
        """Take note of one evaluation; one that equals the best, or is NaN, is not better."""
        if self._metric is None or self._metric not in evaluation:
            return
        if evaluation[self._metric] > self._best:
            self._best, self._since = evaluation[self._metric], 0
        else:
            self._since += 1

    @property
    def limited(self) -> bool:
        """Whether it can end a run at all."""
        return self._most is not None

    @property
    def ended(self) -> bool:
        """Whether the run is to end."""
        return self._most is not None and self._since >= self._most
