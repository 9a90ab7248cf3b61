"""Metrics between two lines of the log."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from nearsay.data.document import JsonValue
from nearsay.data.errors import NearsayError
from nearsay.training.run.processes import Processes

__all__ = ["MetricWindow"]


class MetricWindow:
    """Adds up numerators and denominators, on the device: nothing waits for a GPU before the log does."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._double = torch.float32 if device.startswith("mps") else torch.float64
        self._sums: dict[str, Tensor] = {}
        self.tokens = 0

    def add(self, name: str, numerator: Tensor | float, denominator: Tensor | float) -> None:
        """Add to a metric, which is the one sum over the other."""
        if name not in self._sums:
            self._sums[name] = torch.zeros(2, dtype=self._double, device=self._device)
        self._sums[name][0] += numerator
        self._sums[name][1] += denominator

    def close(self, processes: Processes) -> dict[str, float]:
        """Give the metrics over all processes, and the tokens, and begin a new window."""
        metrics: dict[str, float] = {}
        for name, sums in self._sums.items():
            numerator, denominator = processes.add_up(sums).tolist()
            if denominator:
                metrics[name] = numerator / denominator
        told = torch.tensor([float(self.tokens)], dtype=self._double, device=self._device)
        metrics["tokens"] = processes.add_up(told).item()
        self._sums, self.tokens = {}, 0
        return metrics

    def require_finite(self, step: int, learning_rate: float) -> None:
        """Raise NearsayError when the loss of the window is no number."""
        sums = self._sums.get("loss")
        if sums is not None and not math.isfinite(sums[0].item()):
            raise NearsayError(
                f"the loss before step {step} is no number: the training diverged. "
                f"Take a lower learning rate (it was {learning_rate}) or a longer warm-up, and a new folder"
            )

    def state(self) -> dict[str, JsonValue]:
        """Give the sums for a checkpoint; JSON keeps every digit of them."""
        return {"sums": {name: sums.tolist() for name, sums in self._sums.items()}, "tokens": self.tokens}

    def restore(self, state: Mapping[str, JsonValue], *, leads: bool) -> None:
        """Take the sums of a checkpoint; of several processes the first alone has them."""
        sums, tokens = state.get("sums"), state.get("tokens")
        if leads and isinstance(sums, dict) and isinstance(tokens, int):
            self._sums = {
                name: torch.tensor(pair, dtype=self._double, device=self._device)
                for name, pair in sums.items()
            }
            self.tokens = tokens
