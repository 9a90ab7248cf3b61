"""Jobs whose processes do what a test wants, or that have none."""

import contextlib
import importlib.util
import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.cli import main
from nearsay.app.jobs import Jobs
from nearsay.app.jobs import jobs as starting
from nearsay.app.jobs.job_folder import JobFolder
from nearsay.indexer import Library
from nearsay.indexer.catalogue import jobs as rows

_HERE = Path(__file__).parent
for _NAME, _FOLDER in (("scripted_child", _HERE), ("postgresql_server", _HERE.parent.parent / "indexer")):
    if _NAME not in sys.modules:
        _SPEC = importlib.util.spec_from_file_location(_NAME, _FOLDER / f"{_NAME}.py")
        assert _SPEC is not None
        assert _SPEC.loader is not None
        sys.modules[_NAME] = importlib.util.module_from_spec(_SPEC)
        _SPEC.loader.exec_module(sys.modules[_NAME])

import postgresql_server  # noqa: E402 - importable only after the lines above
import scripted_child  # noqa: E402


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of `scripted_child` are commands of nearsay, here and in processes of jobs."""
    monkeypatch.setitem(main.commands, "scripted", scripted_child.scripted)
    monkeypatch.setattr(starting, "CHILD", (sys.executable, str(_HERE / "scripted_child.py")))


@pytest.fixture
def jobs(library: Library) -> Jobs:
    """The jobs of the test's library."""
    return Jobs(library)


class Pipe:
    """A place at which a job's process says where it is."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.name = str(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._writer = os.open(path, os.O_WRONLY)  # with ours open it never looks as if all was said

    def hear(self) -> str:
        """What the process says, once it does."""
        assert select.select([self._reader], [], [], 60)[0], "nothing was said"
        return os.read(self._reader, 100).decode()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@pytest.fixture
def new_pipe(tmp_path: Path) -> Iterator[Callable[[], Pipe]]:
    """Makes pipes."""
    made: list[Pipe] = []

    def new() -> Pipe:
        made.append(Pipe(tmp_path / f"pipe-{len(made)}"))
        return made[-1]

    yield new
    for pipe in made:
        pipe.close()


class Spawned:
    """Stands in for processes: holds their locks, and lets them begin, end and die as a test says."""

    def __init__(self, library: Library) -> None:
        self._database = library.store.database
        self.locks: dict[int, int] = {}
        self.given: list[dict[str, Any]] = []

    def __call__(self, folder: JobFolder, lock: int, **given: Any) -> int:
        self.locks[folder.number] = os.dup(lock)
        self.given.append(given)
        return 4711

    def begin(self, number: int) -> None:
        with self._database.writing() as connection:
            rows.begun(connection, number, "2026-01-01T10:00:00+00:00")

    def end(self, number: int, state: str = "done", message: str | None = None) -> None:
        ending = rows.Ending(state, 0 if state == "done" else 1, message, "2026-01-01T10:03:00+00:00")
        with self._database.writing() as connection:
            rows.ended(connection, number, ending)

    def die(self, number: int) -> None:
        os.close(self.locks.pop(number))


@pytest.fixture
def spawned(library: Library, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spawned]:
    """Jobs that are started get no process, but this."""
    stand_in = Spawned(library)
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", stand_in)
    yield stand_in
    for number in list(stand_in.locks):
        stand_in.die(number)


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty PostgreSQL database, of this test alone, as in the tests of the indexer."""
    with contextlib.ExitStack() as stack:
        server, programs = os.environ.get("NEARSAY_TEST_POSTGRESQL"), postgresql_server.binaries()
        if not server and programs is None:
            if os.environ.get("NEARSAY_REQUIRE_POSTGRESQL") == "1":
                pytest.fail("no PostgreSQL server")
            pytest.skip("no PostgreSQL server: apt-get install postgresql")
        if not server:
            assert programs is not None
            server = stack.enter_context(postgresql_server.running(programs)).url
        yield stack.enter_context(postgresql_server.new_database(server))
