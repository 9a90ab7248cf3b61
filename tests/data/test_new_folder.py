"""Folders that are there whole or not at all."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearsay.data.durable import TEMPORARY_PREFIX, new_folder, replacing
from nearsay.data.errors import DiskFullError, NearsayError


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def fill(path: Path, raised: BaseException | None = None) -> None:
    with new_folder(path) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "part").write_bytes(b"content")
        if raised is not None:
            raise raised


def test_a_folder_appears_with_all_that_was_written_into_it(tmp_path: Path) -> None:
    fill(tmp_path / "deep" / "down" / "model")
    assert names(tmp_path) == [
        "deep",
        "deep/down",
        "deep/down/model",
        "deep/down/model/inner",
        "deep/down/model/inner/part",
    ]
    assert (tmp_path / "deep/down/model/inner/part").read_bytes() == b"content"


def test_until_the_block_ends_there_is_no_folder(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        assert folder.name.startswith(TEMPORARY_PREFIX)
        assert not (tmp_path / "model").exists()
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("raised", [OSError(errno.EIO, "broken"), ValueError("no"), KeyboardInterrupt()])
def test_an_error_in_the_block_leaves_nothing(tmp_path: Path, raised: BaseException) -> None:
    with pytest.raises(NearsayError if isinstance(raised, OSError) else type(raised)):
        fill(tmp_path / "model", raised)
    assert names(tmp_path) == []


def test_what_a_killed_process_left_a_day_ago_is_removed(tmp_path: Path) -> None:
    for name, ages in (("old", (100_000, 100_000)), ("used", (0, 100_000)), ("new", (0, 0))):
        (tmp_path / f"{TEMPORARY_PREFIX}{name}" / "inner").mkdir(parents=True)
        for place, age in zip(("inner", "."), ages, strict=True):
            moment = time.time() - age
            os.utime(tmp_path / f"{TEMPORARY_PREFIX}{name}" / place, (moment, moment))
    fill(tmp_path / "model")
    left = [f"{TEMPORARY_PREFIX}new", f"{TEMPORARY_PREFIX}used", "model"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("operation", ["fsync", "mkdir", "write_bytes", "rename"])
def test_a_full_disk_is_told_with_its_remedy_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, number: int
) -> None:
    target: Any = os if operation == "fsync" else Path
    monkeypatch.setattr(target, operation, failing(number))
    with pytest.raises(DiskFullError, match=r"no room .*model .*Free"):
        fill(tmp_path / "model")
    monkeypatch.undo()
    assert names(tmp_path) == []


def test_files_and_folders_are_flushed_before_the_folder_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real_open, real_rename = os.open, Path.rename

    def opened(path: str | Path, *options: Any) -> int:
        events.append(Path(path).name)
        return real_open(path, *options)

    def rename(path: Path, target: Path) -> Path:
        events.append("renamed")
        return real_rename(path, target)

    with new_folder(tmp_path / "model") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "part").write_bytes(b"content")
        temporary = folder.name
        monkeypatch.setattr(os, "open", opened)
        monkeypatch.setattr(Path, "rename", rename)
    assert sorted(events[:3]) == sorted(["inner", "part", temporary])
    assert events[3:] == ["renamed", tmp_path.name]


def test_a_folder_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_bytes(b"old")
    with pytest.raises(NearsayError, match=r"model .*written .*another place"):
        fill(tmp_path / "model")
    assert names(tmp_path) == ["model", "model/mine"]


def test_an_error_without_a_number_is_told_in_its_own_words(tmp_path: Path) -> None:
    with (
        pytest.raises(NearsayError, match=r"a\.bin .*written \(cannot draw this\)"),
        replacing(tmp_path / "a.bin"),
    ):
        raise OSError("cannot draw this")
    assert names(tmp_path) == []
