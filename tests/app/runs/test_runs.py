"""The runs of a library, without their processes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.runs import Run, RunKind, RunProgress, Runs, RunState, process
from nearsay.app.runs import runs as module
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Library
from nearsay.indexer.catalogue import runs as rows

Spawned = Any  # of conftest


@pytest.fixture
def start(runs: Runs, spawned: Spawned) -> Callable[..., Run]:
    """Starts a run that has no process."""

    def start_it(*words: str, **more: Any) -> Run:
        return runs.start(RunKind.OTHER, ["scripted", "say", *words], **more)

    return start_it


def test_a_started_run_is_recorded_and_waits(
    start: Callable[..., Run],
    runs: Runs,
    spawned: Spawned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = start("hello", "--out", "there", title="Say hello")
    assert (run.number, run.kind, run.title, run.state) == (1, RunKind.OTHER, "Say hello", RunState.WAITING)
    assert (run.arguments, run.product) == (
        ("scripted", "say", "hello", "--out", "there"),
        str(tmp_path / "there"),
    )
    assert (run.pid, run.working_folder) == (4711, str(tmp_path))
    assert run.host
    assert run == runs.get(1)
    assert spawned.given == [{"working_folder": tmp_path, "database": None, "at_once": 1}]


def test_a_title_is_made_where_none_is_said(start: Callable[..., Run]) -> None:
    assert start("good day").title == "nearsay scripted say 'good day'"


def test_a_run_goes_from_waiting_over_running_to_its_end(
    start: Callable[..., Run], runs: Runs, spawned: Spawned
) -> None:
    start()
    spawned.begin(1)
    run = runs.get(1)
    assert (run.state, run.started_at) == (RunState.RUNNING, "2026-01-01T10:00:00+00:00")
    spawned.end(1, "failed", "no bread")
    run = runs.get(1)
    assert (run.state, run.exit_code, run.message) == (RunState.FAILED, 1, "no bread")
    assert run.ended_at == "2026-01-01T10:03:00+00:00"
    spawned.die(1)
    assert runs.get(1) == run


@pytest.mark.parametrize("begun", [False, True])
def test_one_whose_process_is_gone_was_interrupted_whatever_its_row_says(
    start: Callable[..., Run], runs: Runs, spawned: Spawned, begun: bool
) -> None:
    start()
    if begun:
        spawned.begin(1)
    spawned.die(1)
    assert runs.get(1).state is RunState.INTERRUPTED
    assert [run.state for run in runs.list()] == [RunState.INTERRUPTED]


def test_one_that_ends_between_two_looks_is_not_taken_for_interrupted(
    start: Callable[..., Run], runs: Runs, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    alive = module.RunFolder.alive
    assert isinstance(alive, property)

    def ending(folder: Any) -> bool:
        spawned.end(1)
        spawned.die(1)
        monkeypatch.setattr(module.RunFolder, "alive", alive)
        return bool(folder.alive)

    monkeypatch.setattr(module.RunFolder, "alive", property(ending))
    assert runs.get(1).state is RunState.DONE


def test_runs_are_listed_the_newest_first_by_state_collection_and_number(
    start: Callable[..., Run], runs: Runs, spawned: Spawned
) -> None:
    for name in ("cats", "dogs", "cats", "cats", "dogs"):
        start(collection=name)
    spawned.end(1)
    spawned.begin(2)
    spawned.begin(3)
    spawned.die(3)
    spawned.end(4, "interrupted")

    def numbers(*arguments: Any, **more: Any) -> list[int]:
        return [run.number for run in runs.list(*arguments, **more)]

    assert numbers() == [5, 4, 3, 2, 1]
    assert numbers(limit=2) == [5, 4]
    assert numbers(collection="cats") == [4, 3, 1]
    assert numbers(RunState.RUNNING) == [2]
    assert numbers("waiting") == [5]
    assert numbers("interrupted") == [4, 3]
    assert numbers("interrupted", limit=1) == [4]
    assert numbers("done", "cats") == [1]
    assert numbers("done", "dogs") == []
    with pytest.raises(BadInputError, match=r"'tired' is no state of a run. Take one of: waiting"):
        runs.list("tired")


def test_a_run_is_asked_to_stop_and_says_so_until_it_has(
    start: Callable[..., Run], runs: Runs, spawned: Spawned
) -> None:
    assert not start().stopping
    assert runs.cancel(1).stopping
    assert runs.get(1).folder.times_asked_to_stop == 1
    runs.cancel(1)
    assert runs.get(1).folder.times_asked_to_stop == 2
    spawned.end(1, "cancelled")
    assert not runs.get(1).stopping
    with pytest.raises(BadInputError, match=r"run 1 has ended: cancelled.*nearsay jobs resume 1"):
        runs.cancel(1)


def test_what_has_ended_can_be_started_again_as_a_run_that_names_it(
    start: Callable[..., Run], runs: Runs, spawned: Spawned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start("hello", "--out", "there", title="Say hello", collection="cats")
    with pytest.raises(BadInputError, match="run 1 is still waiting"):
        runs.resume(1)
    spawned.die(1)
    monkeypatch.chdir(tmp_path)
    again = runs.resume(1)
    assert (again.number, again.resumes, again.state) == (2, 1, RunState.WAITING)
    for name in ("kind", "title", "arguments", "working_folder", "collection", "product"):
        assert getattr(again, name) == getattr(first, name)
    assert spawned.given[1]["working_folder"] == Path(first.working_folder)


def test_what_is_done_or_was_resumed_already_is_not_resumed(
    start: Callable[..., Run], runs: Runs, spawned: Spawned
) -> None:
    start("hello")
    spawned.end(1, "done")
    for refused in (runs.resume, runs.cancel):
        with pytest.raises(BadInputError, match=r"run 1 .*done.*: nearsay .*hello$"):
            refused(1)
    start("hello")
    spawned.end(2, "failed")
    runs.resume(2)
    with pytest.raises(BadInputError, match=r"run 2 was resumed as run 3, which is waiting"):
        runs.resume(2)
    spawned.end(3, "cancelled")
    assert runs.resume(3).resumes == 3
    spawned.end(4, "done")
    for number in (2, 3):
        with pytest.raises(BadInputError, match=rf"run {number} was resumed as run 4, which is done"):
            runs.resume(number)


def test_removing_forgets_a_run_that_has_ended_and_its_folder(
    start: Callable[..., Run], runs: Runs, spawned: Spawned
) -> None:
    run = start()
    with pytest.raises(BadInputError, match=r"run 1 is still waiting\. Stop it first: nearsay jobs cancel 1"):
        runs.remove(1)
    assert run.folder.path.is_dir()
    spawned.die(1)
    runs.remove(1)
    assert not run.folder.path.exists()
    assert runs.list() == []
    for number in (1, 0, -1, 2**63, 10**30):
        with pytest.raises(BadInputError, match=f"there is no run {number} in this library"):
            runs.get(number)
    assert start().number == 2  # a number is never given twice


def test_what_a_run_said_is_read_from_its_folder(start: Callable[..., Run], runs: Runs) -> None:
    run = start()
    assert (run.progress(), run.log(), run.output()) == (None, [], [])
    look = RunProgress("saying", "words", 3, 4, 0.75, 6.0, 0.5, 0.2)
    run.folder.write_progress(look)
    run.folder.log_file.write_text("one\ntwo\n")
    run.folder.output_file.write_text('{"a": 1}\n{"a": 2}\n')
    assert (run.progress(), run.log(last=1)) == (look, ["two"])
    assert (run.output(), run.output(first=1)) == ([{"a": 1}, {"a": 2}], [{"a": 1}])
    assert run.command == f"nearsay scripted say --library {run.library}"


def test_a_command_that_is_refused_is_no_run(start: Callable[..., Run], runs: Runs) -> None:
    with pytest.raises(BadInputError, match="No such option '--loud'"):
        start("--loud")
    with pytest.raises(BadInputError, match="zero character"):
        start(title="\0")
    with pytest.raises(BadInputError, match="'sing' is no kind of run"):
        runs.start("sing", ["scripted", "say"])
    assert runs.list() == []
    with pytest.raises(BadInputError, match="0 runs at once are none"):
        Runs(runs._library, at_once=0)


def test_a_folder_whose_name_is_not_unicode_is_refused(
    runs: Runs, spawned: Spawned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this disk takes Unicode names alone")
    monkeypatch.chdir(folder)
    with pytest.raises(BadInputError, match="is not Unicode text"):
        runs.start("other", ["scripted", "say"])
    assert runs.list() == []


def test_a_catalogue_elsewhere_is_told_to_the_process_wherever_that_works(
    tmp_path: Path, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Library.open(tmp_path / "other", database="sqlite:///kept.sqlite") as library:
        Runs(library).start("other", ["scripted", "say"])
    assert spawned.given[0]["database"] == f"sqlite:///{tmp_path / 'kept.sqlite'}"


def test_what_cannot_be_removed_is_said_with_its_remedy(
    start: Callable[..., Run], runs: Runs, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    spawned.die(1)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", refuse)
        with pytest.raises(NearsayError, match=r"cannot be written \(Permission denied\).*its rights"):
            runs.remove(1)
    runs.remove(1)
    assert runs.list() == []


def test_a_process_that_cannot_be_started_is_a_failed_run(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CHILD", ("/no/such/python",))
    with pytest.raises(NearsayError, match=r"no process could be started in .*memory left"):
        runs.start("other", ["scripted", "say"])
    run = runs.get(1)
    assert (run.state, run.pid) == (RunState.FAILED, None)
    assert run.message is not None
    assert run.message.startswith("no process could be started")
    assert not run.folder.alive


def test_no_descriptor_of_a_lock_stays_open_here(runs: Runs, spawned: Spawned) -> None:
    runs.start("other", ["scripted", "say"])
    spawned.die(1)
    before = os.open("/dev/null", os.O_RDONLY)
    os.close(before)
    for _ in range(3):
        number = runs.start("other", ["scripted", "say"]).number
        spawned.die(number)
        assert not runs.get(number).folder.alive
    after = os.open("/dev/null", os.O_RDONLY)
    os.close(after)
    assert after == before


def test_the_device_of_the_library_is_the_runs(
    tmp_path: Path, spawned: Spawned, open_library: Callable[[], Library]
) -> None:
    with Library.open(open_library().store.folder, device="cuda:1") as library:
        run = Runs(library, precision="float32", at_once=3).start("other", ["scripted", "say", "a"])
    assert run.arguments == ("scripted", "say", "--device", "cuda:1", "--precision", "float32", "a")
    assert spawned.given[0]["at_once"] == 3


def test_a_kind_that_a_later_version_forgot_is_shown_as_other(
    start: Callable[..., Run], runs: Runs, library: Library
) -> None:
    with library.store.database.writing() as connection:
        rows.create(connection, rows.NewRun("juggle", "Juggle", [], "/", None, None, None, "2026-01-01"))
    assert [run.kind for run in runs.list()] == [RunKind.OTHER]
