"""The folder of one job."""

import os
from pathlib import Path

import pytest

from nearsay.app.jobs import job_folder
from nearsay.app.jobs.job_folder import JobFolder, JobProgress
from nearsay.app.jobs.jobs import spawn
from nearsay.data.errors import DiskFullError, NearsayError

LOOK = JobProgress(
    "training", "steps", 3, 10, 0.3, 1.5, 2.0, 4.7, {"loss": 0.25}, {"pearson": 0.5}, 99.0, 7.0
)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, 7)


def test_a_folder_that_is_not_there_says_nothing(folder: JobFolder) -> None:
    assert (folder.alive, folder.waiting, folder.times_asked_to_stop) == (False, False, 0)
    assert (folder.progress(), folder.log(), list(folder.output())) == (None, [], [])
    folder.remove()


def test_a_new_one_waits_and_lives_until_its_lock_goes(folder: JobFolder) -> None:
    lock = folder.make()
    assert (folder.alive, folder.waiting) == (True, True)
    folder.turn_has_come()
    assert (folder.alive, folder.waiting) == (True, False)
    with pytest.raises(NearsayError, match="not in the catalogue"):
        JobFolder(folder.library, 7).make()
    os.close(lock)
    assert not folder.alive


def test_what_a_dead_job_of_the_same_number_left_is_cleared_away(folder: JobFolder) -> None:
    os.close(folder.make())
    folder.log_file.write_text("old")
    os.close(folder.make())
    assert folder.log() == []


def test_asking_twice_is_asking_to_stop_at_once(folder: JobFolder) -> None:
    os.close(folder.make())
    for times in (1, 2, 2):
        folder.ask_to_stop()
        assert folder.times_asked_to_stop == times


def test_notes_are_kept_one_a_line(folder: JobFolder) -> None:
    assert folder.notes() == ()
    folder.add_note("of a folder that is not there nothing is kept")
    os.close(folder.make())
    for note in ("no pair: 3 passages looked at", "two\nlines\x85of one", "half \ud800a character"):
        folder.add_note(note)
    assert folder.notes() == ("no pair: 3 passages looked at", "two lines of one", "half  a character")


def test_progress_is_read_as_it_was_written(folder: JobFolder) -> None:
    os.close(folder.make())
    folder.write_progress(LOOK)
    assert folder.progress() == LOOK
    assert sorted(place.name for place in folder.path.iterdir()) == ["lock", "progress.json", "waiting"]
    (folder.path / "progress.json").write_text('{"of": "another version"}')
    assert folder.progress() is None


def test_the_end_of_a_log_is_its_last_whole_lines(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    os.close(folder.make())
    folder.log_file.write_bytes(b"one\ntwo\nthree \xff\n")
    assert folder.log() == ["one", "two", "three \ufffd"]
    assert folder.log(2) == ["two", "three \ufffd"]
    assert folder.log(0) == []
    monkeypatch.setattr(job_folder, "_TAIL_BYTES", 10)  # begins inside of "two"
    assert folder.log(2) == ["three \ufffd"]


def test_output_is_json_where_it_is_and_text_elsewhere(folder: JobFolder) -> None:
    os.close(folder.make())
    folder.output_file.write_text('{"a": 1}\nplain text\n[2]\n{"cut sh')
    assert list(folder.output()) == [{"a": 1}, "plain text", [2], '{"cut sh']


@pytest.mark.parametrize(
    ("number", "error", "remedy"),
    [(28, DiskFullError, "Free some space"), (30, NearsayError, "its permissions")],
)
def test_a_folder_that_cannot_be_made_is_told_with_its_remedy(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch, number: int, error: type[NearsayError], remedy: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(error, match=remedy):
        folder.make()


def test_a_full_disk_under_the_files_of_a_process_is_told_with_its_remedy(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = folder.make()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DiskFullError, match="Free some space"):
        spawn(folder, lock, working_folder=folder.path, database=None)
    os.close(lock)
