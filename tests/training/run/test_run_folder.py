"""The folder of a run."""

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from linear_task import ENVIRONMENT
from naming import Naming
from safetensors.torch import save_file

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.data.errors import BadInputError, DiskFullError, NearsayError, StorageError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.run_folder import RunFolder

LOCK = ".training.lock"
CONFIG = {"task": "linear", "batch": 8, "optimisation": {"steps": 5, "learning_rate": 0.1}, "texts": ["a"]}


def tree(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def save_model(place: Path) -> None:
    (place / "config.json").write_text("{}")
    (place / "model.safetensors").write_bytes(b"weights")
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text("[]")
    (place / "zzz.txt").write_text("last by name")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "models" / "mine"


def refusal(out: Path, config: dict[str, object] | None = None) -> str:
    with pytest.raises(BadInputError) as raised:
        RunFolder(out).begin(config or CONFIG, ENVIRONMENT)  # type: ignore[arg-type]  # JSON values
    return str(raised.value)


def kept(out: Path) -> RunFolder:
    """A run that has come to a checkpoint."""
    with RunFolder(out) as folder:
        folder.begin(CONFIG, ENVIRONMENT)
    (folder.checkpoints / "step-0000000001").mkdir(parents=True)
    return folder


WHOLE = {**CONFIG, "environment": ENVIRONMENT.to_json()}


def test_a_run_that_never_came_to_a_checkpoint_is_replaced(out: Path) -> None:
    RunFolder(out).begin(CONFIG, ENVIRONMENT)
    assert RunFolder(out).begin({"task": "another"}, ENVIRONMENT) is False
    assert RunFolder(out).config() == {"task": "another", "environment": ENVIRONMENT.to_json()}


def test_a_new_run_takes_over_nothing_that_an_earlier_one_measured_or_kept(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = with_leftovers(out)
    shutil.rmtree(folder.checkpoints)
    (folder.run / "finished").mkdir()
    (folder.run / "result.json").write_text("{}")
    (folder.run / "notes.txt").write_text("the user's own")
    assert RunFolder(out).begin(CONFIG, ENVIRONMENT) is False
    kept = {path.name for path in folder.run.iterdir()}
    assert kept == {
        "config.json",
        "text",
        "dev-text",
        "start-3-abc",
        "notes.txt",
        f"{TEMPORARY_PREFIX}1",
        LOCK,
    } | {f"{TEMPORARY_PREFIX}2"}
    (record,) = caplog.records
    assert str(out) in record.getMessage()


def test_a_discarded_run_leaves_its_result_and_begins_anew_without_a_warning(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = with_leftovers(out)
    folder.discard({"adapted": False})
    assert json.loads((folder.run / "result.json").read_text("utf-8")) == {"adapted": False}
    assert not folder.has_checkpoint
    assert RunFolder(out).begin(CONFIG, ENVIRONMENT) is False
    assert not caplog.records
    assert not (folder.run / "result.json").exists()


def test_a_run_in_which_another_process_trains_is_not_begun_anew(out: Path) -> None:
    folder = with_leftovers(out)
    shutil.rmtree(folder.checkpoints)
    before = {name: (out / name).read_bytes() for name in tree(out)}
    with folder.held():
        for ask in (RunFolder(out).check, lambda: RunFolder(out).begin({"task": "another"}, ENVIRONMENT)):
            with pytest.raises(NearsayError, match=str(out)):
                ask()
    assert {name: (out / name).read_bytes() for name in tree(out)} == before


def test_a_new_folder_is_made_with_its_config(out: Path) -> None:
    folder = RunFolder(out)
    assert folder.begin(CONFIG, ENVIRONMENT) is False
    assert tree(out) == [f"run/{LOCK}", "run/config.json"]
    assert folder.config() == WHOLE
    assert json.loads((out / "run" / "config.json").read_text()) == WHOLE


def test_a_config_says_what_a_precision_was_resolved_to(out: Path) -> None:
    asked = {"precision": "auto", "optimisation": {"steps": 5, "precision": "auto"}}
    RunFolder(out).begin(asked, ENVIRONMENT)
    config = RunFolder(out).config()
    assert config == {"optimisation": {"steps": 5}, "environment": ENVIRONMENT.to_json()}
    environment = config["environment"]
    assert isinstance(environment, dict)
    assert environment["precision"] == "float32"
    assert environment["device"] == "cpu"
    versions = environment["versions"]
    assert isinstance(versions, dict)
    assert versions["torch"] == version("torch")
    assert {"python", "nearsay", "numpy"} <= set(versions)


OTHERS = [
    ({"device": "cuda"}, ["device: cpu there, cuda now"]),
    ({"precision": Precision.BFLOAT16}, ["precision: float32 there, bfloat16 now"]),
    ({"processes": 2}, ["processes: 1 there, 2 now"]),
    (
        {"versions": {**ENVIRONMENT.versions, "torch": "9.9"}},
        [f"versions.torch: {version('torch')} there, 9.9 now"],
    ),
]


@pytest.mark.parametrize(("change", "named"), OTHERS)
def test_a_resume_that_would_not_be_exact_is_refused_or_warned_of_and_noted(
    out: Path, change: dict[str, object], named: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    kept(out)
    other = replace(ENVIRONMENT, **change)  # type: ignore[arg-type]  # fields of it
    before = (out / "run" / "config.json").read_bytes()
    with pytest.raises(BadInputError) as raised:
        RunFolder(out).begin(CONFIG, other)
    assert all(one in str(raised.value) for one in [*named, str(out), "--inexact-resume"])
    assert (out / "run" / "config.json").read_bytes() == before
    assert RunFolder(out).begin(CONFIG, other, exact=False) is True
    assert [named[0] in record.getMessage() for record in caplog.records] == [True]
    assert RunFolder(out).config() == {**WHOLE, "resumed_with": [other.to_json()]}
    assert RunFolder(out).begin(CONFIG, other) is True  # as it went on last
    with pytest.raises(BadInputError):
        RunFolder(out).begin(CONFIG, ENVIRONMENT)


def test_a_run_keeps_its_fitted_tokens_until_it_is_resumed_on_other_hardware(out: Path) -> None:
    folder = kept(out)
    assert folder.begun_with(4000) == 4000
    assert RunFolder(out).begin(CONFIG, ENVIRONMENT) is True
    assert RunFolder(out).begun_with(3000) == 4000
    other = replace(ENVIRONMENT, hardware="a GPU with less memory")
    assert RunFolder(out).begin(CONFIG, other) is True
    assert RunFolder(out).begun_with(2000) == 2000


def test_another_number_of_threads_is_warned_of_and_not_refused(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(out)
    other = replace(ENVIRONMENT, threads=ENVIRONMENT.threads + 1)
    assert RunFolder(out).begin(CONFIG, other) is True
    (record,) = caplog.records
    assert f"threads: {ENVIRONMENT.threads} there, {other.threads} now" in record.getMessage()


def test_an_empty_folder_may_be_there_already(out: Path) -> None:
    out.mkdir(parents=True)
    assert RunFolder(out).begin(CONFIG, ENVIRONMENT) is False


def test_the_same_config_goes_on_with_the_run(out: Path) -> None:
    kept(out)
    assert RunFolder(out).begin({**CONFIG, "texts": ("a",)}, ENVIRONMENT) is True  # as JSON it is the same


def test_a_home_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert RunFolder("~/mine").out == tmp_path / "mine"


def test_other_settings_are_named_one_by_one_and_nothing_is_touched(out: Path) -> None:
    kept(out)
    before = (out / "run" / "config.json").read_bytes()
    changed = {"task": "linear", "batch": 16, "optimisation": {"steps": 5, "learning_rate": 0.2}, "dev": []}
    assert refusal(out, changed | {"texts": ["a"]}) == Naming(
        out,
        "unfinished",
        "batch: 8 there, 16 now",
        "dev: None there, [] now",
        "optimisation.learning_rate: 0.1 there, 0.2 now",
        "new folder",
    )
    assert (out / "run" / "config.json").read_bytes() == before


def test_of_a_file_with_another_content_it_is_told_that_it_has_changed(out: Path) -> None:
    def config(pairs: str, rows: int, more: str = "more", base: str = "a") -> dict[str, object]:
        sets = [{"name": "pairs", "rows": rows, "sha256": pairs}, {"name": more, "rows": 2, "sha256": more}]
        return {"base": "bert", "base_sha256": base, "sets": sets, "dev": None}

    RunFolder(out).begin(config("a", 3), ENVIRONMENT)  # type: ignore[arg-type]  # JSON values
    (out / "run" / "checkpoints" / "step-1").mkdir(parents=True)
    for changed, said in (
        (config("b", 4), "and pairs has changed since it began. Bring back what was there"),
        (config("a", 3, base="b"), "and bert has changed since it began. Bring back what was there"),
        (config("b", 4, base="b"), "and bert and pairs have changed since it began. "),
        (config("a", 3, more="other"), "other settings (sets.2.name: 'more' there, 'other' now). "),
        (config("b", 4, more="m"), "(sets.2.name: 'more' there, 'm' now; pairs has changed). "),
    ):
        assert said in refusal(out, changed)


def test_a_folder_that_holds_something_else_is_refused(out: Path) -> None:
    out.mkdir(parents=True)
    (out / "thesis.txt").write_text("mine")
    assert refusal(out) == Naming(out, "contains no run", "new folder")
    assert tree(out) == ["thesis.txt"]


def test_of_torchruns_processes_the_first_alone_asks_whether_the_folder_is_held(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunFolder(out).held():
        with pytest.raises(NearsayError, match="another process trains"):
            RunFolder(out).check()
        monkeypatch.setenv("RANK", "1")
        RunFolder(out).check()


def test_a_file_is_refused(out: Path) -> None:
    out.parent.mkdir()
    out.write_text("mine")
    assert refusal(out) == Naming(out, "is a file", "new folder")


def test_a_place_below_a_file_is_refused(out: Path) -> None:
    out.parent.write_text("mine")
    with pytest.raises(NearsayError, match="models/mine cannot be written "):
        RunFolder(out).begin(CONFIG, ENVIRONMENT)


def test_a_finished_run_is_refused(out: Path) -> None:
    folder = RunFolder(out)
    folder.begin(CONFIG, ENVIRONMENT)
    folder.finish(save_model)
    assert refusal(out) == Naming(out, "finished run", "new folder", "start a new run")


@pytest.mark.parametrize("content", [b"", b'{"task": ', b"\xff\xfe"])
def test_a_damaged_config_is_told_with_its_remedy(out: Path, content: bytes) -> None:
    folder = kept(out)
    folder.config_file.write_bytes(content)
    with pytest.raises(NearsayError, match=r"run/config\.json cannot be read .*new folder$"):
        folder.begin(CONFIG, ENVIRONMENT)


def test_json_is_written_whole_or_not_at_all(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(out)
    folder.write_run_json("result.json", {"größe": 1})
    assert (out / "run" / "result.json").read_text("utf-8") == '{\n "größe": 1\n}\n'

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match=r"result\.json"):
        folder.write_run_json("result.json", {"size": 2})
    monkeypatch.undo()
    assert (out / "run" / "result.json").read_text("utf-8") == '{\n "größe": 1\n}\n'
    assert tree(out) == ["run/result.json"]


def test_a_run_on_a_file_system_that_became_read_only_is_refused(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(out)
    folder.begin(CONFIG, ENVIRONMENT)
    (out / "run" / LOCK).touch()  # as a run that was killed leaves it

    def refuse(lock: FileLock, *_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", lock.lock_file)

    monkeypatch.setattr(FileLock, "_acquire", refuse)
    with pytest.raises(StorageError) as raised:
        RunFolder(out).check()
    assert str(raised.value) == Naming(out, "Read-only", "another place")


def test_a_folder_in_which_another_process_trains_is_refused_until_it_ends(out: Path) -> None:
    with RunFolder(out) as folder:
        folder.begin(CONFIG, ENVIRONMENT)
    with folder.held():
        with pytest.raises(NearsayError) as raised, RunFolder(out).held():
            pass
        assert str(raised.value) == Naming("another process", out, "another folder")
    with RunFolder(out).held():
        pass
    folder.finish(save_model)
    assert sorted(path.name for path in (out / "run").iterdir()) == ["config.json"]


def with_leftovers(out: Path) -> RunFolder:
    with RunFolder(out) as folder:
        folder.begin(CONFIG, ENVIRONMENT)
    for place in ("checkpoints/step-0000000001", "text", "dev-text", "start-3-abc", f"{TEMPORARY_PREFIX}1"):
        (folder.run / place).mkdir(parents=True)
        (folder.run / place / "part").write_bytes(b"x")
    for name in ("best.safetensors", "metrics.jsonl", "plot.png", f"{TEMPORARY_PREFIX}2"):
        (folder.run / name).write_bytes(b"x")
    return folder


FINISHED = [
    "1_Pooling/config.json",
    "config.json",
    "model.safetensors",
    "run/config.json",
    "run/metrics.jsonl",
    "run/plot.png",
    "zzz.txt",
]


def test_a_finished_folder_is_the_model_and_beside_it_how_it_was_made(out: Path) -> None:
    with_leftovers(out).finish(save_model)
    assert tree(out) == FINISHED
    assert sorted(path.name for path in (out / "run").iterdir()) == [
        "config.json",
        "metrics.jsonl",
        "plot.png",
    ]


def test_the_models_config_comes_last(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        moved.append(str(target.relative_to(out)))
        return real(path, target)

    folder = with_leftovers(out)
    monkeypatch.setattr(Path, "replace", replace)
    folder.finish(save_model)
    assert sorted(moved) == ["1_Pooling/config.json", "config.json", "model.safetensors", "zzz.txt"]
    assert moved[-1] == "config.json"  # the folder's own, not the pooling's


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system refuse longer files, as a disk does that is full."""
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


class StopError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_stop_among_the_moves_heals_when_the_run_goes_on(
    out: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real, count = Path.replace, iter(range(9))

    def replace(path: Path, target: Path) -> Path:
        if next(count) == number:
            raise StopError
        return real(path, target)

    folder = with_leftovers(out)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(StopError):
        folder.finish(save_model)
    monkeypatch.undo()
    assert not (out / "config.json").exists()  # no library loads it
    assert (out / "run" / "checkpoints").is_dir()
    again = RunFolder(out)
    assert again.begin(CONFIG, ENVIRONMENT) is True
    again.finish(save_model)
    assert tree(out) == FINISHED


def test_a_stop_after_the_last_move_leaves_a_finished_run_that_is_cleared_up_later(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: RunFolder) -> None:
        raise StopError

    folder = with_leftovers(out)
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "_clear", stop)
        with pytest.raises(StopError):
            folder.finish(save_model)
    assert (out / "config.json").is_file()
    assert (out / "run" / "checkpoints").is_dir()
    assert "holds a finished run" in refusal(out)
    assert tree(out) == FINISHED


def test_a_model_that_cannot_be_saved_leaves_the_run_as_it_was(out: Path) -> None:
    folder = with_leftovers(out)
    before = tree(out)

    def save(place: Path) -> None:
        save_model(place)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        folder.finish(save)
    assert tree(out) == before


def test_a_full_disk_that_the_weights_own_writer_meets_is_told_with_its_remedy(out: Path) -> None:
    folder = with_leftovers(out)
    before = tree(out)

    def save(place: Path) -> None:
        save_model(place)
        with files_of_at_most(1000):
            save_file({"weight": torch.zeros(1000)}, place / "model.safetensors")

    with pytest.raises(DiskFullError, match=r"no room .*finished .*Free some space"):
        folder.finish(save)
    assert tree(out) == before


def test_who_began_a_run_holds_its_folder_until_the_end(out: Path) -> None:
    with RunFolder(out) as folder:
        folder.begin(CONFIG, ENVIRONMENT)
        with folder.held():
            pass  # as the loop does; what comes after it is measured and written
        for ask in (RunFolder(out).check, lambda: RunFolder(out).begin(CONFIG, ENVIRONMENT)):
            with pytest.raises(NearsayError, match=str(out)):
                ask()
        folder.finish(save_model)
        with pytest.raises(BadInputError, match=str(out)):
            RunFolder(out).begin(CONFIG, ENVIRONMENT)
    assert not (out / "run" / LOCK).exists()
    with RunFolder(out.parent / "other") as folder:
        folder.begin(CONFIG, ENVIRONMENT)
    assert RunFolder(out.parent / "other").begin(CONFIG, ENVIRONMENT) is False
