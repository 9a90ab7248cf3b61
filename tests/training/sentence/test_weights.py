"""Weight files are hashed once, and again after every change."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.training.sentence import weights
from nearsay.training.sentence.folder import EncoderFolder
from nearsay.training.sentence.weights import weight_hashes


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were really read."""
    read: list[str] = []
    real = weights.file_sha256

    def counting(file: Path) -> str:
        read.append(file.name)
        return real(file)

    monkeypatch.setattr(weights, "file_sha256", counting)
    return read


def aged(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file have been at rest: the clock goes on, since a file's time of change cannot be set."""
    later = file.stat().st_ctime + 10
    monkeypatch.setattr(weights.time, "time", lambda: later)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_file_at_rest_is_hashed_once(
    make_folder: Callable[..., Path], hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = EncoderFolder(make_folder())
    file = folder.path / "model.safetensors"
    aged(file, monkeypatch)
    first = weight_hashes(folder)
    assert first == {"model.safetensors": sha256(file)}
    assert weight_hashes(folder) == first
    assert hashed == ["model.safetensors"]


def test_a_file_of_the_same_size_and_time_but_other_content_is_hashed_again(
    make_folder: Callable[..., Path], hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = EncoderFolder(make_folder())
    file = folder.path / "model.safetensors"
    aged(file, monkeypatch)
    first = weight_hashes(folder)
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copy that keeps times would
    aged(file, monkeypatch)
    assert weight_hashes(folder) == {"model.safetensors": sha256(file)} != first
    assert len(hashed) == 2


def test_a_file_that_was_just_written_is_not_remembered(
    make_folder: Callable[..., Path], cache_file: Path
) -> None:
    weight_hashes(EncoderFolder(make_folder()))
    assert not cache_file.exists()


@pytest.mark.parametrize("content", ["", "[1", "[]", "{}", "null"])
def test_a_memory_that_cannot_be_read_costs_the_time_alone(
    content: str, make_folder: Callable[..., Path], cache_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = EncoderFolder(make_folder())
    file = folder.path / "model.safetensors"
    aged(file, monkeypatch)
    cache_file.parent.mkdir()
    cache_file.write_text(content)
    assert weight_hashes(folder) == {"model.safetensors": sha256(file)}
    assert str(file.resolve()) in json.loads(cache_file.read_text())


def test_a_home_that_cannot_be_written_costs_the_time_alone(
    make_folder: Callable[..., Path], cache_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = EncoderFolder(make_folder())
    file = folder.path / "model.safetensors"
    aged(file, monkeypatch)
    cache_file.parent.write_text("a file where the folder belongs")
    assert weight_hashes(folder) == {"model.safetensors": sha256(file)}
