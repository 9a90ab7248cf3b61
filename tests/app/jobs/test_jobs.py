"""The jobs of a library, without their processes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.jobs import Job, JobKind, JobProgress, Jobs, JobState
from nearsay.app.jobs import jobs as module
from nearsay.app.jobs import jobs as starting
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Library
from nearsay.indexer.catalogue import jobs as rows

Spawned = Any  # of conftest


@pytest.fixture
def start(jobs: Jobs, spawned: Spawned) -> Callable[..., Job]:
    """Starts a job that has no process."""

    def start_it(*words: str, **more: Any) -> Job:
        return jobs.start(JobKind.OTHER, ["scripted", "say", *words], **more)

    return start_it


def test_a_started_job_is_recorded_and_waits(
    start: Callable[..., Job],
    jobs: Jobs,
    spawned: Spawned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    job = start("hello", "--out", "there", title="Say hello")
    assert (job.number, job.kind, job.title, job.state) == (1, JobKind.OTHER, "Say hello", JobState.WAITING)
    assert (job.arguments, job.product) == (
        ("scripted", "say", "hello", "--out", "there"),
        str(tmp_path / "there"),
    )
    assert (job.pid, job.working_folder) == (4711, str(tmp_path))
    assert job.host
    assert job == jobs.get(1)
    assert spawned.given == [{"working_folder": tmp_path, "database": None}]


def test_a_title_is_made_where_none_is_said(start: Callable[..., Job]) -> None:
    assert start("good day").title == "nearsay scripted say 'good day'"


def test_a_job_goes_from_waiting_over_running_to_its_end(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned
) -> None:
    start()
    spawned.begin(1)
    job = jobs.get(1)
    assert (job.state, job.started_at) == (JobState.RUNNING, "2026-01-01T10:00:00+00:00")
    spawned.end(1, "failed", "no bread")
    job = jobs.get(1)
    assert (job.state, job.exit_code, job.message) == (JobState.FAILED, 1, "no bread")
    assert job.ended_at == "2026-01-01T10:03:00+00:00"
    spawned.die(1)
    assert jobs.get(1) == job


@pytest.mark.parametrize("begun", [False, True])
def test_one_whose_process_is_gone_was_interrupted_whatever_its_row_says(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned, begun: bool
) -> None:
    start()
    if begun:
        spawned.begin(1)
    spawned.die(1)
    assert jobs.get(1).state is JobState.INTERRUPTED
    assert [job.state for job in jobs.list()] == [JobState.INTERRUPTED]


def test_one_whose_process_nobody_may_look_for_is_what_its_row_says(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned
) -> None:
    start("one")
    start("two")
    spawned.begin(1)
    lock = jobs.get(1).folder.lock_file
    lock.unlink()
    lock.symlink_to(lock)  # no right to read it would not stop root
    assert [job.state for job in jobs.list()] == [JobState.WAITING, JobState.RUNNING]
    assert not jobs.get(1).stopping


def test_one_that_ends_between_two_looks_is_not_taken_for_interrupted(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    alive = module.JobFolder.alive
    assert isinstance(alive, property)

    def ending(folder: Any) -> bool:
        spawned.end(1)
        spawned.die(1)
        monkeypatch.setattr(module.JobFolder, "alive", alive)
        return bool(folder.alive)

    monkeypatch.setattr(module.JobFolder, "alive", property(ending))
    assert jobs.get(1).state is JobState.DONE


def test_jobs_are_listed_the_newest_first_by_state_collection_and_number(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned
) -> None:
    for name in ("cats", "dogs", "cats", "cats", "dogs"):
        start(collection=name)
    spawned.end(1)
    spawned.begin(2)
    spawned.begin(3)
    spawned.die(3)
    spawned.end(4, "interrupted")

    def numbers(*arguments: Any, **more: Any) -> list[int]:
        return [job.number for job in jobs.list(*arguments, **more)]

    assert numbers() == [5, 4, 3, 2, 1]
    assert numbers(limit=2) == [5, 4]
    assert numbers(collection="cats") == [4, 3, 1]
    assert numbers(JobState.RUNNING) == [2]
    assert numbers(JobState.WAITING) == [5]
    assert numbers(JobState.INTERRUPTED) == [4, 3]
    assert numbers(JobState.INTERRUPTED, limit=1) == [4]
    assert numbers(JobState.DONE, "cats") == [1]
    assert numbers(JobState.DONE, "dogs") == []


def test_a_job_is_asked_to_stop_and_says_so_until_it_has(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned
) -> None:
    assert not start().stopping
    assert jobs.cancel(1).stopping
    assert jobs.get(1).folder.times_asked_to_stop == 1
    jobs.cancel(1)
    assert jobs.get(1).folder.times_asked_to_stop == 2
    spawned.end(1, "cancelled")
    assert not jobs.get(1).stopping
    with pytest.raises(BadInputError, match=r"job 1 .*cancelled.*nearsay jobs resume 1"):
        jobs.cancel(1)


def test_what_has_ended_can_be_started_again_as_a_job_that_names_it(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start("hello", "--out", "there", title="Say hello", collection="cats")
    with pytest.raises(BadInputError, match="job 1 is still waiting"):
        jobs.resume(1)
    spawned.die(1)
    monkeypatch.chdir(tmp_path)
    again = jobs.resume(1)
    assert (again.number, again.resumes, again.state) == (2, 1, JobState.WAITING)
    for name in ("kind", "title", "arguments", "working_folder", "collection", "product"):
        assert getattr(again, name) == getattr(first, name)
    assert spawned.given[1]["working_folder"] == Path(first.working_folder)


def test_what_is_done_or_was_resumed_already_is_not_resumed(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned
) -> None:
    start("hello")
    spawned.end(1, "done")
    for refused in (jobs.resume, jobs.cancel):
        with pytest.raises(BadInputError, match=r"job 1 .*done.*: nearsay .*hello$"):
            refused(1)
    start("hello")
    spawned.end(2, "failed")
    jobs.resume(2)
    with pytest.raises(BadInputError, match=r"job 2 .*job 3, .*waiting"):
        jobs.resume(2)
    spawned.end(3, "cancelled")
    assert jobs.resume(3).resumes == 3
    spawned.end(4, "done")
    for number in (2, 3):
        with pytest.raises(BadInputError, match=f"job {number} .*job 4, .*done"):
            jobs.resume(number)


def test_of_two_who_resume_a_job_at_once_one_is_refused(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    start("hello")
    spawned.end(1, "failed")
    look, first = Jobs.successor, []

    def and_meanwhile_another_does(self: Jobs, number: int) -> Job | None:
        found = look(self, number)
        if not first:
            first.append(number)
            jobs.resume(number)
        return found

    monkeypatch.setattr(Jobs, "successor", and_meanwhile_another_does)
    with pytest.raises(BadInputError, match=r"job 1 .*job 2"):
        jobs.resume(1)
    assert [job.number for job in jobs.list()] == [2, 1]


def test_removing_forgets_a_job_that_has_ended_and_its_folder(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned
) -> None:
    job = start()
    with pytest.raises(BadInputError, match=r"job 1 .*waiting.*: nearsay jobs cancel 1"):
        jobs.remove(1)
    assert job.folder.path.is_dir()
    spawned.die(1)
    jobs.remove(1)
    assert not job.folder.path.exists()
    assert jobs.list() == []
    for number in (1, 0, -1, 2**63, 10**30):
        with pytest.raises(BadInputError, match=f"no job {number} "):
            jobs.get(number)
    assert start().number == 2  # a number is never given twice


def test_what_a_job_said_is_read_from_its_folder(start: Callable[..., Job], jobs: Jobs) -> None:
    job = start()
    assert (job.progress(), job.log(), job.output()) == (None, [], [])
    look = JobProgress("saying", "words", 3, 4, 0.75, 6.0, 0.5, 0.2)
    job.folder.write_progress(look)
    job.folder.log_file.write_text("one\ntwo\n")
    job.folder.output_file.write_text('{"a": 1}\n{"a": 2}\n')
    assert (job.progress(), job.log(last=1)) == (look, ["two"])
    assert (job.output(), job.output(first=1)) == ([{"a": 1}, {"a": 2}], [{"a": 1}])
    assert job.command == f"nearsay scripted say --library {job.library}"


def test_a_command_that_is_refused_is_no_job(start: Callable[..., Job], jobs: Jobs) -> None:
    with pytest.raises(BadInputError, match=r"No such option.*--loud"):
        start("--loud")
    with pytest.raises(BadInputError, match="NUL character"):
        start(title="\0")
    assert jobs.list() == []


def test_a_folder_whose_name_is_not_unicode_is_refused(
    jobs: Jobs, spawned: Spawned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this disk takes Unicode names alone")
    monkeypatch.chdir(folder)
    with pytest.raises(BadInputError, match="is not valid Unicode"):
        jobs.start(JobKind.OTHER, ["scripted", "say"])
    assert jobs.list() == []


def test_a_catalogue_elsewhere_is_told_to_the_process_wherever_that_works(
    tmp_path: Path, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Library.open(tmp_path / "other", database="sqlite:///kept.sqlite") as library:
        Jobs(library).start(JobKind.OTHER, ["scripted", "say"])
    assert spawned.given[0]["database"] == f"sqlite:///{tmp_path / 'kept.sqlite'}"


def test_what_cannot_be_removed_is_said_with_its_remedy(
    start: Callable[..., Job], jobs: Jobs, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    spawned.die(1)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", refuse)
        with pytest.raises(NearsayError, match=r"cannot be written \(Permission denied\)"):
            jobs.remove(1)
    jobs.remove(1)
    assert jobs.list() == []


def test_a_process_that_cannot_be_started_is_a_failed_job(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "CHILD", ("/no/such/python",))
    with pytest.raises(NearsayError, match=r"no process .*memory"):
        jobs.start(JobKind.OTHER, ["scripted", "say"])
    job = jobs.get(1)
    assert (job.state, job.pid) == (JobState.FAILED, None)
    assert job.message is not None
    assert job.message.startswith("no process could be started")
    assert not job.folder.alive


def test_no_descriptor_of_a_lock_stays_open_here(jobs: Jobs, spawned: Spawned) -> None:
    jobs.start(JobKind.OTHER, ["scripted", "say"])
    spawned.die(1)
    before = os.open("/dev/null", os.O_RDONLY)
    os.close(before)
    for _ in range(3):
        number = jobs.start(JobKind.OTHER, ["scripted", "say"]).number
        spawned.die(number)
        assert not jobs.get(number).folder.alive
    after = os.open("/dev/null", os.O_RDONLY)
    os.close(after)
    assert after == before


def test_the_device_of_the_library_is_the_jobs(
    tmp_path: Path, spawned: Spawned, open_library: Callable[[], Library]
) -> None:
    with Library.open(open_library().store.folder, device="cuda:1") as library:
        job = Jobs(library, precision="float32").start(JobKind.OTHER, ["scripted", "say", "a"])
    assert job.arguments == ("scripted", "say", "--device", "cuda:1", "--precision", "float32", "a")


def test_a_kind_that_a_later_version_forgot_is_shown_as_other(
    start: Callable[..., Job], jobs: Jobs, library: Library
) -> None:
    with library.store.database.writing() as connection:
        rows.create(connection, rows.NewJob("juggle", "Juggle", [], "/", None, None, None, "2026-01-01"))
    assert [job.kind for job in jobs.list()] == [JobKind.OTHER]
