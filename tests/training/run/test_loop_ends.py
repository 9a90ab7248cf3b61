"""The training loop: how a run ends, and what it leaves behind."""

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from linear_task import ENVIRONMENT, LinearTask, small_model
from naming import Naming
from torch import nn

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.data.errors import DiskFullError, NearsayError, NotFiniteError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import loop
from nearsay.training.run.checkpoint import last_checkpoint
from nearsay.training.run.loop import Evaluation, train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import Batch, StepData, StepLosses
from nearsay.training.run.training_progress import TrainingProgress, Watch

ALONE = Processes()


def settings(**others: object) -> Optimisation:
    told = {"learning_rate": 0.05, "log_every": 1, "checkpoint_minutes": 0.0, "precision": Precision.FLOAT32}
    return Optimisation(**told | others)  # type: ignore[arg-type]  # passed through


def checkpoints(folder: RunFolder) -> list[str]:
    found = folder.checkpoints.iterdir() if folder.checkpoints.is_dir() else ()
    return sorted(path.name for path in found)


def with_losses(task: LinearTask, change: Callable[[int, StepLosses], StepLosses]) -> LinearTask:
    """The task, whose losses are changed by the number of the call, from 0."""
    compute, calls = task.losses, iter(range(1000))

    def losses(model: nn.Module, batch: Batch) -> StepLosses:
        return change(next(calls), compute(model, batch))

    task.losses = losses  # type: ignore[method-assign]
    return task


def test_a_run_that_is_asked_to_stop_ends_after_its_step_with_a_checkpoint(folder: RunFolder) -> None:
    answers = iter([False, False, True])
    task = LinearTask()
    evaluation = Evaluation(task.measure)
    result = train(
        task,
        folder,
        settings(steps=9, log_every=2),
        ALONE,
        evaluation=evaluation,
        watch=Watch(stop=lambda: next(answers)),
    )
    assert (result.finished, result.steps) == (False, 3)
    assert checkpoints(folder) == ["step-0000000003"]
    assert [line["step"] for line in read_metrics(folder.metrics)] == [2]  # and no evaluation
    assert not task.model.training


def test_two_runs_do_not_share_a_folder(folder: RunFolder) -> None:
    refused: list[str] = []

    def listen(_: TrainingProgress) -> None:
        with pytest.raises(NearsayError) as raised:
            train(LinearTask(), RunFolder(folder.out), settings(steps=2), ALONE)
        refused.append(str(raised.value))

    assert train(LinearTask(), folder, settings(steps=2), ALONE, watch=Watch(listener=listen)).finished
    assert refused == [Naming("another process", folder.out, "another folder")] * 2
    assert [line["step"] for line in read_metrics(folder.metrics)] == [1, 2]


def test_a_run_that_is_asked_to_stop_at_its_last_step_is_finished(folder: RunFolder) -> None:
    result = train(LinearTask(), folder, settings(steps=1), ALONE, watch=Watch(stop=lambda: True))
    assert (result.finished, result.steps) == (True, 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that goes on when it is told to; data is made when it is waited for."""
    now = [100.0]

    def advance(seconds: float) -> None:
        now[0] += seconds

    def read() -> float:
        return now[0]

    class Later(Future[StepData]):
        def __init__(self, make: Callable[..., StepData], *arguments: object) -> None:
            super().__init__()
            self.made = lambda: make(*arguments)

        def result(self, timeout: float | None = None) -> StepData:
            return self.made()

    class Maker:
        def __init__(self, **_: object) -> None:
            pass

        def __enter__(self) -> "Maker":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def submit(self, make: Callable[..., StepData], *arguments: object) -> Later:
            return Later(make, *arguments)

    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=read, monotonic=read, process_time=read))
    monkeypatch.setattr(loop, "ThreadPoolExecutor", Maker)
    return advance


def test_a_run_of_a_minute_ends_after_it_and_its_rate_falls_with_the_time(
    folder: RunFolder, clock: Callable[[float], None]
) -> None:
    def slow(_: int, losses: StepLosses) -> StepLosses:
        clock(12.0)
        return losses

    def measure() -> dict[str, float]:
        clock(1000.0)
        return {"loss": 1.0}

    told: list[TrainingProgress] = []
    task = with_losses(LinearTask(), slow)
    result = train(
        task,
        folder,
        settings(minutes=1.0, learning_rate=1.0, warmup_share=0.4, checkpoint_every=2),
        ALONE,
        evaluation=Evaluation(measure, every=1),
        watch=Watch(listener=told.append),
    )
    assert (result.finished, result.steps, result.seconds) == (True, 5, 60.0)  # evaluations do not count
    rates = [line["learning_rate"] for line in read_metrics(folder.metrics) if "loss" in line]
    assert rates == pytest.approx([0.0, 0.5, 1.0, 2 / 3, 1 / 3])  # at 0, 12, 24, 36 and 48 of 60 seconds
    assert [(now.steps, now.share, now.seconds_left) for now in told] == [
        (None, pytest.approx(done / 60), pytest.approx(60 - done)) for done in (12, 24, 36, 48, 60)
    ]


def test_waiting_for_data_is_time_of_training(folder: RunFolder, clock: Callable[[float], None]) -> None:
    task = LinearTask()
    make = task.step_data

    def slow(step: int, progress: float) -> StepData:
        clock(5.0)
        return make(step, progress)

    task.step_data = slow  # type: ignore[method-assign]
    result = train(
        with_losses(task, lambda _, losses: (clock(1.0), losses)[1]), folder, settings(steps=3), ALONE
    )
    assert result.seconds == 18.0


def test_the_budget_of_a_run_that_was_stopped_goes_on_where_it_was(
    folder: RunFolder, clock: Callable[[float], None]
) -> None:
    def slow(_: int, losses: StepLosses) -> StepLosses:
        clock(12.0)
        return losses

    answers = iter([False, True])
    run = settings(minutes=1.0)
    stopped = train(
        with_losses(LinearTask(), slow), folder, run, ALONE, watch=Watch(stop=lambda: next(answers))
    )
    assert (stopped.finished, stopped.steps, stopped.seconds) == (False, 2, 24.0)
    clock(1e6)
    resumed = train(with_losses(LinearTask(small_model(seed=3)), slow), folder, run, ALONE)
    assert (resumed.finished, resumed.steps, resumed.seconds) == (True, 5, 60.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(("log_every", "noticed"), [(1, 4), (100, 4), (4, 4)])
def test_a_loss_that_is_no_number_ends_the_run_and_the_good_checkpoint_stays(
    folder: RunFolder, bad: float, log_every: int, noticed: int
) -> None:
    def diverge(call: int, losses: StepLosses) -> StepLosses:
        return StepLosses(losses.loss * (bad if call == 3 else 1.0), losses.sums, losses.tokens)

    run = settings(steps=9, log_every=log_every, checkpoint_every=1)
    with pytest.raises(NearsayError) as raised:
        train(with_losses(LinearTask(), diverge), folder, run, ALONE)
    assert str(raised.value) == Naming(
        f"loss before step {noticed} is no number",
        "diverged",
        "learning rate below 0.05",
        "warm-up",
        "new folder",
    )
    assert checkpoints(folder) == ["step-0000000002", "step-0000000003"]
    task = LinearTask()
    assert last_checkpoint(folder.checkpoints, task.model, torch.optim.AdamW(task.model.parameters()))
    assert all(parameter.isfinite().all() for parameter in task.model.parameters())


def test_a_gradient_that_is_no_number_is_noticed_before_it_is_saved(folder: RunFolder) -> None:
    def explode(call: int, losses: StepLosses) -> StepLosses:
        steep = (losses.loss.detach() - losses.loss).sqrt()  # 0, with an endless slope
        return StepLosses(losses.loss + steep if call == 2 else losses.loss, losses.sums, losses.tokens)

    with pytest.raises(NearsayError, match=r"gradient norm before step 3 .*new folder$"):
        train(with_losses(LinearTask(), explode), folder, settings(steps=3, checkpoint_every=1), ALONE)
    assert checkpoints(folder) == ["step-0000000001", "step-0000000002"]


@pytest.mark.parametrize("step", [0, 2])
def test_a_model_that_cannot_be_measured_has_diverged_unless_it_began_so(
    folder: RunFolder, step: int
) -> None:
    """Its losses may be finite up to the step that spoils it, and the next line of the log far away."""

    def measure() -> dict[str, float]:
        if steps[-1] == step:
            raise NotFiniteError("the base gave 2. zeros. Copy it again")
        return task.measure()

    task, steps = LinearTask(), [0]
    watch = Watch(listener=lambda now: steps.append(now.step))
    evaluation = Evaluation(measure, every=1, first=True)
    with pytest.raises(NearsayError) as raised:
        train(task, folder, settings(steps=4), ALONE, evaluation=evaluation, watch=watch)
    if step:
        told = ("after step 3", "gave 2. zeros. The", "diverged", "rate below 0.05", "--precision float32")
        assert str(raised.value) == Naming(*told)
        assert "Copy" not in str(raised.value)
    else:
        assert str(raised.value) == "the base gave 2. zeros. Copy it again"


def test_a_full_disk_at_a_checkpoint_ends_the_run_and_the_last_good_one_stays(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes

    def write(path: Path, content: bytes) -> int:
        if "step-0000000002" in {place.name for place in folder.checkpoints.iterdir()}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content)

    run = settings(steps=6, checkpoint_every=1)
    whole = LinearTask()
    other = RunFolder(folder.out.parent / "other")
    other.begin({}, ENVIRONMENT)
    train(whole, other, run, ALONE)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", write)
        with pytest.raises(DiskFullError, match=r"step-0000000003 .*same command"):
            train(LinearTask(), folder, run, ALONE)
    assert checkpoints(folder) == ["step-0000000001", "step-0000000002"]
    assert list(folder.out.rglob(f"{TEMPORARY_PREFIX}*")) == []
    task = LinearTask(small_model(seed=7))
    assert train(task, folder, run, ALONE).finished
    for ours, theirs in zip(task.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_interruption_in_a_step_ends_the_data_thread_and_gives_the_model_back(
    folder: RunFolder, raised: type[BaseException]
) -> None:
    def interrupt(call: int, losses: StepLosses) -> StepLosses:
        if call == 2:
            assert any(thread.name.startswith("nearsay-data") for thread in threading.enumerate())
            raise raised
        return losses

    task = with_losses(LinearTask(small_model(dropout=0.1)), interrupt)
    before = list(task.model.modules())
    with pytest.raises(raised) as told:
        train(task, folder, settings(steps=9, checkpoint_every=1), ALONE)
    assert not any(thread.name.startswith("nearsay-data") for thread in threading.enumerate()), told
    assert list(task.model.modules()) == before
    assert checkpoints(folder) == ["step-0000000001", "step-0000000002"]
    assert train(LinearTask(small_model(dropout=0.1)), folder, settings(steps=9), ALONE).steps == 9


@pytest.mark.parametrize("where", ["listener", "stop", "measure"])
def test_an_error_in_what_is_called_back_ends_the_data_thread(folder: RunFolder, where: str) -> None:
    def fail(*_: object) -> dict[str, float]:
        raise KeyboardInterrupt

    evaluation = Evaluation(fail, every=1) if where == "measure" else None
    watch = {"listener": Watch(listener=fail), "stop": Watch(stop=fail)}.get(where)
    with pytest.raises(KeyboardInterrupt):
        train(LinearTask(), folder, settings(steps=9), ALONE, evaluation=evaluation, watch=watch)
    assert not any(thread.name.startswith("nearsay-data") for thread in threading.enumerate())


def test_an_error_in_the_data_is_the_runs(folder: RunFolder) -> None:
    task = LinearTask()
    make = task.step_data

    def fail(step: int, progress: float) -> StepData:
        if step == 2:
            raise NearsayError("line 7 holds nothing. Mend it")
        return make(step, progress)

    task.step_data = fail  # type: ignore[method-assign]
    with pytest.raises(NearsayError, match="line 7 holds nothing"):
        train(task, folder, settings(steps=9, checkpoint_every=1), ALONE)
    assert checkpoints(folder) == ["step-0000000001", "step-0000000002"]  # what came before it counts


def test_an_evaluation_that_does_not_fit_the_memory_is_named_and_the_run_resumes(folder: RunFolder) -> None:
    task = LinearTask()

    def measure() -> dict[str, float]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    with pytest.raises(NearsayError, match="evaluation beside the training does not fit the memory of cpu"):
        train(task, folder, settings(steps=3), ALONE, evaluation=Evaluation(measure, every=2))
    assert train(LinearTask(), folder, settings(steps=3), ALONE).finished
