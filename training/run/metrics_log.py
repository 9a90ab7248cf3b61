"""A run's metrics as JSON lines."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from nearsay.data.document import JsonValue
from nearsay.data.durable import replacing, write_refusal
from nearsay.data.errors import NearsayError
from nearsay.training.run.processes import Processes


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
        """Return the metrics over all processes, and the tokens, and begin a new window."""
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
        """Return the sums for a checkpoint; JSON keeps every digit of them."""
        return {"sums": {name: sums.tolist() for name, sums in self._sums.items()}}

    def restore(self, state: Mapping[str, JsonValue], *, leads: bool) -> None:
        """Take the sums of a checkpoint; of several processes the first alone, the others begin with 0."""
        sums = state.get("sums")
        if isinstance(sums, dict):
            self._sums = {
                name: torch.tensor(pair if leads else [0.0, 0.0], dtype=self._double, device=self._device)
                for name, pair in sums.items()
            }


class MetricsLog:
    """Appends lines to metrics.jsonl; a resumed run takes back what it had written after its checkpoint."""

    def __init__(self, file: Path) -> None:
        self._file = file
        # Given each line, too.
        self.tell: Callable[[Mapping[str, JsonValue]], None] = lambda _: None

    def rewind(self, step: int) -> list[dict[str, JsonValue]]:
        """Keep the lines up to `step` alone, and give them."""
        kept = [line for line in read_metrics(self._file) if _step(line) <= step]
        with replacing(self._file) as stream:
            stream.write("".join(json.dumps(line) + "\n" for line in kept).encode())
        return kept

    def append(self, line: Mapping[str, JsonValue]) -> None:
        """Write a line; DiskFullError when there is no room, NearsayError when the file takes none."""
        try:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(_strict(line), allow_nan=False) + "\n")
        except OSError as error:
            raise write_refusal(self._file, error) from error
        self.tell(line)


def read_metrics(file: Path) -> list[dict[str, JsonValue]]:
    """Return the lines of a metrics.jsonl; a last line that was cut short is left out."""
    if not file.is_file():
        return []
    lines = []
    for text in file.read_text("utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines


def _strict(value: object) -> object:
    """NaN and infinity, which JSON does not have, as null."""
    if isinstance(value, Mapping):
        return {name: _strict(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _step(line: Mapping[str, JsonValue]) -> int:
    step = line.get("step")
    return step if isinstance(step, int) else 0
