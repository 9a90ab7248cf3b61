"""The training loop: a run that was stopped or killed, and went on."""

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from linear_task import ENVIRONMENT, LinearTask, small_model
from torch import Tensor

from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import loop
from nearsay.training.run.checkpoint import weights_of
from nearsay.training.run.loop import Evaluation, TrainingResult, train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import StoppedError, TrainingProgress, Watch

ALONE = Processes()
STEPS = 7
TIMES = {"seconds", "tokens_per_second", "peak_share"}


class KilledError(Exception):
    """Stands for the end of the process."""


def go(
    out: Path,
    *,
    seed: int = 0,
    die_at: int | None = None,
    stop_at: int | None = None,
    stop_measuring: int | None = None,
    first: bool = False,
    best: str | None = "score",
    **others: object,
) -> tuple[TrainingResult, LinearTask]:
    """Begin a run or go on with it; the model is another one each time, as a new process has it."""
    folder = RunFolder(out)
    folder.begin({}, ENVIRONMENT)
    task = LinearTask(small_model(seed=seed, dropout=0.2), parts=2)
    steps = itertools.count(1)

    def listen(progress: TrainingProgress) -> None:
        if progress.step == die_at:
            raise KilledError

    told = {"steps": STEPS, "learning_rate": 0.05, "log_every": 3, "checkpoint_every": 2}
    told |= {"checkpoint_minutes": 0.0, "precision": Precision.FLOAT32}
    optimisation = Optimisation(**told | others)  # type: ignore[arg-type]  # passed through
    measurements = itertools.count(1)

    def measure() -> dict[str, float]:
        if next(measurements) == stop_measuring:
            raise StoppedError
        return task.measure()

    evaluation = Evaluation(measure, every=2, best=best, first=first)
    done = (lambda: next(steps) == stop_at) if stop_at else None
    return train(
        task, folder, optimisation, ALONE, evaluation=evaluation, watch=Watch(listen, stop=done)
    ), task


def numbers(out: Path) -> list[dict[str, object]]:
    return [
        {name: value for name, value in line.items() if name not in TIMES}
        for line in read_metrics(RunFolder(out).metrics)
    ]


def weights(task: LinearTask) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in weights_of(task.model).items()}


def assert_equal(
    resumed: tuple[TrainingResult, LinearTask], whole: tuple[TrainingResult, LinearTask]
) -> None:
    theirs = weights(whole[1])
    assert {
        name: torch.equal(tensor, theirs[name]) for name, tensor in weights(resumed[1]).items()
    } == dict.fromkeys(theirs, True)
    assert resumed[0].metrics == whole[0].metrics
    assert resumed[0].evaluation == whole[0].evaluation
    assert (resumed[0].finished, resumed[0].steps, resumed[0].tokens) == (True, STEPS, 8 * STEPS)


@pytest.fixture(autouse=True, scope="module")
def _quick_peak() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "hardware_peak", lambda *_: 1e9)
        yield


Whole = tuple[tuple[TrainingResult, LinearTask], list[dict[str, object]]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A run that nothing interrupted, and its log."""
    out = tmp_path_factory.mktemp("whole")
    return go(out / "out"), numbers(out / "out")


@pytest.mark.parametrize("step", range(1, STEPS))
def test_a_run_that_was_stopped_goes_on_to_the_last_bit(tmp_path: Path, whole: Whole, step: int) -> None:
    stopped, _ = go(tmp_path / "parts", stop_at=step)
    assert (stopped.finished, stopped.steps) == (False, step)
    assert_equal(go(tmp_path / "parts", seed=step), whole[0])
    assert numbers(tmp_path / "parts") == whole[1]


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_run_that_was_killed_goes_on_to_the_last_bit(tmp_path: Path, whole: Whole, step: int) -> None:
    with pytest.raises(KilledError):
        go(tmp_path / "parts", die_at=step)
    resumed = go(tmp_path / "parts", seed=step if step > 2 else 0)  # the first checkpoint comes after 2
    assert_equal(resumed, whole[0])
    assert numbers(tmp_path / "parts") == whole[1]


def test_a_run_that_was_stopped_after_every_step_is_the_same_too(tmp_path: Path, whole: Whole) -> None:
    for step in range(1, STEPS):
        assert go(tmp_path / "parts", seed=step - 1, stop_at=1)[0].steps == step
    assert_equal(go(tmp_path / "parts", seed=9), whole[0])
    assert numbers(tmp_path / "parts") == whole[1]


def test_a_run_that_was_done_but_not_finished_has_its_metrics_and_does_not_evaluate_again(
    tmp_path: Path,
) -> None:
    whole = go(tmp_path / "mine", best=None)
    before = RunFolder(tmp_path / "mine").metrics.read_bytes()
    again, task = go(tmp_path / "mine", seed=5, best=None)
    assert task.asked == []
    assert again == whole[0]
    assert RunFolder(tmp_path / "mine").metrics.read_bytes() == before
    theirs = weights(whole[1])
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in weights(task).items())


def test_a_resumed_run_shows_its_last_metrics_from_the_first_step(tmp_path: Path) -> None:
    go(tmp_path / "mine", stop_at=4)
    told: list[TrainingProgress] = []
    folder, task = RunFolder(tmp_path / "mine"), LinearTask(small_model(dropout=0.2), parts=2)
    optimisation = Optimisation(steps=STEPS, learning_rate=0.05, log_every=30, precision=Precision.FLOAT32)
    train(task, folder, optimisation, ALONE, watch=Watch(told.append))
    lines = read_metrics(folder.metrics)
    logged = next(line for line in lines if "loss" in line)
    evaluated = [line["evaluation"] for line in lines if "evaluation" in line][-1]
    assert (told[0].step, told[0].metrics["loss"]) == (5, logged["loss"])
    assert set(told[0].metrics) == {"loss", "absolute_error", "gradient_norm"}
    assert told[0].evaluation == evaluated


def test_the_pace_of_a_resumed_run_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    clock = type("Clock", (), dict.fromkeys(("perf_counter", "monotonic", "process_time"), lambda: now[0]))
    monkeypatch.setattr(loop, "time", clock)
    real = LinearTask.losses

    def slow(self: LinearTask, *told: object) -> object:
        now[0] += 1.0  # two micro-batches of 4 rows are a step
        return real(self, *told)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(LinearTask, "losses", slow)
    go(tmp_path / "mine", stop_at=2, log_every=100)
    now[0] += 1000.0
    go(tmp_path / "mine", log_every=100)
    (line,) = [line for line in read_metrics(RunFolder(tmp_path / "mine").metrics) if "loss" in line]
    assert line["tokens"] == 8 * STEPS
    assert line["seconds"] == 2.0 * STEPS  # over all stops
    assert line["tokens_per_second"] == 4.0


def test_the_checkpoint_knows_all_tokens(tmp_path: Path) -> None:
    go(tmp_path / "mine", stop_at=5, log_every=100)
    (state,) = (tmp_path / "mine" / "run" / "checkpoints").glob("step-*5/state.json")
    assert json.loads(state.read_text())["tokens"] == 40


@pytest.mark.parametrize("damaged", ["model.safetensors", "optimiser.safetensors", "state.json"])
def test_a_run_whose_last_checkpoint_is_damaged_goes_on_from_the_one_before(
    tmp_path: Path, whole: Whole, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KilledError):
        go(tmp_path / "parts", die_at=5)
    file = tmp_path / "parts" / "run" / "checkpoints" / "step-0000000004" / damaged
    file.write_bytes(file.read_bytes()[:-3])
    with caplog.at_level(logging.WARNING, "nearsay"):
        resumed = go(tmp_path / "parts", seed=1)
    assert "step-0000000004 is damaged" in caplog.text
    assert_equal(resumed, whole[0])
    assert numbers(tmp_path / "parts") == whole[1]


def test_the_best_weights_stay_with_their_evaluation_when_the_run_goes_back_behind_them(
    tmp_path: Path,
) -> None:
    scores = iter([0.2, 0.9, 0.5, 0.4, 0.3, 0.1])
    kept: list[dict[str, Tensor]] = []
    folder = RunFolder(tmp_path / "mine")

    def run(die_at: int | None) -> tuple[TrainingResult, LinearTask]:
        folder.begin({}, ENVIRONMENT)
        task = LinearTask()

        def measure() -> dict[str, float]:
            kept.append(weights(task))
            return {"score": next(scores)}

        def listen(progress: TrainingProgress) -> None:
            if progress.step == die_at:
                raise KilledError

        optimisation = Optimisation(
            steps=6, checkpoint_every=3, checkpoint_minutes=0, precision=Precision.FLOAT32
        )
        evaluation = Evaluation(measure, every=2, best="score")
        return train(task, folder, optimisation, ALONE, evaluation=evaluation, watch=Watch(listen)), task

    with pytest.raises(KilledError):
        run(die_at=4)  # evaluated at 2 and at 4; the last checkpoint is of 3
    result, task = run(die_at=None)
    assert result.evaluation == {"score": 0.9}  # although the run that goes on never saw it
    assert all(torch.equal(tensor, kept[1][name]) for name, tensor in weights(task).items())


@pytest.mark.parametrize("number", range(1, 6))
def test_a_run_that_is_stopped_while_it_is_measured_is_measured_there_when_it_goes_on(
    tmp_path: Path, number: int
) -> None:
    whole = go(tmp_path / "whole", first=True)  # measured before the first step, at 2, 4, 6, and at the end
    stopped, _ = go(tmp_path / "parts", first=True, stop_measuring=number)
    assert not stopped.finished
    assert stopped.steps == [0, 2, 4, 6, STEPS][number - 1]
    assert_equal(go(tmp_path / "parts", first=True, seed=min(number - 1, 1)), whole)
    assert numbers(tmp_path / "parts") == numbers(tmp_path / "whole")


def test_checkpoints_come_when_they_are_due_and_two_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    real: Callable[..., None] = loop.write_checkpoint

    def write(folder: Path, checkpoint: loop.Checkpoint, *rest: object) -> None:
        written.append(checkpoint.step)
        real(folder, checkpoint, *rest)

    monkeypatch.setattr(loop, "write_checkpoint", write)
    go(tmp_path / "mine", checkpoint_every=3)
    assert written == [3, 6, 7]
    names = sorted(path.name for path in (tmp_path / "mine" / "run" / "checkpoints").iterdir())
    assert names == ["step-0000000006", "step-0000000007"]


def test_checkpoints_come_by_the_clock_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = [0.0], []
    clock = type("Clock", (), dict.fromkeys(("perf_counter", "monotonic", "process_time"), lambda: now[0]))
    monkeypatch.setattr(loop, "time", clock)
    real = LinearTask.losses

    def slow(self: LinearTask, *told: object) -> object:
        now[0] += 20.0
        return real(self, *told)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(LinearTask, "losses", slow)
    monkeypatch.setattr(loop, "write_checkpoint", lambda *told: written.append(told[1].step))
    go(tmp_path / "mine", checkpoint_every=None, checkpoint_minutes=1.0)  # 40 seconds a step
    assert written == [2, 4, 6, 7]


@pytest.mark.parametrize("precision", [Precision.BFLOAT16, Precision.FLOAT16])
def test_narrow_formats_go_on_to_the_last_bit_on_a_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    monkeypatch.setattr(loop, "training_precision", lambda *_: precision)
    whole = go(tmp_path / "whole")
    go(tmp_path / "parts", stop_at=3)
    assert_equal(go(tmp_path / "parts", seed=3), whole)
    assert numbers(tmp_path / "parts") == numbers(tmp_path / "whole")
