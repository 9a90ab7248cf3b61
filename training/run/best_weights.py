"""The weights that evaluated best."""

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import nn

from nearsay.data.document import JsonValue
from nearsay.data.durable import replacing
from nearsay.data.errors import NearsayError
from nearsay.training.run.checkpoint import load_weights, weights_of

__all__ = ["BestWeights"]


class BestWeights:
    """Keeps a model's weights in a file whenever a metric is higher than ever."""

    def __init__(self, file: Path, metric: str | None) -> None:
        """`metric`: None keeps nothing."""
        self._file = file
        self._metric = metric
        self._step = 0
        self._evaluation: dict[str, float] = {}

    def offer(self, model: nn.Module, step: int, evaluation: Mapping[str, float]) -> None:
        """Keep the weights if they are better; of equal ones the first stay."""
        if self._metric is None:
            return
        if self._metric not in evaluation:
            raise NearsayError(f"the evaluation gives no {self._metric!r}, only {', '.join(evaluation)}")
        if not self._evaluation or evaluation[self._metric] > self._evaluation[self._metric]:
            with replacing(self._file) as stream:
                stream.write(safetensors.torch.save(weights_of(model)))
            self._step, self._evaluation = step, dict(evaluation)

    def restore(self, model: nn.Module) -> dict[str, float] | None:
        """Put the best weights into the model and give their evaluation; None when none were kept."""
        if not self._evaluation:
            return None
        load_weights(model, self._file)
        return self._evaluation

    def state(self) -> dict[str, JsonValue]:
        """Give what a checkpoint has to remember."""
        return {"step": self._step, "evaluation": dict(self._evaluation)}

    def resume(self, state: Mapping[str, JsonValue]) -> None:
        """Take what a checkpoint remembered."""
        step, evaluation = state.get("step"), state.get("evaluation")
        if isinstance(step, int) and isinstance(evaluation, dict):
            self._step = step
            self._evaluation = {
                name: float(value) for name, value in evaluation.items() if isinstance(value, int | float)
            }
