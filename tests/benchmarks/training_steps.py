"""The steps of a training, timed: nearsay's loop, and the trainers of transformers and sentence-transformers.

Steps are timed by the window: the device is waited for at the end of each window alone, so that the host may
work ahead in between, as it does in a real run. The first window warms up.
"""

import contextlib
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.loop import train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import StepData, TrainingTask
from nearsay.training.run.training_progress import TrainingProgress, Watch

__all__ = ["TrainerSteps", "TrainingSteps", "loop_steps", "rates", "trainer_settings"]

EPSILON = 1e-6
DECAY = 0.01
_SYNCHRONISED = "called a synchronizing CUDA operation"


@dataclass(slots=True)
class TrainingSteps:
    """What was seen of a training."""

    seconds: list[float]  # of a step: each window's mean, but for the first one's
    losses: list[float]  # each window's mean, the first one's too
    data_seconds: list[float] = field(default_factory=list)  # that each step's data took, on its own thread
    waits: dict[str, object] = field(default_factory=dict)  # as `HostWaits` tells them


class HostWaits:
    """Counts where the host waits for a CUDA GPU in the steps after `first`, up to and with `last`.

    The ends of windows, where it waits on purpose, are not to be among them.
    """

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._seen: list[warnings.WarningMessage] = []
        self._watching = contextlib.ExitStack()

    def step(self, number: int) -> None:
        """Take note that step `number`, from 1, is done."""
        if number == self._first < self._last and torch.cuda.is_available():
            self._seen = self._watching.enter_context(warnings.catch_warnings(record=True)) or []
            warnings.simplefilter("always")
            self._watching.callback(torch.cuda.set_sync_debug_mode, torch.cuda.get_sync_debug_mode())
            torch.cuda.set_sync_debug_mode("warn")
        if number == self._last:
            self._watching.close()

    def told(self) -> dict[str, object]:
        """Give how often it waited, and where; a reason where there is no GPU to wait for."""
        self._watching.close()
        if not torch.cuda.is_available():
            return {"skipped": "no GPU to wait for"}
        where = Counter(
            f"{'/'.join(Path(seen.filename).parts[-3:])}:{seen.lineno}"
            for seen in self._seen
            if _SYNCHRONISED in str(seen.message)
        )
        return {"steps": self._last - self._first, "times": where.total(), "where": dict(where)}


class Clock:
    """Notes when windows of steps end."""

    def __init__(self, device: str, every: int) -> None:
        self._device, self._every = device, every
        self._ends: list[float] = []
        self.waits = HostWaits(every + 1, 2 * every - 1)

    def step(self, number: int) -> None:
        """Take note that step `number`, from 1, is done."""
        if number % self._every == 0:
            if self._device != "cpu":
                torch.accelerator.synchronize(self._device)
            self._ends.append(time.perf_counter())
        self.waits.step(number)

    @property
    def seconds(self) -> list[float]:
        """Of a step: each window's mean, but for the first one's."""
        return [(end - begin) / self._every for begin, end in pairwise(self._ends)]


class _Enough(Exception):  # noqa: N818 - nothing went wrong
    """Ends a training before it writes its last checkpoint, which is not timed."""


def loop_steps(
    task: TrainingTask,
    steps: int,
    device: str,
    *,
    every: int,
    rate: float,
    precision: Precision,
    seed: int,
    compiled: bool = False,
) -> TrainingSteps:
    """Train by nearsay's loop, as its commands do, without warm-up of the rate.

    every:    steps of a window
    compiled: by torch.compile; on the CPU its graphs are traced and guarded, and run as they are
    """
    clock, made, make = Clock(device, every), [], task.step_data

    def timed(step: int, progress: float) -> StepData:
        begin = time.perf_counter()
        data = make(step, progress)
        made.append(time.perf_counter() - begin)
        return data

    task.step_data = timed  # type: ignore[method-assign]  # of this one task
    if compiled and device == "cpu":
        compile_ = task.encoder.compile
        task.encoder.compile = lambda **told: compile_(backend="eager", **told)  # type: ignore[method-assign]
    optimisation = Optimisation(
        steps=steps,
        learning_rate=rate,
        warmup_share=0.0,
        weight_decay=DECAY,
        epsilon=EPSILON,
        precision=precision,
        compile=compiled,
        seed=seed,
        log_every=every,
        checkpoint_minutes=0,
    )

    def listen(progress: TrainingProgress) -> None:
        clock.step(progress.step)
        if progress.step == steps:
            raise _Enough

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(place)
        folder.begin({}, RunEnvironment.here(device, precision))
        with contextlib.suppress(_Enough):
            train(task, folder, optimisation, Processes(device=device), watch=Watch(listen))
        losses = [float(line["loss"]) for line in read_metrics(folder.metrics)]
    return TrainingSteps(clock.seconds, losses, made, clock.waits.told())


def trainer_settings(
    folder: str, steps: int, batch: int, device: str, *, every: int, rate: float, bf16: bool, seed: int
) -> dict[str, Any]:
    """A trainer's own defaults but for what it has to share with `loop_steps`."""
    AcceleratorState._reset_state(reset_partial_state=True)  # else the first precision stays
    return {
        "output_dir": folder,
        "per_device_train_batch_size": batch,
        "max_steps": steps,
        "learning_rate": rate,
        "weight_decay": DECAY,
        "warmup_steps": 0,
        "adam_epsilon": EPSILON,
        "bf16": bf16,
        "use_cpu": device == "cpu",
        "save_strategy": "no",
        "report_to": "none",
        "logging_steps": every,
        "disable_tqdm": True,
        "seed": seed,
    }


class TrainerSteps(TrainerCallback):
    """Times the steps of a trainer."""

    def __init__(self, device: str, every: int) -> None:
        self._clock = Clock(device, every)
        self._losses: list[float] = []

    def of(self, trainer: Trainer) -> TrainingSteps:
        """Train."""
        trainer.add_callback(self)
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        trainer.train()
        return TrainingSteps(self._clock.seconds, self._losses, waits=self._clock.waits.told())

    def on_step_end(self, args, state, control, **kwargs):
        self._clock.step(state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in (logs or {}):
            self._losses.append(float(logs["loss"]))


def rates(units: Sequence[float] | float, seconds: Sequence[float]) -> dict[str, float]:
    """Units a second over the windows; units: of a step, one number or each window's mean."""
    each = [units] * len(seconds) if isinstance(units, int | float) else units
    found = [count / second for count, second in zip(each, seconds, strict=True)]
    return {
        "median": round(statistics.median(found), 1),
        "slowest": round(min(found), 1),
        "fastest": round(max(found), 1),
    }
