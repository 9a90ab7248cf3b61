"""Uploaded files on the way to being indexed."""

import io
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from nearsay.app.jobs import JobState
from nearsay.app.ui.uploads import Uploads, safe_name

_DAY = 24 * 3600


@dataclass(frozen=True)
class _Job:
    arguments: tuple[str, ...]
    state: JobState


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("rain.txt", "rain.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\rain.csv", "rain.csv"),
        ("..", "file"),
        ("", "file"),
        (".hidden.md", "hidden.md"),
        ("--strict.jsonl", "strict.jsonl"),
        ("a\nb\0c.txt", "a_b_c.txt"),
        ("what?*.pdf", "what__.pdf"),
        ("rows.jsonl.gz", "rows.jsonl.gz"),
        ("Grüße 2024.txt", "Grüße 2024.txt"),
    ],
)
def test_a_name_holds_nothing_that_leads_anywhere(given: str, safe: str) -> None:
    assert safe_name(given) == safe


def test_a_long_name_keeps_its_suffix() -> None:
    name = safe_name("ä" * 300 + ".jsonl.gz")
    assert name.endswith("ä.jsonl.gz")
    assert len(name.encode()) <= 120


def _kept(uploads: Uploads, *names: str) -> Path:
    return uploads.keep([(name, io.BytesIO(name.encode())) for name in names])


def test_files_are_written_whole_each_in_its_name(tmp_path: Path) -> None:
    place = _kept(Uploads(tmp_path), "a.txt", "../b.txt")
    assert place.parent == tmp_path / "uploads"
    assert {path.name: path.read_text() for path in place.iterdir()} == {
        "a.txt": "a.txt",
        "b.txt": "../b.txt",
    }


def test_two_files_of_one_name_are_both_kept(tmp_path: Path) -> None:
    place = _kept(Uploads(tmp_path), "x/a.txt", "y/a.txt", "A.TXT")
    assert sorted(path.name for path in place.iterdir()) == ["A-3.TXT", "a-2.txt", "a.txt"]


def test_each_upload_has_a_folder_of_its_own(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    assert _kept(uploads, "a.txt") != _kept(uploads, "a.txt")


@pytest.mark.parametrize(
    ("state", "days", "gone"),
    [
        (JobState.DONE, 0, True),
        (JobState.RUNNING, 100, False),
        (JobState.WAITING, 100, False),
        (JobState.FAILED, 1, False),
        (JobState.CANCELLED, 1, False),
        (JobState.FAILED, 15, True),
        (None, 0, False),
        (None, 2, True),
    ],
)
def test_files_go_when_nobody_needs_them(
    tmp_path: Path, state: JobState | None, days: int, gone: bool
) -> None:
    uploads = Uploads(tmp_path)
    place = _kept(uploads, "a.txt")
    jobs = [] if state is None else [_Job(("documents", "add", "--relative-to", str(place), "notes"), state)]
    moment = place.stat().st_mtime + days * _DAY
    assert uploads.clear(jobs, now=moment) == int(gone)
    assert place.exists() is not gone


def test_files_of_a_job_that_failed_go_when_it_was_resumed(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    place = _kept(uploads, "a.txt")
    arguments = ("documents", "add", "notes", str(place / "a.txt"), "--relative-to", str(place))
    both = [_Job(arguments, JobState.FAILED), _Job(arguments, JobState.RUNNING)]
    assert uploads.clear(both) == 0
    assert uploads.clear([_Job(arguments, JobState.FAILED), _Job(arguments, JobState.DONE)]) == 1


def test_what_is_no_upload_is_never_removed(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    (tmp_path / "uploads" / "mine").mkdir(parents=True)
    os.utime(tmp_path / "uploads" / "mine", (0, 0))
    uploads.remove(tmp_path / "uploads" / "mine")
    uploads.remove(tmp_path)
    assert uploads.clear([]) == 0
    assert (tmp_path / "uploads" / "mine").is_dir()
