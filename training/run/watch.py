"""Who looks on while a model is trained."""

from collections.abc import Callable
from dataclasses import dataclass

from nearsay.training.run.training_progress import TrainingProgress

__all__ = ["Watch"]


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of a run, and who may end it."""

    listener: Callable[[TrainingProgress], None] | None = None  # told after every step
    report: Callable[[str], None] = lambda _: None  # told sentences about data and model
    stop: Callable[[], bool] | None = None  # asked after every step; True ends with a checkpoint
