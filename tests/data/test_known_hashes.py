"""Large files are hashed once, and again after every change."""

import contextlib
import hashlib
import os
import sqlite3
from pathlib import Path

import pytest

from nearsay.data import known_hashes
from nearsay.data.known_hashes import known_sha256


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were really read."""
    read: list[str] = []
    real = known_hashes.file_sha256

    def counting(file: Path) -> str:
        read.append(file.name)
        return real(file)

    monkeypatch.setattr(known_hashes, "file_sha256", counting)
    return read


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "large.bin"
    made.write_bytes(b"content" * 100)
    aged(made, monkeypatch)
    return made


def aged(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file have been at rest: the clock goes on, since a file's time of change cannot be set."""
    later = file.stat().st_ctime + 10
    monkeypatch.setattr(known_hashes.time, "time", lambda: later)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_file_at_rest_is_hashed_once(file: Path, hashed: list[str]) -> None:
    assert known_sha256(file) == known_sha256(file) == sha256(file)
    assert hashed == ["large.bin"]


def test_a_file_of_the_same_size_and_time_but_other_content_is_hashed_again(
    file: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, before = known_sha256(file), file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copy that keeps times would
    aged(file, monkeypatch)
    assert known_sha256(file) == sha256(file) != first
    assert len(hashed) == 2


def test_a_file_that_was_just_written_is_not_remembered(tmp_path: Path, hashed: list[str]) -> None:
    file = tmp_path / "new.bin"
    file.write_bytes(b"new")
    assert known_sha256(file) == known_sha256(file) == sha256(file)
    assert len(hashed) == 2


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\x00" + b"x" * 200])
def test_a_memory_that_cannot_be_read_costs_the_time_alone(
    content: bytes, file: Path, cache_file: Path, hashed: list[str]
) -> None:
    cache_file.parent.mkdir()
    cache_file.write_bytes(content)
    assert [known_sha256(file) for _ in range(4)] == [sha256(file)] * 4
    assert 1 <= len(hashed) <= 2
    with contextlib.closing(sqlite3.connect(cache_file)) as connection:
        assert connection.execute("SELECT count(*) FROM files").fetchone() == (1,)


def test_a_home_that_cannot_be_written_costs_the_time_alone(
    file: Path, cache_file: Path, hashed: list[str]
) -> None:
    cache_file.parent.write_text("a file where the folder belongs")
    assert known_sha256(file) == known_sha256(file) == sha256(file)
    assert len(hashed) == 2


def test_of_many_files_the_newest_are_remembered(
    tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_hashes, "_KEPT", 3)
    files = [tmp_path / f"{number}.bin" for number in range(5)]
    for number, one in enumerate(files):
        one.write_bytes(bytes([number]))
    aged(files[-1], monkeypatch)
    for one in files:
        known_sha256(one)
    hashed.clear()
    for one in reversed(files):
        known_sha256(one)
    assert hashed == ["1.bin", "0.bin"]
