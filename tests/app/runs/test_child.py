"""The process of a run."""

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

import pytest

from nearsay.app import life_lock
from nearsay.app.cli import child
from nearsay.app.runs import Run, Runs, RunState, process
from nearsay.indexer import Library

Pipe = Any  # of conftest
NewPipe = Callable[[], Pipe]


def start(runs: Runs, *words: str) -> Run:
    return runs.start("other", ["scripted", *words])


def test_a_run_gives_its_command_and_says_how_it_ended(
    runs: Runs, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEARSAY_DATABASE", "postgresql://nobody@nowhere/nothing")  # not this library's
    before = runs.start("other", ["scripted", "say", "grüß", "dich", "--device", "cpu"])
    run = runs.wait(before.number)
    assert (run.state, run.exit_code, run.message) == (RunState.DONE, 0, None)
    assert run.output() == [{"said": "grüß"}, {"said": "dich"}]
    assert run.log() == [f"device cpu, cwd {tmp_path.name}"]
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.created_at <= run.started_at <= run.ended_at
    look = run.progress()
    assert look is not None
    assert (look.doing, look.done, look.total, look.unit, look.share) == ("saying", 3, 4, "words", 0.75)
    assert not run.folder.alive
    for thread in threading.enumerate():
        if thread.name == f"run {run.number}":
            thread.join(30)
    assert run.pid is not None
    with pytest.raises(ChildProcessError):  # nothing of it is left for us to wait for
        os.waitpid(run.pid, os.WNOHANG)


@pytest.mark.parametrize(
    ("command", "code", "message", "said"),
    [
        ("fail", 1, "there is no bread. Bake some", "Error: there is no bread. Bake some\n"),
        ("break", 1, "KeyError: 'crumb'. This is a defect: see the run's log", "\nKeyError: 'crumb'\n"),
        ("ask", 1, "it asked a question, which nobody could answer. Say --yes where a command has it", ""),
        ("frob", 2, "No such command 'frob'.", "No such command 'frob'.\n"),
        ("stop", 130, None, "the same command does what is missing.\n"),
    ],
)
def test_a_command_that_fails_says_why(
    command: str,
    code: int,
    message: str | None,
    said: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ending = child._command(["scripted", command])
    assert (ending.exit_code, ending.message) == (code, message)
    assert capfd.readouterr().err.endswith(said)


@pytest.mark.long
def test_one_works_at_a_time_and_those_that_wait_can_be_cancelled(runs: Runs, new_pipe: NewPipe) -> None:
    pipe, other = new_pipe(), new_pipe()
    first = start(runs, "hold", pipe.name)
    assert pipe.hear() == "at it"
    assert runs.get(first.number).state is RunState.RUNNING
    second, third = start(runs, "hold", other.name), start(runs, "say")
    runs.cancel(second.number)
    second = runs.wait(second.number)
    assert (second.state, second.started_at, second.exit_code) == (RunState.CANCELLED, None, 130)
    assert runs.get(third.number).state is RunState.WAITING
    runs.cancel(first.number)
    first, third = runs.wait(first.number), runs.wait(third.number)
    assert (first.state, first.message) == (RunState.CANCELLED, None)
    assert first.log(last=1) == ["Stopped. What was written is kept: the same command does what is missing."]
    assert third.state is RunState.DONE
    assert first.ended_at is not None
    assert third.started_at is not None
    assert first.ended_at <= third.started_at


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux shows an environment")
def test_the_process_of_a_run_inherits_no_secret_of_the_page(
    runs: Runs, new_pipe: NewPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARSAY_UI_PASSWORD", "a quiet harbour")
    monkeypatch.setenv("NEARSAY_UI", "what the page was told")
    pipe = new_pipe()
    run = start(runs, "hold", pipe.name)
    assert pipe.hear() == "at it"
    shown = Path(f"/proc/{runs.get(run.number).pid}/environ").read_bytes()
    assert b"PATH=" in shown
    assert b"NEARSAY_UI" not in shown
    runs.cancel(run.number)
    runs.wait(run.number)


@pytest.mark.long
def test_asked_once_it_ends_its_step_and_asked_again_it_ends_at_once(runs: Runs, new_pipe: NewPipe) -> None:
    pipe = new_pipe()
    run = start(runs, "step", pipe.name)
    assert pipe.hear() == "at it"
    assert runs.cancel(run.number).stopping
    assert pipe.hear() == "asked"
    assert runs.get(run.number).state is RunState.RUNNING
    runs.cancel(run.number)
    assert runs.wait(run.number).state is RunState.CANCELLED


@pytest.mark.long
def test_one_that_was_killed_was_interrupted_and_goes_on_when_it_is_resumed(
    runs: Runs, new_pipe: NewPipe
) -> None:
    pipe = new_pipe()
    run = start(runs, "hold", pipe.name)
    assert pipe.hear() == "at it"
    assert run.pid is not None
    os.kill(run.pid, signal.SIGKILL)
    run = runs.wait(run.number)
    assert (run.state, run.ended_at) == (RunState.INTERRUPTED, None)
    again = runs.resume(run.number)
    assert again.resumes == run.number
    assert pipe.hear() == "at it"
    os.kill(again.pid or 0, signal.SIGTERM)  # as when the machine is shut down: nobody cancelled it
    again = runs.wait(again.number)
    assert (again.state, again.exit_code) == (RunState.INTERRUPTED, 130)
    assert again.ended_at is not None


def test_one_whose_library_was_moved_while_it_waited_says_so(tmp_path: Path) -> None:
    lock = life_lock.take(tmp_path / "lock")
    assert lock is not None
    command = [*process.CHILD, str(tmp_path / "moved"), "7", "1", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=(lock,))
    os.close(lock)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the library in ")
    assert "nearsay jobs resume 7" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_run_outlives_who_started_it(library: Library, runs: Runs, new_pipe: NewPipe) -> None:
    pipe = new_pipe()
    script = (
        "import sys\n"
        "from nearsay.app.cli import main\n"
        "import importlib.util\n"
        "spec = importlib.util.spec_from_file_location('scripted_child', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "main.add_command(module.scripted)\n"
        "from nearsay.app.runs import process\n"
        "process.CHILD = (sys.executable, sys.argv[1])\n"
        "main(['jobs', 'start', '--library', sys.argv[2], '--json', 'scripted', 'hold', sys.argv[3]])\n"
    )
    commands = str(Path(__file__).parent / "scripted_child.py")
    command = [sys.executable, "-c", script, commands, str(library.store.folder), pipe.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert pipe.hear() == "at it"
    (run,) = runs.list()
    assert run.state is RunState.RUNNING
    assert run.pid is not None
    assert os.getsid(run.pid) == run.pid  # no terminal's end reaches it
    runs.cancel(run.number)
    assert runs.wait(run.number).state is RunState.CANCELLED


@pytest.mark.long
def test_a_database_with_a_password_is_told_to_no_one_but_the_process(
    postgresql_url: str, tmp_path: Path, new_pipe: NewPipe
) -> None:
    url = re.sub(r"://(\w+)@", r"://\1:open-sesame@", postgresql_url)
    assert "open-sesame" in url
    pipe = new_pipe()
    with Library.open(tmp_path / "shared", database=url) as library:
        runs = Runs(library)
        run = start(runs, "hold", pipe.name, "--nap", "0.5")
        assert pipe.hear() == "at it"
        assert "open-sesame" not in Path(f"/proc/{run.pid}/cmdline").read_text()
        listed = runs.wait(runs.start("other", ["collections", "list"]).number)
        assert [runs.get(run.number).state, listed.state] == [RunState.DONE] * 2
        with library.store.database.reading() as connection:
            assert "open-sesame" not in str(connection.exec_driver_sql("SELECT * FROM runs").all())
    written = [place for place in (tmp_path / "shared").rglob("*") if place.is_file()]
    assert len(written) > 6
    assert [place for place in written if b"open-sesame" in place.read_bytes()] == []
