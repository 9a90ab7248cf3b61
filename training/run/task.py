"""What a training task gives to the loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor, nn

from nearsay.data.document import JsonValue
from nearsay.training.encoder.memory import TokenBudget

Batch = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class StepData:
    """The data of one step of one process."""

    micro_batches: Sequence[Batch]  # on the CPU, where single numbers stay; their losses add up to the step's
    state: Mapping[str, JsonValue]  # where in the data the next step begins; `restore` takes it


@dataclass(frozen=True, slots=True)
class StepLosses:
    """What a model made of one micro-batch."""

    loss: Tensor  # scalar with gradient: the part of the step's loss, divided by the step's totals
    sums: Mapping[str, tuple[Tensor | float, Tensor | float]] = field(default_factory=dict)
    """Each metric's numerator and denominator; added up over micro-batches, processes and steps."""
    tokens: int = 0  # real tokens, padding left out
    flops: float = 0.0  # multiplications and additions that the model needs, forward and backward


class TrainingTask(Protocol):
    """A model, its data and its loss."""

    model: nn.Module  # on the device, in float32
    encoder: nn.Module  # the part of it whose shapes repeat, compiled where that is asked for
    budget: TokenBudget  # one that is `fitted` is replaced by that of the run's begin
    uses_all: bool  # whether every step has a gradient for every parameter

    def step_data(self, step: int, progress: float) -> StepData:
        """Return the data of step `step`, from 0; called in order, one step ahead, on another thread.

        progress: 0 at the run's begin, 1 at its end; when the run is limited by time it is a step old
        """
        ...

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        """Run a micro-batch, on the device, through `model`: this task's model, or a wrapper around it."""
        ...

    def restore(self, state: Mapping[str, JsonValue]) -> None:
        """Go to where a `StepData.state` says."""
        ...


def flops_per_token(model: nn.Module) -> float:
    """Operations in the matrices, forward and backward; attention's own products are left out.

    A weight costs 2 forward, 2 for its gradient if it is trained, and 2 for passing the gradient on, unless
    nothing before it is trained.
    """
    total, passed_on = 0, False
    for module in model.modules():
        if isinstance(module, nn.Linear):
            learns = module.weight.requires_grad
            passed_on = passed_on or learns
            total += module.weight.numel() * (2 + 2 * learns + 2 * passed_on)
    return float(total)
