"""The folder of a run."""

import contextlib
import errno
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.data.errors import BadInputError, DiskFullError, NearsayError
from nearsay.training.run.run_folder import RunFolder

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
        RunFolder(out).begin(config or CONFIG)  # type: ignore[arg-type]  # JSON values
    return str(raised.value)


def kept(out: Path) -> RunFolder:
    """A run that has come to a checkpoint."""
    folder = RunFolder(out)
    folder.begin(CONFIG)
    (folder.checkpoints / "step-0000000001").mkdir(parents=True)
    return folder


def test_a_run_that_never_came_to_a_checkpoint_is_replaced(out: Path) -> None:
    RunFolder(out).begin(CONFIG)
    assert RunFolder(out).begin({"task": "another"}) is False
    assert RunFolder(out).config() == {"task": "another"}


def test_a_new_folder_is_made_with_its_config(out: Path) -> None:
    folder = RunFolder(out)
    assert folder.begin(CONFIG) is False
    assert tree(out) == ["run/config.json"]
    assert folder.config() == CONFIG
    assert json.loads((out / "run" / "config.json").read_text()) == CONFIG


def test_an_empty_folder_may_be_there_already(out: Path) -> None:
    out.mkdir(parents=True)
    assert RunFolder(out).begin(CONFIG) is False


def test_the_same_config_goes_on_with_the_run(out: Path) -> None:
    kept(out)
    assert RunFolder(out).begin({**CONFIG, "texts": ("a",)}) is True  # as JSON it is the same


def test_a_home_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert RunFolder("~/mine").out == tmp_path / "mine"


def test_other_settings_are_named_one_by_one_and_nothing_is_touched(out: Path) -> None:
    kept(out)
    before = (out / "run" / "config.json").read_bytes()
    changed = {"task": "linear", "batch": 16, "optimisation": {"steps": 5, "learning_rate": 0.2}, "dev": []}
    assert refusal(out, changed | {"texts": ["a"]}) == (
        f"{out} holds an unfinished run with other settings "
        "(batch: 8 there, 16 now; dev: None there, [] now; optimisation.learning_rate: 0.1 there, 0.2 now). "
        "Use the same settings to go on with it, or name a new folder"
    )
    assert (out / "run" / "config.json").read_bytes() == before


def test_a_folder_that_holds_something_else_is_refused(out: Path) -> None:
    out.mkdir(parents=True)
    (out / "thesis.txt").write_text("mine")
    assert refusal(out) == f"{out} is there and holds no run. Name a new folder"
    assert tree(out) == ["thesis.txt"]


def test_a_file_is_refused(out: Path) -> None:
    out.parent.mkdir()
    out.write_text("mine")
    assert refusal(out) == f"{out} is a file. Name a new folder"


def test_a_finished_run_is_refused(out: Path) -> None:
    folder = RunFolder(out)
    folder.begin(CONFIG)
    folder.finish(save_model)
    assert refusal(out) == (
        f"{out} holds a finished run. Name a new folder, or remove that one; "
        "to train the model further, start a new run from it"
    )


@pytest.mark.parametrize("content", [b"", b'{"task": ', b"\xff\xfe"])
def test_a_damaged_config_is_told_with_its_remedy(out: Path, content: bytes) -> None:
    folder = kept(out)
    folder.config_file.write_bytes(content)
    with pytest.raises(NearsayError, match=r"run/config\.json cannot be read .*Name a new folder$"):
        folder.begin(CONFIG)


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


def test_a_folder_in_which_another_process_trains_is_refused_until_it_ends(out: Path) -> None:
    folder = RunFolder(out)
    folder.begin(CONFIG)
    with folder.held():
        with pytest.raises(NearsayError) as raised, RunFolder(out).held():
            pass
        assert str(raised.value) == f"another process trains in {out}. Wait for it, or name another folder"
    with RunFolder(out).held():
        pass
    folder.finish(save_model)
    assert sorted(path.name for path in (out / "run").iterdir()) == ["config.json"]


def with_leftovers(out: Path) -> RunFolder:
    folder = RunFolder(out)
    folder.begin(CONFIG)
    for place in ("checkpoints/step-0000000001", "text", "dev-text", f"{TEMPORARY_PREFIX}1"):
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
    assert again.begin(CONFIG) is True
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

    with pytest.raises(DiskFullError, match=r"no room left to write .*finished .*Free some space and run"):
        folder.finish(save)
    assert tree(out) == before
