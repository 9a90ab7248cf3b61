"""The training loop: steps, checkpoints, metrics, exact resume."""

import contextlib
import logging
import math
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError, NotFiniteError
from nearsay.training.encoder.hardware import Precision, attention_of_any_shape, autocast, product_format
from nearsay.training.encoder.memory import naming_out_of_memory
from nearsay.training.run.checkpoint import BestWeights, Checkpoint, last_checkpoint, write_checkpoint
from nearsay.training.run.cpu_dropout import CpuDropout, cpu_dropout
from nearsay.training.run.device_masks import masks_without_waiting
from nearsay.training.run.metrics_clients import logged_to
from nearsay.training.run.metrics_log import MetricsLog, MetricWindow
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_environment import training_precision
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import StepData, TrainingTask
from nearsay.training.run.training_progress import Pace, PaceWatch, StoppedError, TrainingProgress, Watch


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Return AdamW's two groups: weights that decay, and biases and norms, which do not.

    Parameters without gradient are left out. Devlin et al. 2019's optimiser excludes what its code calls
    "LayerNorm", "layer_norm" and "bias"; here that is every parameter of fewer than two dimensions.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]


class Patience:
    """Counts the evaluations since the best one.

    Prechelt 1998, "Early stopping: but when?", https://doi.org/10.1007/3-540-49430-8_3
    """

    def __init__(self, metric: str | None = None, most: int | None = None) -> None:
        """`metric`: higher is better; `most`: evaluations in a row without a new best; None never ends."""
        self._metric = metric
        self._most = most
        self._best = -math.inf
        self._since = 0

    def count(self, evaluation: Mapping[str, float]) -> None:
        """Take note of one evaluation; one that equals the best, or is NaN, is not better."""
        if self._metric is None or self._metric not in evaluation:
            return
        if evaluation[self._metric] > self._best:
            self._best, self._since = evaluation[self._metric], 0
        else:
            self._since += 1

    @property
    def limited(self) -> bool:
        """Whether it can end a run at all."""
        return self._most is not None

    @property
    def ended(self) -> bool:
        """Whether the run is to end."""
        return self._most is not None and self._since >= self._most


# Dense bfloat16 and float16 products of the makers' data sheets, operations a second.
_PUBLISHED = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "4090": 165e12,
}
# Of the square product that is timed where nothing is published; short on a CPU, where others may cut in.
_SIDE = {"cpu": 1024}
_GPU_SIDE = 4096
_SECONDS = 0.2


def hardware_peak(device: str, precision: Precision) -> float:
    """Return the peak of matrix products, operations a second.

    A data sheet's figure for the GPUs that are known and narrow precisions; else the best of some timed
    products, which takes a fifth of a second.
    """
    narrow = precision is not Precision.FLOAT32
    if device.startswith("cuda") and narrow:
        name = torch.cuda.get_device_name(device)
        for part, peak in _PUBLISHED.items():
            if re.search(rf"{part}(?![0-9A-Z])", name):  # an L40 is no L4
                return peak
    dtype = product_format(precision)
    side = _SIDE.get(device, _GPU_SIDE)
    left = torch.ones(side, side, dtype=dtype, device=device)
    right = torch.ones(side, side, dtype=dtype, device=device)
    best, begun = float("inf"), time.perf_counter()
    while time.perf_counter() - begun < _SECONDS or best == float("inf"):
        start = time.perf_counter()
        torch.mm(left, right)[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return 2.0 * side**3 / best


logger = logging.getLogger("nearsay")

# What a line of the log tells beside the metrics.
_SMALLER_STEPS = (
    "Take a smaller --batch or --length, or fewer --tokens-at-once where the command has it, and run the "
    "command again"
)
_LESS_BESIDE = (
    "End other programs that use it, or leave --dev out and measure what was trained with nearsay evaluate; "
    "the same command resumes the run"
)
_CIRCUMSTANCES = {"step", "learning_rate", "tokens", "seconds", "tokens_per_second", "peak_share"}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a run looks at itself while it goes on."""

    # Called in evaluation mode by the process that leads; must leave the weights alone. StoppedError ends the
    # run, whose resume measures before anything else.
    measure: Callable[[], Mapping[str, float]]
    every: int | None = None  # steps; None: at the end alone
    best: str | None = None  # the metric whose highest value decides which weights are kept; None: the last
    first: bool = False  # also before the first step, so that what the run began with can be the best
    patience: int | None = None  # evaluations in a row without a new best that end the run; None: never


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """How a run ended."""

    finished: bool  # False: it was asked to stop, and wrote a checkpoint
    steps: int
    seconds: float  # of training, over all its stops
    tokens: int
    metrics: Mapping[str, float]  # the last line of the log
    # Of the weights that were kept. Of several processes the first alone has it, and these in its model.
    evaluation: Mapping[str, float] = field(default_factory=dict)
    stopped_early: bool = False  # the evaluation had not been better for `patience` times
    leads: bool = True  # whether this is the process that writes and reports


def train(
    task: TrainingTask,
    folder: RunFolder,
    optimisation: Optimisation,
    processes: Processes,
    *,
    evaluation: Evaluation | None = None,
    watch: Watch | None = None,
) -> TrainingResult:
    """Train the task's model in place, from its last checkpoint if `folder` has one.

    With a number of steps, a run that was killed and resumed goes through the same losses as one that was
    not: to the last digit on a CPU in float32. All randomness of a step comes from the seed and its number.

    Raises NearsayError when the loss is no number or another process trains in the folder, BadInputError when
    a process has nothing to do in a step, and DiskFullError when a checkpoint does not fit; the last good
    checkpoint stays.
    """
    with contextlib.ExitStack() as stack:
        if processes.leads:
            stack.enter_context(folder.held())
        watch = watch or Watch()
        loop = _Loop(task, folder, optimisation, processes, evaluation, stack)
        if processes.leads:
            loop.log.tell = stack.enter_context(logged_to(watch.log_to, folder, loop.step))
        return loop.run(watch)


class _Loop:
    def __init__(
        self,
        task: TrainingTask,
        folder: RunFolder,
        optimisation: Optimisation,
        processes: Processes,
        evaluation: Evaluation | None,
        stack: contextlib.ExitStack,
    ) -> None:
        self.task, self.folder, self.settings, self.processes = task, folder, optimisation, processes
        self.evaluation = evaluation
        self.kind = torch.device(processes.device).type
        self.precision = training_precision(optimisation.precision, processes.device)
        self.dropout: CpuDropout | None = None
        if self.kind == "cpu" and not optimisation.compile:
            self.dropout = stack.enter_context(cpu_dropout(task.model))
        if self.kind != "cpu":
            stack.enter_context(masks_without_waiting())
            stack.enter_context(attention_of_any_shape(processes.device))
        self.optimiser = torch.optim.AdamW(
            parameter_groups(task.model, optimisation.weight_decay),
            lr=optimisation.learning_rate,
            betas=(optimisation.beta1, optimisation.beta2),
            eps=optimisation.epsilon,
            fused=self.kind in {"cpu", "cuda", "mps"},
        )
        self.scaler = torch.amp.GradScaler(self.kind, enabled=self.precision is Precision.FLOAT16)
        self.log = MetricsLog(folder.metrics)
        self.window = MetricWindow(processes.device)
        self.best = BestWeights(folder.best, evaluation.best if evaluation else None)
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self.last_metrics: dict[str, float] = {}
        self.last_evaluation: dict[str, float] = {}
        self.evaluated = -1  # the step of the last evaluation
        self.patience = Patience(evaluation.best, evaluation.patience) if evaluation else Patience()
        if task.budget.fitted:
            tokens = folder.begun_with(task.budget.tokens) if processes.leads else 0
            task.budget.tokens = int(processes.of_the_first(tokens))
        self._resume()
        self.model = self._wrapped()
        self.peak = hardware_peak(processes.device, self.precision) * processes.count
        self.began, self.seconds_before, self.tokens_before = self.step, self.seconds, self.tokens
        self.flops = 0.0
        self.checkpointed = time.monotonic()
        machine = os.cpu_count() or 1
        cores = min(torch.get_num_threads(), machine) if self.kind == "cpu" else None
        self.pace, self.step_tokens = PaceWatch(cores, machine), 0
        self._start_clocks()

    def run(self, watch: Watch) -> TrainingResult:
        self.task.model.train()
        asked = False
        if self.evaluation and self._evaluates(self.evaluation):  # before the first step, or when resumed
            asked = self._evaluate(self.evaluation)
        if asked:
            return self._result(finished=False)
        with contextlib.closing(self._data()) as steps:  # whatever ends the loop ends the thread, too
            self._start_clocks()
            for data in steps:
                with naming_out_of_memory("a step", self.processes.device, _SMALLER_STEPS):
                    self._one_step(data)
                self.step += 1
                asked = self._after_step(data, watch)
                self._start_clocks()  # evaluations and checkpoints are no training
                if asked:
                    break
        finished = self._done()
        if finished and self.evaluation:
            if self.processes.of_the_first(float(self.evaluated != self.step)):
                finished = not self._evaluate(self.evaluation)
            if finished and self.processes.leads:
                self.last_evaluation = self.best.restore(self.task.model) or self.last_evaluation
        return self._result(finished=finished)

    def _result(self, *, finished: bool) -> TrainingResult:
        self.task.model.eval()
        return TrainingResult(
            finished=finished,
            steps=self.step,
            seconds=self.seconds,
            tokens=self.tokens,
            metrics=self.last_metrics,
            evaluation=self.last_evaluation,
            stopped_early=self.patience.ended and self._share() < 1.0,
            leads=self.processes.leads,
        )

    def _after_step(self, data: StepData, watch: Watch) -> bool:
        """Count, log, evaluate and keep what is due; True when the run is asked to stop."""
        logs = self.step % self.settings.log_every == 0
        evaluation = self.evaluation
        evaluates = evaluation is not None and self._evaluates(evaluation)
        due = logs or evaluates or self._done() or self._checkpoint_is_due()
        if self.kind != "cpu" and due:
            torch.accelerator.synchronize(self.processes.device)  # what it has still to do is training
        seconds, processor_seconds = time.perf_counter() - self.clock, time.process_time() - self.cpu_clock
        self.seconds = self.processes.of_the_first(self.seconds + seconds)
        self.pace.add(Pace(self.step_tokens, seconds, processor_seconds, steps=1), _load())
        logged = bool(logs or self._done())
        if logged:
            self._log()
        asked = False
        if evaluation is not None and evaluates:
            asked = self._evaluate(evaluation)
            if self._done() and not logged:  # it has lost patience
                self._log()
        if watch.listener and self.processes.leads:
            watch.listener(self._progress())
        asked = self.processes.of_the_first(float(asked or (watch.stop() if watch.stop else False))) > 0
        if asked or self._done() or self._checkpoint_is_due():
            self._checkpoint(data.state)
        return asked

    def _data(self) -> Generator[StepData]:
        """Each step's data, made while the step before it is computed."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nearsay-data") as maker:
            if self._done():
                return
            ahead: Future[StepData] = maker.submit(self._made, self.step, self._share_at(self.step))
            try:
                while not self._done():
                    data = ahead.result()
                    if self.settings.steps is None or self.step + 1 < self.settings.steps:
                        following = self.step + 1
                        ahead = maker.submit(self._made, following, self._share_at(following))
                    yield data
            finally:
                ahead.cancel()

    def _made(self, step: int, progress: float) -> StepData:
        """A step's data, in memory that a GPU copies from while it computes."""
        data = self.task.step_data(step, progress)
        if self.kind != "cuda":
            return data
        with torch.cuda.device(self.processes.device):  # of this thread; memory is pinned by its driver
            pinned = [
                {name: tensor.pin_memory() if tensor.dim() else tensor for name, tensor in batch.items()}
                for batch in data.micro_batches
            ]
        return StepData(pinned, data.state)

    def _start_clocks(self) -> None:
        """From here on, time counts as training."""
        self.clock, self.cpu_clock = time.perf_counter(), time.process_time()

    def _one_step(self, data: StepData) -> None:
        self._seed()
        self.step_tokens = 0
        rate = self.settings.learning_rate * self.settings.rate_factor(self._share())
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        last = len(data.micro_batches) - 1
        if last < 0:
            raise BadInputError(
                f"step {self.step} has nothing for process {self.processes.rank} of {self.processes.count}. "
                "Take a larger batch or fewer processes"
            )
        for number, micro_batch in enumerate(data.micro_batches):
            batch = {
                name: tensor.to(self.processes.device, non_blocking=True) if tensor.dim() else tensor
                for name, tensor in micro_batch.items()
            }
            with self._gathering(last_one=number == last):
                with self._narrowed():
                    losses = self.task.losses(self.model, batch)
                # DistributedDataParallel averages gradients; the processes' losses are parts of one sum.
                torch.autograd.backward(self.scaler.scale(losses.loss * self.processes.count))
            self.window.add("loss", losses.loss.detach(), 1 / (last + 1) / self.processes.count)
            for name, (numerator, denominator) in losses.sums.items():
                self.window.add(name, numerator, denominator)
            self.window.tokens += losses.tokens
            self.step_tokens += losses.tokens
            self.flops += losses.flops * self.processes.count
        self.scaler.unscale_(self.optimiser)
        longest = self.settings.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.task.model.parameters(), longest)
        self._add_norm(norm.detach())
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)

    def _add_norm(self, norm: Tensor) -> None:
        counted: Tensor | float = 1.0
        if self.scaler.is_enabled():  # it leaves out steps whose gradient is too long for float16
            counted = norm.isfinite().to(norm.dtype)
            norm = norm.nan_to_num(0.0, 0.0, 0.0)
        self.window.add("gradient_norm", norm / self.processes.count, counted / self.processes.count)

    def _log(self) -> None:
        self.window.require_finite(self.step, self.settings.learning_rate)
        metrics = self.window.close(self.processes)
        self.tokens += int(metrics.pop("tokens"))
        self.last_metrics = metrics
        if self.processes.leads:
            self.log.append(
                {
                    "step": self.step,
                    **metrics,
                    "learning_rate": self.optimiser.param_groups[0]["lr"],
                    "tokens": self.tokens,
                    "seconds": round(self.seconds, 3),
                    "tokens_per_second": round(self._rate(), 1),
                    "peak_share": round(self._peak_share() or 0.0, 4),
                }
            )

    def _evaluates(self, evaluation: Evaluation) -> bool:
        """Whether the weights as they are have to be measured, and are not yet."""
        due = evaluation.first if self.step == 0 else evaluation.every and self.step % evaluation.every == 0
        return bool(due) and self.processes.of_the_first(float(self.evaluated != self.step)) > 0

    def _evaluate(self, evaluation: Evaluation) -> bool:
        """Measure, and keep the weights if they are the best; True where the run is asked to stop instead."""
        asked = False
        if self.processes.leads:  # of several processes one measures: the others' cores are its own
            self.task.model.eval()
            device = self.processes.device
            try:
                with (
                    naming_out_of_memory("an evaluation beside the training", device, _LESS_BESIDE),
                    torch.inference_mode(),
                    self._narrowed(),
                ):
                    self.last_evaluation, self.evaluated = dict(evaluation.measure()), self.step
            except StoppedError:
                asked = True
            except NotFiniteError as error:
                if not self.step:
                    raise
                cause = str(error).rsplit(". ", 1)[0]  # without its remedy, which is for a finished model
                raise NearsayError(
                    f"the evaluation after step {self.step} fails: {cause}. The training diverged, or its "
                    f"precision is too narrow. Take a learning rate below {self.settings.learning_rate}, a "
                    "longer warm-up or --precision float32, and a new folder"
                ) from error
            else:
                self.patience.count(self.last_evaluation)
                self.best.offer(self.task.model, self.last_evaluation)
                self.log.append({"step": self.step, "evaluation": dict(self.last_evaluation)})
            self.task.model.train()
        return self.processes.of_the_first(float(asked)) > 0

    def _checkpoint_is_due(self) -> bool:
        every, minutes = self.settings.checkpoint_every, self.settings.checkpoint_minutes
        late = minutes > 0 and time.monotonic() - self.checkpointed > minutes * 60
        return (every is not None and self.step % every == 0) or self.processes.of_the_first(float(late)) > 0

    def _checkpoint(self, data: Mapping[str, JsonValue]) -> None:
        self.window.require_finite(self.step, self.settings.learning_rate)
        self.tokens += self.window.gather(self.processes)
        if self.processes.leads:
            checkpoint = Checkpoint(
                step=self.step,
                seconds=self.seconds,
                tokens=self.tokens,
                data=data,
                window=self.window.state(),
                scaler=self.scaler.state_dict(),
            )
            write_checkpoint(self.folder.checkpoints, checkpoint, self.task.model, self.optimiser)
        self.processes.wait()
        self.checkpointed = time.monotonic()

    def _resume(self) -> None:
        checkpoint = last_checkpoint(self.folder.checkpoints, self.task.model, self.optimiser)
        if checkpoint is not None:
            self.step, self.seconds, self.tokens = checkpoint.step, checkpoint.seconds, checkpoint.tokens
            self.task.restore(checkpoint.data)
            self.window.restore(checkpoint.window, leads=self.processes.leads)
            if checkpoint.scaler:
                self.scaler.load_state_dict(dict(checkpoint.scaler))
        if self.processes.leads:
            self.best.resume()
            self._recall(self.log.rewind(self.step))
        self.processes.wait()

    def _recall(self, lines: Iterable[Mapping[str, JsonValue]]) -> None:
        """Take the last metrics and the last evaluation from the log."""
        for line in lines:
            told, step = line.get("evaluation"), line.get("step")
            if isinstance(told, dict) and isinstance(step, int):
                # What was no number is null in the log, and still no better than the best.
                self.last_evaluation = {**dict.fromkeys(told, math.nan), **_numbers(told)}
                self.evaluated = step
                self.patience.count(self.last_evaluation)
            else:
                self.last_metrics = _numbers(line)

    def _wrapped(self) -> nn.Module:
        model = self.task.model
        if self.settings.compile:
            # Each step has other shapes: one graph for all of them, not one for each of the first.
            self.task.encoder.compile(dynamic=True)
        if self.processes.count > 1:
            return DistributedDataParallel(model, find_unused_parameters=not self.task.uses_all)
        return model

    def _gathering(self, *, last_one: bool) -> contextlib.AbstractContextManager[object]:
        """Let the processes exchange gradients after a step's last micro-batch alone."""
        if isinstance(self.model, DistributedDataParallel) and not last_one:
            return self.model.no_sync()
        return contextlib.nullcontext()

    def _seed(self) -> None:
        numbers = (self.settings.seed, self.step, self.processes.rank)
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]))
        if self.dropout is not None:
            self.dropout.seed(*numbers)

    def _narrowed(self) -> torch.autocast:
        return autocast(self.precision, self.processes.device)

    def _share(self) -> float:
        return self._share_at(self.step)

    def _share_at(self, step: int) -> float:
        """How much of the run is done before a step; by time it is how much is done now."""
        if self.settings.steps is not None:
            return step / self.settings.steps
        return min(self.seconds / (60 * (self.settings.minutes or 1.0)), 1.0)

    def _done(self) -> bool:
        # The first process alone has read what was evaluated before a resume.
        ended = self.patience.limited and self.processes.of_the_first(float(self.patience.ended)) > 0
        return self._share() >= 1.0 or ended

    def _rate(self) -> float:
        tokens = self.tokens + self.window.tokens * self.processes.count - self.tokens_before
        return tokens / max(self.seconds - self.seconds_before, 1e-9)

    def _peak_share(self) -> float | None:
        if not self.flops:
            return None
        return self.flops / max(self.seconds - self.seconds_before, 1e-9) / self.peak

    def _progress(self) -> TrainingProgress:
        share, here = self._share(), self.step - self.began
        if self.settings.minutes is not None:
            left = self.settings.minutes * 60 - self.seconds
        else:
            left = (
                (self.seconds - self.seconds_before) / max(here, 1) * ((self.settings.steps or 0) - self.step)
            )
        return TrainingProgress(
            step=self.step,
            steps=self.settings.steps,
            share=share,
            seconds=self.seconds,
            seconds_left=max(left, 0.0),
            metrics=self.last_metrics,
            tokens_per_second=self._rate(),
            peak_share=self._peak_share(),
            evaluation=self.last_evaluation,
            contention=self.pace.said,
        )


def _load() -> float | None:
    """How many threads of all programs wanted a core in the last minute; None where nobody knows."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows; a container that hides it
        return None


def _numbers(line: Mapping[str, JsonValue]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in line.items()
        if isinstance(value, int | float) and name not in _CIRCUMSTANCES
    }
