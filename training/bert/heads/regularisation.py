"""How strongly a linear head is held back: chosen by trying."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.training.bert.heads.linear_head import LinearHead, fit_linear_head

__all__ = ["REGULARISATIONS", "ChosenHead", "chosen_head", "every_tenth"]

REGULARISATIONS: Final = (0.001, 0.01, 0.1, 1.0)  # C, the inverse of the penalty's strength


@dataclass(frozen=True, slots=True)
class ChosenHead:
    """The head that was best."""

    head: LinearHead
    regularisation: float  # its C
    tried: tuple[tuple[float, float], ...]  # each C and its figure
    seconds: float  # of fitting and measuring

    def lines(self, figure: str) -> list[dict[str, JsonValue]]:
        """What was tried, as lines of a run's metrics, by the figure's name; a try counts as a step."""
        return [
            {"step": step, "regularisation": regularisation, "evaluation": {figure: reached}}
            for step, (regularisation, reached) in enumerate(self.tried, 1)
        ]


def chosen_head(
    vectors: NDArray[np.float32],
    targets: NDArray[np.int64],
    figure: Callable[[LinearHead], float],
    *,
    labels: int,
    held_out: NDArray[np.bool_] | None,
    regularisations: Sequence[float] = REGULARISATIONS,
) -> ChosenHead:
    """Fit a head for each C, measure it, and keep the best; of equals the one that is held back most.

    vectors:  (rows, width) float32; targets: (rows,) numbers of labels
    figure:   higher is better; measured on the dev rows, or on those held out
    held_out: (rows,) bool, rows that are not fitted on while C is chosen; the head that is kept is fitted on
              all of them. None: there are dev rows, and every fit has all others
    """
    begun = perf_counter()
    tried: list[tuple[float, float]] = []
    best: LinearHead | None = None
    fitted = slice(None) if held_out is None else ~held_out
    for regularisation in sorted(regularisations):
        head = fit_linear_head(vectors[fitted], targets[fitted], labels=labels, regularisation=regularisation)
        reached = figure(head)
        if best is None or reached > max(found for _, found in tried):
            best, chosen = head, regularisation
        tried.append((regularisation, reached))
    if best is None:
        raise ValueError("there is no regularisation to try")
    if held_out is not None:
        best = fit_linear_head(vectors, targets, labels=labels, regularisation=chosen)
    return ChosenHead(best, chosen, tuple(tried), perf_counter() - begun)


def every_tenth(rows: int) -> NDArray[np.bool_]:
    """Hold out every tenth row, or the last of fewer than ten; (rows,) bool."""
    held_out: NDArray[np.bool_] = np.arange(rows) % 10 == 9
    if not held_out.any():
        held_out[-1:] = True
    return held_out
