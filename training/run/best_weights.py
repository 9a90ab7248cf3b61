"""The weights that evaluated best."""

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import nn

from nearsay.data.durable import replacing
from nearsay.data.errors import NearsayError
from nearsay.training.run.checkpoint import load_weights, weights_of

__all__ = ["BestWeights"]

logger = logging.getLogger("nearsay")

_TOLD = "evaluation"  # where the file's metadata says how its weights evaluated


class BestWeights:
    """Keeps a model's weights in a file whenever a metric is higher than ever.

    The file says itself how its weights evaluated. A run that goes on from an older checkpoint thus never
    takes them for others.
    """

    def __init__(self, file: Path, metric: str | None) -> None:
        """`metric`: None keeps nothing."""
        self._file = file
        self._metric = metric
        self._evaluation: dict[str, float] = {}

    def offer(self, model: nn.Module, evaluation: Mapping[str, float]) -> None:
        """Keep the weights if they are better; of equal ones the first stay, and anything is above NaN."""
        if self._metric is None:
            return
        if self._metric not in evaluation:
            raise NearsayError(
                f"the evaluation gives no {self._metric!r} to choose the best weights by. "
                f"Name one of these: {', '.join(evaluation)}"
            )
        value, highest = evaluation[self._metric], self._evaluation.get(self._metric, math.nan)
        if not self._evaluation or value > highest or (math.isnan(highest) and not math.isnan(value)):
            told = {_TOLD: json.dumps(dict(evaluation))}
            with replacing(self._file) as stream:
                stream.write(safetensors.torch.save(weights_of(model), metadata=told))
            self._evaluation = dict(evaluation)

    def restore(self, model: nn.Module) -> dict[str, float] | None:
        """Put the best weights into the model and give their evaluation; None when none were kept."""
        if not self._evaluation:
            return None
        load_weights(model, self._file)
        return self._evaluation

    def resume(self) -> None:
        """Go on from the file, if there is one; a damaged one is named in a warning and forgotten."""
        if self._metric is None or not self._file.is_file():
            return
        try:
            with safe_open(self._file, "pt") as weights:
                evaluation = json.loads((weights.metadata() or {})[_TOLD])
            self._evaluation = {name: float(value) for name, value in evaluation.items()}
        except (SafetensorError, OSError, ValueError, KeyError, AttributeError) as error:
            logger.warning("the best weights so far, %s, are damaged and left out: %s", self._file, error)
