"""The training loop: a run that no longer gets better is ended, and goes on as it would have."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from linear_task import LinearTask

from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.loop import Evaluation, TrainingResult, train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import Watch

NAN = math.nan


def run(
    folder: RunFolder,
    figures: Iterator[float],
    *,
    steps: int = 10,
    patience: int = 2,
    log_every: int = 100,
    stop_at: int | None = None,
) -> TrainingResult:
    told = iter(range(1, 1000))
    settings = Optimisation(
        steps=steps,
        learning_rate=0.05,
        log_every=log_every,
        checkpoint_minutes=0.0,
        precision=Precision.FLOAT32,
    )
    evaluation = Evaluation(lambda: {"score": next(figures)}, every=1, best="score", patience=patience)
    return train(
        LinearTask(),
        folder,
        settings,
        Processes(),
        evaluation=evaluation,
        watch=Watch(stop=lambda: next(told) == stop_at),
    )


def test_it_ends_when_it_has_not_been_better_for_so_long_and_keeps_the_best(folder: RunFolder) -> None:
    result = run(folder, iter([0.1, 0.5, 0.4, 0.3]))
    assert (result.finished, result.steps, result.stopped_early) == (True, 4, True)
    assert result.evaluation == {"score": 0.5}
    assert "loss" in result.metrics  # the last steps are told, though no line was due


@pytest.mark.parametrize("log_every", [1, 100])
def test_the_last_line_is_written_once(folder: RunFolder, log_every: int) -> None:
    result = run(folder, iter([0.5, 0.4, 0.3]), steps=3, log_every=log_every)
    lines = [line for line in read_metrics(folder.metrics) if "evaluation" not in line]
    assert [line["step"] for line in lines] == ([1, 2, 3] if log_every == 1 else [3])
    assert all("loss" in line for line in lines)
    assert "loss" in result.metrics


def test_a_run_that_did_all_its_steps_was_not_stopped_early(folder: RunFolder) -> None:
    result = run(folder, iter([0.5, 0.4, 0.3]), steps=3)
    assert (result.steps, result.stopped_early) == (3, False)


@pytest.mark.parametrize("figures", [[0.5, NAN, 0.4], [0.5, 0.4, NAN], [NAN, NAN, NAN]])
def test_a_run_that_was_stopped_ends_where_it_would_have(
    figures: list[float], folder: RunFolder, tmp_path: Path
) -> None:
    whole = run(folder, iter(figures))
    parts = RunFolder(tmp_path / "parts")
    first = iter(figures)
    assert not run(parts, first, stop_at=1 + math.isfinite(figures[0])).finished
    rest = run(parts, first)
    assert (rest.finished, rest.steps, rest.stopped_early) == (True, whole.steps, True)
