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
        metrics["tokens"] = self._take_tokens(processes)
        self._sums = {}
        return metrics

    def gather(self, processes: Processes) -> int:
        """Move all processes' sums to the first, whose `state` a checkpoint holds; give their tokens."""
        for sums in self._sums.values():
            processes.add_up(sums)
            if not processes.leads:
                sums.zero_()
        return self._take_tokens(processes)

    def _take_tokens(self, processes: Processes) -> int:
        told = torch.tensor([float(self.tokens)], dtype=self._double, device=self._device)
        self.tokens = 0
        return int(processes.add_up(told).item())

    def require_finite(self, step: int, learning_rate: float) -> None:
        """Raise NearsayError when the loss of the window, or the length of its gradient, is no number."""
        for name in ("loss", "gradient_norm"):
            sums = self._sums.get(name)
            if sums is not None and not math.isfinite(sums[0].item()):
                raise NearsayError(
                    f"the {name.replace('_', ' ')} before step {step} is no number: the training diverged. "
                    f"Take a learning rate below {learning_rate} or a longer warm-up, and a new folder"
                )

    def state(self) -> dict[str, JsonValue]:
        """Give the sums for a checkpoint; JSON keeps every digit of them."""
        return {"sums": {name: sums.tolist() for name, sums in self._sums.items()}}

    def restore(self, state: Mapping[str, JsonValue], *, leads: bool) -> None:
        """Take the sums of a checkpoint; of several processes the first alone, the others begin with 0."""
        sums = state.get("sums")
        if isinstance(sums, dict):
            self._sums = {
                name: torch.tensor(pair if leads else [0.0, 0.0], dtype=self._double, device=self._device)
                for name, pair in sums.items()
            }
