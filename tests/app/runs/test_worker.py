"""The process that stays for the next run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.cli.options import Place, encoders_kept, open_library
from nearsay.app.runs import Run, Runs, RunState
from nearsay.app.runs.worker import Worker
from nearsay.indexer import Library

Pipe = Any  # of conftest
NewPipe = Callable[[], Pipe]


class TestProcess:
    """Runs whose commands are those of a test, in real processes."""

    @pytest.fixture
    def worker(self) -> Iterator[Worker]:
        found = Worker()
        yield found
        found.end()

    @pytest.fixture
    def runs(self, library: Library, worker: Worker) -> Runs:
        return Runs(library, worker=worker)

    @staticmethod
    def start(runs: Runs, *words: str, kind: str = "add") -> Run:
        return runs.start(kind, ["scripted", *words])

    def test_runs_one_after_another_are_in_one_process_each_with_its_own_files_and_folder(
        self, runs: Runs, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = []
        for place in ("here", "there"):
            (tmp_path / place).mkdir()
            monkeypatch.chdir(tmp_path / place)
            found.append(runs.wait(self.start(runs, "say", place, "--device", "cpu").number))
            assert not found[-1].folder.alive
        assert [run.state for run in found] == [RunState.DONE] * 2
        assert [run.output() for run in found] == [[{"said": "here"}], [{"said": "there"}]]
        assert [run.log() for run in found] == [["device cpu, cwd here"], ["device cpu, cwd there"]]
        look = found[-1].progress()
        assert look is not None
        assert (look.doing, look.done, look.total) == ("saying", 3, 4)
        assert {run.pid for run in found} == {worker.pid}

    def test_one_that_fails_says_why_and_the_next_is_in_the_same_process(
        self, runs: Runs, worker: Worker
    ) -> None:
        failed = runs.wait(self.start(runs, "fail").number)
        assert (failed.state, failed.message) == (RunState.FAILED, "there is no bread. Bake some")
        following = runs.wait(self.start(runs, "say").number)
        assert (following.state, following.pid) == (RunState.DONE, worker.pid)
        assert following.pid == failed.pid

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the memory that it had counts")
    def test_the_memory_of_the_process_that_started_it_is_not_its_own(self) -> None:
        asks = (
            "from nearsay.app.cli import child; child._MOST_BYTES = 200_000_000; print(child._has_grown());"
            "more = bytearray(b'a') * 300_000_000; print(child._has_grown())"
        )
        large = (
            "import subprocess, sys; held = bytearray(b'a') * 300_000_000;"
            f"subprocess.run([sys.executable, '-c', {asks!r}], check=True)"
        )
        done = subprocess.run([sys.executable, "-c", large], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["False", "True"]

    def test_a_training_and_what_is_started_while_it_is_at_work_have_processes_of_their_own(
        self, runs: Runs, worker: Worker, new_pipe: NewPipe
    ) -> None:
        pipe = new_pipe()
        first = self.start(runs, "hold", pipe.name)
        assert pipe.hear() == "at it"
        others = [self.start(runs, "say"), self.start(runs, "say", kind="train")]
        assert {run.state for run in others} == {RunState.WAITING}
        runs.cancel(first.number)
        assert runs.wait(first.number).state is RunState.CANCELLED
        assert [runs.wait(run.number).state for run in others] == [RunState.DONE] * 2
        assert len({first.pid, *(run.pid for run in others)}) == 3

    def test_after_one_was_cancelled_or_its_process_killed_the_next_one_gets_another(
        self, runs: Runs, new_pipe: NewPipe
    ) -> None:
        cancelled, killed = new_pipe(), new_pipe()
        first = self.start(runs, "hold", cancelled.name)
        assert cancelled.hear() == "at it"
        runs.cancel(first.number)
        assert runs.wait(first.number).state is RunState.CANCELLED
        second = self.start(runs, "hold", killed.name)
        assert killed.hear() == "at it"
        second = runs.get(second.number)
        os.kill(second.pid or 0, signal.SIGKILL)
        second = runs.wait(second.number)
        assert (second.state, second.ended_at) == (RunState.INTERRUPTED, None)
        third = runs.wait(self.start(runs, "say", "again").number)
        assert (third.state, third.output()) == (RunState.DONE, [{"said": "again"}])
        assert first.pid != second.pid

    def test_one_that_nobody_needs_ends_and_a_run_that_meets_its_end_is_done_all_the_same(
        self, library: Library
    ) -> None:
        worker = Worker(idle_seconds=0.0)
        runs = Runs(library, worker=worker)
        run = runs.wait(self.start(runs, "say", "still").number)
        assert (run.state, run.output()) == (RunState.DONE, [{"said": "still"}])
        assert worker._process is not None
        assert worker._process.wait(60) in (0, -signal.SIGKILL)
        assert worker.pid is None

    def test_a_run_outlives_the_owner_and_its_process_ends_then(
        self, runs: Runs, worker: Worker, new_pipe: NewPipe
    ) -> None:
        pipe = new_pipe()
        run = self.start(runs, "hold", pipe.name, "--nap", "0.5")
        assert pipe.hear() == "at it"
        worker.end()
        assert runs.get(run.number).state is RunState.DONE
        assert worker.pid is None

    def test_a_folder_that_is_gone_is_told_as_of_any_run(
        self, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        kept = self.start(runs, "say")
        runs.wait(kept.number)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "gone").rmdir()
        with pytest.raises(Exception, match="gone"):
            runs.resume(kept.number)


class Counted:
    """Stands in for the loader of encoders."""

    def __init__(self, encoder: Any) -> None:
        self.encoder, self.loaded = encoder, 0

    def __call__(self, *_: object) -> Callable[[str], Any]:
        def load(source: str) -> Any:
            del source
            self.loaded += 1
            return self.encoder

        return load


def test_an_encoder_is_kept_for_the_next_command_while_it_is_the_same(
    tmp_path: Path, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, now = Counted(words), [words.fingerprint]
    monkeypatch.setattr("nearsay.indexer.library._loader", counted)
    monkeypatch.setattr("nearsay.indexer.library._fingerprint_on_disk", lambda _: now[0])
    place = Place(library=str(tmp_path / "library"), database=None, device=None, precision="auto")

    def command(**changes: str) -> int:
        with open_library(Place(**(place | changes)), create=True) as library:  # type: ignore[typeddict-item]
            library.encoder(words.source)
        return counted.loaded

    with encoders_kept():
        assert [command(), command()] == [1, 1]
        assert command(precision="bfloat16") == 2
        assert [command(), command()] == [3, 3]
        now[0] = "it changed"
        assert command() == 4
    assert command() == 5
