"""A run that two processes share, as torchrun starts them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from linear_task import LinearTask, small_model

from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.loop import Evaluation, train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_folder import RunFolder

pytestmark = pytest.mark.long

TIMES = {"seconds", "tokens_per_second", "peak_share"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, by_two_processes: Callable[..., str]) -> Path:
    """Where two processes have trained."""
    folder = tmp_path_factory.mktemp("two")
    by_two_processes(Path(__file__).parent / "two_processes.py", folder)
    return folder


@pytest.fixture(scope="module")
def told(out: Path) -> list[dict[str, Any]]:
    """What each of the processes saw."""
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(2)]


def numbers(out: Path) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in line.items() if name not in TIMES}
        for line in read_metrics(RunFolder(out).metrics)
    ]


def test_each_knows_its_number_and_the_first_leads(told: list[dict[str, Any]]) -> None:
    assert [seen["joined"] for seen in told] == [
        {"rank": rank, "count": 2, "device": "cpu"} for rank in range(2)
    ]
    assert [seen["leads"] for seen in told] == [True, False]
    assert [seen["whole result"]["leads"] for seen in told] == [True, False]


def test_they_add_up_and_agree(told: list[dict[str, Any]]) -> None:
    assert [seen["sum"] for seen in told] == [[3.0, 20.0]] * 2
    assert [seen["of_the_first"] for seen in told] == [0.1] * 2


def test_one_of_them_measures(told: list[dict[str, Any]]) -> None:
    assert told[0]["measured"] > 0
    assert told[1]["measured"] == 0


def test_no_thread_of_the_data_is_left(told: list[dict[str, Any]]) -> None:
    assert [seen["threads"] for seen in told] == [0, 0]


def test_they_lose_and_learn_as_one_does(told: list[dict[str, Any]], out: Path, folder: RunFolder) -> None:
    task = LinearTask(small_model(), rows=11)
    optimisation = Optimisation(
        steps=8, learning_rate=0.05, log_every=3, checkpoint_minutes=0.0, precision=Precision.FLOAT32
    )
    evaluation = Evaluation(task.measure, every=4)
    alone = train(task, folder, optimisation, Processes(), evaluation=evaluation)
    ours, theirs = numbers(out / "whole"), numbers(folder.out)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs] == [3, 4, 6, 8, 8]
    for our, their in zip(ours, theirs, strict=True):
        assert our.pop("evaluation", {}) == pytest.approx(their.pop("evaluation", {}), abs=1e-6)
        assert our == pytest.approx(their, abs=1e-6)
    for seen in told:
        for name, value in task.model.state_dict().items():
            assert seen["whole"][name] == pytest.approx(value.flatten().tolist(), abs=1e-6), name
    assert told[0]["whole result"]["tokens"] == alone.tokens == 88


@pytest.mark.parametrize("name", ["whole", "dropping"])
def test_stopped_by_the_first_and_resumed_they_are_the_same_to_the_last_bit(
    told: list[dict[str, Any]], out: Path, name: str
) -> None:
    assert [seen[f"{name} stopped"] for seen in told] == [[False, 5]] * 2
    for seen in told:
        assert seen[f"{name} in parts"] == seen[name] == told[0][name]
    whole, parts = numbers(out / name), numbers(out / f"{name} in parts")
    assert [line["step"] for line in parts] == [line["step"] for line in whole]
    for our, their in zip(parts, whole, strict=True):
        assert our.pop("evaluation", {}) == pytest.approx(their.pop("evaluation", {}), rel=1e-12)
        assert our == pytest.approx(their, rel=1e-12)  # sums of float64, added up at other places


def test_each_process_drops_other_things_in_each_step(told: list[dict[str, Any]], out: Path) -> None:
    for rank, seen in enumerate(told):
        assert seen["seeds"] == [
            [0, step, rank] for step in range(8)
        ]  # the run's seed, the step, the process
    losses = [line["loss"] for line in numbers(out / "dropping") if "loss" in line]
    assert losses != pytest.approx(
        [line["loss"] for line in numbers(out / "whole") if "loss" in line], rel=1e-3
    )
    assert told[0]["dropping"] == told[1]["dropping"]
