"""Metrics that go to TensorBoard, Weights & Biases and MLflow while a run trains, stops and resumes."""

import logging
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from linear_task import ENVIRONMENT, LinearTask, small_model
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nearsay.data.errors import BadInputError, MissingExtraError, NearsayError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import loop, metrics_clients
from nearsay.training.run.loop import Evaluation, TrainingResult, train
from nearsay.training.run.metrics_log import MetricsLog, read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import TrainingProgress, Watch


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def _quick_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "hardware_peak", lambda *_: 1e9)


def go(out: Path, *clients: str, die_at: int | None = None) -> TrainingResult:
    """Seven steps, a line after each, a checkpoint after 2, 4 and 6, an evaluation with each."""
    folder = RunFolder(out)
    folder.begin({"model": {"width": 3}}, ENVIRONMENT)
    task = LinearTask(small_model(), parts=1)

    def listen(progress: TrainingProgress) -> None:
        if progress.step == die_at:
            raise KilledError

    settings = Optimisation(
        steps=7,
        learning_rate=0.05,
        log_every=1,
        checkpoint_every=2,
        checkpoint_minutes=0.0,
        precision=Precision.FLOAT32,
    )
    evaluation = Evaluation(task.measure, every=2)
    return train(
        task, folder, settings, Processes(), evaluation=evaluation, watch=Watch(listen, log_to=clients)
    )


def go_in_two_parts(out: Path, client: str) -> None:
    """Killed after step 5, whose line is written; resumed after step 4."""
    with pytest.raises(KilledError):
        go(out, client, die_at=5)
    assert go(out, client).steps == 7


def lines_of(out: Path) -> tuple[dict[int, float], dict[int, float]]:
    """Each step's loss and each evaluation's score, as metrics.jsonl has them."""
    lines: list[Any] = read_metrics(RunFolder(out).metrics)
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line}
    scores = {line["step"]: line["evaluation"]["score"] for line in lines if "evaluation" in line}
    assert (list(losses), list(scores)) == ([1, 2, 3, 4, 5, 6, 7], [2, 4, 6, 7])
    return losses, scores


def test_tensorboard_reads_each_step_of_a_resumed_run_once(tmp_path: Path) -> None:
    go_in_two_parts(tmp_path / "out", "tensorboard")
    events = EventAccumulator(str(tmp_path / "out/run/tensorboard")).Reload()
    losses, scores = lines_of(tmp_path / "out")
    for name, wanted in (("train/loss", losses), ("dev/score", scores)):
        scalars = events.Scalars(name)
        assert [one.step for one in scalars] == list(wanted)
        assert [one.value for one in scalars] == pytest.approx(list(wanted.values()))
    assert '"width": 3' in events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()


def test_a_run_that_begins_again_begins_its_events_again(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        go(tmp_path / "out", "tensorboard", die_at=1)
    go(tmp_path / "out", "tensorboard")
    events = EventAccumulator(str(tmp_path / "out/run/tensorboard")).Reload()
    assert [one.step for one in events.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6, 7]


class FakeWandb(ModuleType):
    """Keeps what is given to it; a step behind the last one is dropped, as the real one drops it."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None, origin="here")
        self.begun: list[dict[str, Any]] = []
        self.ends: list[int] = []
        self.logged: list[tuple[int, dict[str, float]]] = []

    def init(self, **given: Any) -> SimpleNamespace:
        self.begun.append(given)
        return SimpleNamespace(log=self.log, finish=self.finish)

    def finish(self, exit_code: int) -> None:
        self.ends.append(exit_code)

    def log(self, values: dict[str, float], step: int) -> None:
        if not self.logged or step >= self.logged[-1][0]:
            self.logged.append((step, values))


def test_a_resumed_run_is_the_same_run_of_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.setenv("WANDB_NAME", "mine")
    go_in_two_parts(tmp_path / "out", "wandb")
    first, second = wandb.begun
    assert (first["id"], first["resume"]) == (second["id"], "allow")
    assert (first["project"], first["name"], first["config"]["model.width"]) == ("nearsay", "mine", 3)
    assert wandb.ends == [1, 0]  # killed, finished
    losses = {step: values["train/loss"] for step, values in wandb.logged if "train/loss" in values}
    assert losses == lines_of(tmp_path / "out")[0]


class FakeMlflow(ModuleType):
    """Keeps what is given to it, and every value of a metric, as the real one's files do."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.__spec__ = ModuleSpec("mlflow", None, origin="here")
        self.begun: list[tuple[str | None, str | None]] = []
        self.params: dict[str, object] = {}
        self.history: dict[str, list[SimpleNamespace]] = {}
        self.ends: list[str] = []

    def start_run(self, run_id: str | None, run_name: str | None) -> SimpleNamespace:
        self.begun.append((run_id, run_name))
        data = SimpleNamespace(metrics=dict.fromkeys(self.history))
        return SimpleNamespace(info=SimpleNamespace(run_id="the-id"), data=data)

    def log_params(self, params: dict[str, object]) -> None:
        assert not self.params
        self.params = params

    def MlflowClient(self) -> SimpleNamespace:  # noqa: N802 - as mlflow
        return SimpleNamespace(get_metric_history=lambda run, name: self.history[name] if run else [])

    def log_metrics(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self.history.setdefault(name, []).append(SimpleNamespace(step=step, value=value))

    def end_run(self, status: str) -> None:
        self.ends.append(status)


def test_a_resumed_run_is_the_same_run_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.delenv("MLFLOW_RUN_NAME", raising=False)
    go_in_two_parts(tmp_path / "out", "mlflow")
    assert mlflow.begun == [(None, "out"), ("the-id", None)]
    assert mlflow.params["model.width"] == 3
    assert mlflow.ends == ["FAILED", "FINISHED"]
    losses, scores = lines_of(tmp_path / "out")
    for name, wanted in (("train/loss", losses), ("dev/score", scores)):
        assert [(one.step, one.value) for one in mlflow.history[name]] == list(wanted.items())


def test_a_client_that_does_not_open_ends_a_run_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)

    def refused(**_: object) -> None:
        raise ValueError("no api_key")

    monkeypatch.setattr(wandb, "init", refused)
    with pytest.raises(NearsayError, match=r"wandb.*no api_key.*--log-to"):
        go(tmp_path / "out", "tensorboard", "wandb")
    assert read_metrics(RunFolder(tmp_path / "out").metrics) == []


def test_a_client_that_fails_is_warned_of_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)

    def lost(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(wandb, "log", lost)
    with caplog.at_level(logging.WARNING, "nearsay"):
        assert go(tmp_path / "out", "wandb").finished
    assert [record.getMessage().count("no route") for record in caplog.records] == [1]
    lines_of(tmp_path / "out")


def test_lines_of_a_linear_head_have_a_regularisation_and_a_figure(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "out")
    folder.begin({}, ENVIRONMENT)
    log = MetricsLog(folder.metrics)
    with metrics_clients.logged_to(["tensorboard"], folder, 0) as log.tell:
        log.append({"step": 1, "regularisation": 0.5, "evaluation": {"f1": 0.25}})
    events = EventAccumulator(str(folder.run / "tensorboard")).Reload()
    assert [events.Scalars(name)[0].value for name in ("train/regularisation", "dev/f1")] == [0.5, 0.25]


def test_a_client_that_is_not_installed_is_named_before_anything_is_prepared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match="comet"):
        Watch(log_to=("comet",))
    (tmp_path / "wandb").mkdir()  # wandb's own folder of offline runs is no package
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'nearsay\[wandb\]'"):
        Watch(log_to=("wandb",))
