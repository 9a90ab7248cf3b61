"""A regression that trains in milliseconds; also imported by the processes that tests start."""

import threading
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.memory import TokenBudget
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.task import Batch, StepData, StepLosses

ENVIRONMENT = RunEnvironment.here("cpu", Precision.FLOAT32)
WIDTH = 3


def small_model(*, seed: int = 0, dropout: float = 0.0) -> nn.Sequential:
    """Linear, layer norm, dropout, linear: something that decays, something that does not."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(WIDTH, 4), nn.LayerNorm(4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 1)
    )


def step_rows(position: int, rows: int) -> tuple[Tensor, Tensor]:
    """The rows of a step: x of (rows, WIDTH) and y of (rows,), which is nearly linear in x."""
    generator = torch.Generator().manual_seed(1_000 + position)
    x = torch.randn(rows, WIDTH, generator=generator)
    return x, x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(rows, generator=generator)


class LinearTask:
    """Mean squared error over a step's rows, in `parts` micro-batches, shared among `count` processes."""

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        rows: int = 8,
        parts: int = 1,
        rank: int = 0,
        count: int = 1,
    ) -> None:
        self.model: nn.Module = model if model is not None else small_model()
        self.encoder: nn.Module = self.model
        self.uses_all = True
        self.budget = TokenBudget(512)
        self.rows, self.parts, self.rank, self.count = rows, parts, rank, count
        self.position = 0
        self.asked: list[tuple[int, float]] = []
        self.threads: set[str] = set()

    def step_data(self, step: int, progress: float) -> StepData:
        self.asked.append((step, progress))
        self.threads.add(threading.current_thread().name)
        x, y = step_rows(self.position, self.rows)
        self.position += 1
        own = slice(self.rank, None, self.count)
        total = torch.tensor(float(self.rows))
        pairs = zip(x[own].tensor_split(self.parts), y[own].tensor_split(self.parts), strict=True)
        return StepData(
            [{"x": x, "y": y, "total": total} for x, y in pairs if len(x)], {"position": self.position}
        )

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        errors = model(batch["x"]).squeeze(-1).float() - batch["y"]
        return StepLosses(
            errors.square().sum() / batch["total"],
            {"absolute_error": (errors.detach().abs().sum(), len(errors))},
            tokens=len(errors),
            flops=1000.0 * len(errors),
        )

    def restore(self, state: Mapping[str, object]) -> None:
        self.position = int(str(state["position"]))

    def measure(self) -> dict[str, float]:
        """The mean squared error on rows that no step has, and its negative, higher for better."""
        x, y = step_rows(9_999, 32)
        error = (self.model(x).squeeze(-1).float() - y).square().mean().item()
        return {"loss": error, "score": -error}
