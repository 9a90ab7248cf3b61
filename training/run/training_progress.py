"""One look at a run that is under way."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["TrainingProgress"]


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """What a listener is told after every step."""

    step: int  # steps done
    steps: int | None  # in all; None when the run is limited by time
    share: float  # of the run that is done
    seconds: float  # of training so far, over all its stops
    seconds_left: float  # at the rate so far
    metrics: Mapping[str, float]  # as of the last line of the log
    tokens_per_second: float  # real tokens
    peak_share: float | None  # of the hardware's peak that was reached; None when it is not known
    evaluation: Mapping[str, float]  # the last one; empty before the first
