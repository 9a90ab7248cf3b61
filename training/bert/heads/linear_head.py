"""A linear layer on vectors that are not trained: the feature-based way."""

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError, NearsayError

logger = logging.getLogger("nearsay")

_ITERATIONS: Final = 500
_NEVER: Final = -1e4  # the bias of a label that no example has
_FILE: Final = "head/linear.safetensors"  # in a folder of its own: it is none of the encoder's weights


@dataclass(frozen=True, slots=True, eq=False)
class LinearHead:
    """A linear layer: scores for labels are weights times a vector, plus bias."""

    weights: NDArray[np.float32]  # (labels, width)
    bias: NDArray[np.float32]  # (labels,)

    @property
    def width(self) -> int:
        """Dimension of its input."""
        return int(self.weights.shape[1])

    def logits(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute logits of vectors (rows, width) float32; returns (rows, labels) float32."""
        return vectors @ self.weights.T + self.bias

    def save(self, folder: Path) -> None:
        """Write it to a folder as safetensors, atomically."""
        from safetensors.numpy import save

        with replacing(folder / _FILE) as stream:
            stream.write(save({"weight": self.weights, "bias": self.bias}))

    @classmethod
    def load(cls, folder: Path) -> "LinearHead":
        """Read it from a folder; NearsayError if it is missing or damaged."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            tensors = load_file(folder / _FILE)
            return cls(tensors["weight"], tensors["bias"])
        except (OSError, SafetensorError, KeyError) as error:
            raise NearsayError(
                f"the head in {folder / _FILE} cannot be read ({error}). "
                "Copy the folder again, or train it again"
            ) from error


def fit_linear_head(
    vectors: NDArray[np.float32],
    targets: NDArray[np.int64],
    *,
    labels: int,
    regularisation: float,
) -> LinearHead:
    """Fit multinomial logistic regression, with an L2 penalty, on standardised vectors.

    vectors: (rows, width) float32, not standardised; the scaling is folded into the weights
    targets: (rows,) numbers of labels from 0; a label without a row is never predicted
    regularisation: C, the inverse of the penalty's strength

    Raises BadInputError if all rows have one label. Deterministic; a fit that did not converge is logged.
    Hastie, Tibshirani & Friedman 2009, section 4.4; https://scikit-learn.org
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(targets)) < 2:
        raise BadInputError("all rows have one label; a head tells at least two apart. Give rows of another")
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    deviation = np.maximum(vectors.std(axis=0, dtype=np.float64).astype(np.float32), 1e-6)
    scaled = (vectors - mean) / deviation
    model = LogisticRegression(C=regularisation, max_iter=_ITERATIONS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(scaled, targets)
    if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        logger.warning(
            "the linear head had not come to rest after %d iterations at C = %g", _ITERATIONS, regularisation
        )
    coefficients, intercepts = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # scikit-learn keeps the second label's row alone
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
    weights = np.zeros((labels, vectors.shape[1]), dtype=np.float32)
    bias = np.full(labels, _NEVER, dtype=np.float32)
    weights[model.classes_] = coefficients / deviation
    bias[model.classes_] = intercepts - (coefficients / deviation) @ mean
    return LinearHead(weights, bias)


REGULARISATIONS: Final = (0.001, 0.01, 0.1, 1.0)  # C, the inverse of the penalty's strength


@dataclass(frozen=True, slots=True)
class ChosenHead:
    """The best head."""

    head: LinearHead
    regularisation: float  # its C
    tried: tuple[tuple[float, float], ...]  # each C and its metric
    seconds: float  # of fitting and measuring

    def lines(self, figure: str) -> list[dict[str, JsonValue]]:
        """The trials, as lines of a run's metrics under the metric's name; a trial counts as a step."""
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
    """Fit a head for each C and keep the best; in a tie the most regularised one.

    vectors:  (rows, width) float32; targets: (rows,) numbers of labels
    figure:   higher is better; measured on the dev rows, on those held out, or on all if there are none
    held_out: (rows,) bool, rows that are not fitted on while C is chosen; the final head is fitted on all of
              them. None: every fit uses all rows
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


def held_out_tenth(labels: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Hold out a tenth of the rows, stratified by label, at random but always the same ones.

    labels:  (rows,)
    returns: (rows,) bool, at least one of them True; the only row of a label is never held out, so that the
             rest has every label. None: no label has two rows

    Every tenth row of the file would not do: if labels alternate, it is always the same label's.
    """
    _, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if counts.max(initial=0) < 2:
        return None
    order = np.random.default_rng(0).permutation(len(labels))
    order = order[np.lexsort((numbers[order], -counts[numbers[order]]))]  # the commonest label's rows first
    held_out = np.zeros(len(labels), np.bool_)
    held_out[order[9::10]] = True
    held_out &= counts[numbers] > 1
    if not held_out.any():
        held_out[order[0]] = True
    return held_out
