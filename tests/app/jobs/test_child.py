"""The process of a job."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import scripted_child
from naming import Naming

from nearsay.app import life_lock
from nearsay.app.cli import child
from nearsay.app.jobs import Job, JobKind, Jobs, JobState
from nearsay.app.jobs import jobs as starting
from nearsay.indexer import Library

Pipe = Any  # of conftest
NewPipe = Callable[[], Pipe]


def start(jobs: Jobs, *words: str) -> Job:
    return jobs.start(JobKind.OTHER, ["scripted", *words])


def test_a_job_gives_its_command_and_says_how_it_ended(
    jobs: Jobs, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEARSAY_DATABASE", "postgresql://nobody@nowhere/nothing")  # not this library's
    before = jobs.start(JobKind.OTHER, ["scripted", "say", "grüß", "dich", "--device", "cpu"])
    job = jobs.wait(before.number)
    assert (job.state, job.exit_code, job.message) == (JobState.DONE, 0, None)
    assert job.output() == [{"said": "grüß"}, {"said": "dich"}]
    assert job.log() == [f"device cpu, cwd {tmp_path.name}"]
    assert job.started_at is not None
    assert job.ended_at is not None
    assert job.created_at <= job.started_at <= job.ended_at
    look = job.progress()
    assert look is not None
    assert (look.doing, look.done, look.total, look.unit, look.share) == ("saying", 3, 4, "words", 0.75)
    assert not job.folder.alive
    for thread in threading.enumerate():
        if thread.name == f"job {job.number}":
            thread.join(60)
    assert job.pid is not None
    with pytest.raises(ChildProcessError):  # nothing of it is left for us to wait for
        os.waitpid(job.pid, os.WNOHANG)


@pytest.mark.parametrize(
    ("command", "code", "message", "said"),
    [
        ("fail", 1, "there is no bread. Bake some", "Error: there is no bread. Bake some\n"),
        ("break", 1, "KeyError: 'crumb'. This is a defect: see the job's log", "\nKeyError: 'crumb'\n"),
        ("ask", 1, "it asked for confirmation, which a job cannot give. Use --yes if the command has it", ""),
        ("frob", 2, "No such command 'frob'.", "No such command 'frob'.\n"),
        ("stop", 130, None, "run the same command again to finish.\n"),
    ],
)
def test_a_command_that_fails_says_why(
    command: str,
    code: int,
    message: str | None,
    said: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert child._command(["scripted", command], tmp_path) == (code, message)
    assert capfd.readouterr().err.endswith(said)


def test_a_command_that_the_process_does_not_have_is_a_failed_job(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scripted_child.scripted.commands, "gone", click.Command("gone"))  # not in the process
    job = jobs.wait(start(jobs, "gone").number)
    assert (job.state, job.exit_code, job.message) == (JobState.FAILED, 2, Naming("gone"))


@pytest.mark.long
def test_one_works_at_a_time_and_those_that_wait_can_be_cancelled(jobs: Jobs, new_pipe: NewPipe) -> None:
    pipe, other = new_pipe(), new_pipe()
    first = start(jobs, "hold", pipe.name)
    assert pipe.hear() == "at it"
    assert jobs.get(first.number).state is JobState.RUNNING
    second, third = start(jobs, "hold", other.name), start(jobs, "say")
    jobs.cancel(second.number)
    second = jobs.wait(second.number)
    assert (second.state, second.started_at, second.exit_code) == (JobState.CANCELLED, None, 130)
    assert jobs.get(third.number).state is JobState.WAITING
    jobs.cancel(first.number)
    first, third = jobs.wait(first.number), jobs.wait(third.number)
    assert (first.state, first.message) == (JobState.CANCELLED, None)
    assert first.log(last=1) == [Naming("Stopped", "kept", "same command")]
    assert third.state is JobState.DONE
    assert first.ended_at is not None
    assert third.started_at is not None
    assert first.ended_at <= third.started_at


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux shows an environment")
def test_the_process_of_a_job_inherits_no_secret_of_the_page(
    jobs: Jobs, new_pipe: NewPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARSAY_UI_PASSWORD", "a quiet harbour")
    monkeypatch.setenv("NEARSAY_UI", "what the page was told")
    pipe = new_pipe()
    job = start(jobs, "hold", pipe.name)
    assert pipe.hear() == "at it"
    shown = Path(f"/proc/{jobs.get(job.number).pid}/environ").read_bytes()
    assert b"PATH=" in shown
    assert b"NEARSAY_UI" not in shown
    jobs.cancel(job.number)
    jobs.wait(job.number)


@pytest.mark.long
def test_asked_once_it_ends_its_step_and_asked_again_it_ends_at_once(jobs: Jobs, new_pipe: NewPipe) -> None:
    pipe = new_pipe()
    job = start(jobs, "step", pipe.name)
    assert pipe.hear() == "at it"
    assert jobs.cancel(job.number).stopping
    assert pipe.hear() == "asked"
    assert jobs.get(job.number).state is JobState.RUNNING
    jobs.cancel(job.number)
    assert jobs.wait(job.number).state is JobState.CANCELLED


@pytest.mark.long
def test_one_that_was_killed_was_interrupted_and_goes_on_when_it_is_resumed(
    jobs: Jobs, new_pipe: NewPipe
) -> None:
    pipe = new_pipe()
    job = start(jobs, "hold", pipe.name)
    assert pipe.hear() == "at it"
    assert job.pid is not None
    os.kill(job.pid, signal.SIGKILL)
    job = jobs.wait(job.number)
    assert (job.state, job.ended_at) == (JobState.INTERRUPTED, None)
    again = jobs.resume(job.number)
    assert again.resumes == job.number
    assert pipe.hear() == "at it"
    os.kill(again.pid or 0, signal.SIGTERM)  # as when the machine is shut down: nobody cancelled it
    again = jobs.wait(again.number)
    assert (again.state, again.exit_code) == (JobState.INTERRUPTED, 130)
    assert again.ended_at is not None


_STOPPED_WHILE_IT_IMPORTS = """
import importlib.abc, os, signal, sys

class Stops(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "sqlalchemy.sql.naming":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Stops())
from nearsay.app.cli.child import main
sys.exit(main(sys.argv[1:]))
"""


def test_one_that_is_stopped_while_it_begins_says_how_it_ended(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "CHILD", (sys.executable, "-c", _STOPPED_WHILE_IT_IMPORTS))
    job = jobs.wait(jobs.start(JobKind.OTHER, ["collections", "list"]).number)
    assert (job.exit_code, job.log()) == (130, [])
    assert job.ended_at is not None


def test_one_whose_library_was_moved_while_it_waited_says_so(tmp_path: Path) -> None:
    lock = life_lock.take(tmp_path / "lock")
    assert lock is not None
    command = [*starting.CHILD, str(tmp_path / "moved"), "7", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=(lock,))
    os.close(lock)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the library in ")
    assert "nearsay jobs resume 7" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_job_outlives_who_started_it(library: Library, jobs: Jobs, new_pipe: NewPipe) -> None:
    pipe = new_pipe()
    script = (
        "import sys\n"
        "from nearsay.app.cli import main\n"
        "import importlib.util\n"
        "spec = importlib.util.spec_from_file_location('scripted_child', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "main.add_command(module.scripted)\n"
        "from nearsay.app.jobs import jobs\n"
        "jobs.CHILD = (sys.executable, sys.argv[1])\n"
        "main(['jobs', 'start', '--library', sys.argv[2], '--json', 'scripted', 'hold', sys.argv[3]])\n"
    )
    commands = str(Path(__file__).parent / "scripted_child.py")
    command = [sys.executable, "-c", script, commands, str(library.store.folder), pipe.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert pipe.hear() == "at it"
    (job,) = jobs.list()
    assert job.state is JobState.RUNNING
    assert job.pid is not None
    assert os.getsid(job.pid) == job.pid  # no terminal's end reaches it
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, job.pid) == min(ours + 10, 19)
    group = Path(f"/proc/{job.pid}/autogroup")  # where Linux shares processors among sessions
    assert not group.exists() or group.read_text().split()[1:] in ([], ["nice", "10"])
    jobs.cancel(job.number)
    assert jobs.wait(job.number).state is JobState.CANCELLED


@pytest.mark.long
def test_a_database_with_a_password_is_told_to_no_one_but_the_process(
    postgresql_url: str, tmp_path: Path, new_pipe: NewPipe
) -> None:
    url = re.sub(r"://(\w+)@", r"://\1:open-sesame@", postgresql_url)
    assert "open-sesame" in url
    pipe = new_pipe()
    with Library.open(tmp_path / "shared", database=url) as library:
        jobs = Jobs(library)
        job = start(jobs, "hold", pipe.name, "--nap", "0.5")
        assert pipe.hear() == "at it"
        assert "open-sesame" not in Path(f"/proc/{job.pid}/cmdline").read_text()
        listed = jobs.wait(jobs.start(JobKind.OTHER, ["collections", "list"]).number)
        assert [jobs.get(job.number).state, listed.state] == [JobState.DONE] * 2
        with library.store.database.reading() as connection:
            assert "open-sesame" not in str(connection.exec_driver_sql("SELECT * FROM runs").all())
    written = [place for place in (tmp_path / "shared").rglob("*") if place.is_file()]
    assert len(written) > 6
    assert [place for place in written if b"open-sesame" in place.read_bytes()] == []
