"""The process of a job: `python -m nearsay.app.cli.child LIBRARY NUMBER LOCK`, started by `spawn`.

It waits for its turn, runs the command as a terminal would, and records the outcome. It is stopped like a
command in a terminal, by SIGINT.
"""

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import click

from nearsay.app import life_lock
from nearsay.app.cli.main import main as nearsay
from nearsay.app.cli.progress import reporting_to
from nearsay.app.jobs.command_line import background_arguments
from nearsay.app.jobs.job import JobState
from nearsay.app.jobs.job_folder import JOBS_FOLDER, JobFolder, JobProgress
from nearsay.data.errors import NearsayError, first_line

if TYPE_CHECKING:
    from nearsay.indexer.catalogue.database import Database

_SECONDS_BETWEEN_TRIES = 0.2


@contextmanager
def turn(library: Path, number: int) -> Iterator[None]:
    """Wait until it is this job's turn, which ends with the block, or with the process.

    Only files are checked, so a waiting job needs neither a database connection nor the modules for one.
    """
    while (descriptor := _taken(library, number)) is None:
        time.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        JobFolder(library, number).turn_has_come()
        yield
    finally:
        os.close(descriptor)


def _taken(library: Path, number: int) -> int | None:
    """Return the lock of the running job if it is free and no earlier job waits for it, else None."""
    descriptor = life_lock.take(library / JOBS_FOLDER / "turn-1.lock")
    if descriptor is None:
        return None
    names = (place.name for place in (library / JOBS_FOLDER).iterdir())
    earlier = sorted(int(name) for name in names if name.isdecimal() and int(name) < number)
    if any(JobFolder(library, other).waiting for other in earlier):
        os.close(descriptor)
        return None
    return descriptor


_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_WRITES = 0.5


class Watcher:
    """A thread that writes progress and checks for stop requests, so that the work never waits for a file.

    The last progress is also written at the end.
    """

    def __init__(self, folder: JobFolder) -> None:
        """folder: of the job, for progress and stop requests"""
        self._folder = folder
        self._latest: JobProgress | None = None
        self._written: JobProgress | None = None
        self._sent = 0  # interrupts
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher of the job", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._write()

    @property
    def asked_to_stop(self) -> bool:
        """Whether a stop was requested and forwarded."""
        return self._sent > 0

    def update(self, progress: JobProgress) -> None:
        """Store the latest progress, which `_write` saves."""
        self._latest = progress

    def _watch(self) -> None:
        looks_a_write = round(_SECONDS_BETWEEN_WRITES / _SECONDS_BETWEEN_LOOKS)
        looks = 0
        while not self._over.wait(_SECONDS_BETWEEN_LOOKS):
            looks += 1
            if looks % looks_a_write == 0:
                self._write()
            if self._sent < self._folder.times_asked_to_stop:
                self._sent += 1
                # Only the main thread runs signal handlers; this interrupts whatever it waits for.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _write(self) -> None:
        latest = self._latest
        if latest is not None and latest is not self._written:
            with contextlib.suppress(OSError):  # the command itself reports a full disk
                self._folder.write_progress(latest)
                self._written = latest


_STOPPED = 130  # the exit status of a command that was stopped
_NICENESS = 10  # pages go first


_Ending: TypeAlias = tuple[int, str | None]  # the exit status, and the message of an error


def main(arguments: list[str]) -> int:
    """Run the job of these arguments; returns the exit status."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
        # With autogroups, niceness only counts within a session: sched(7).
        Path("/proc/self/autogroup").write_text(str(_NICENESS), "ascii")
    life_lock.keep(int(arguments[2]))
    return _carry_out(Path(arguments[0]), int(arguments[1]))


def _carry_out(library: Path, number: int) -> int:
    for one in (signal.SIGINT, signal.SIGTERM):  # the parent may have changed them
        signal.signal(one, signal.default_int_handler)
    watcher, ending = Watcher(JobFolder(library, number)), None
    try:
        with watcher, turn(library, number):
            ending = _work(library, number, watcher)
    except KeyboardInterrupt:
        pass  # before its turn, or just as it ended
    except OSError as error:
        reason = (
            f"the library in {library} is no longer accessible ({error.strerror}). If it was moved, resume "
            f"the job there: nearsay jobs resume {number}"
        )
        click.echo(f"Error: {reason}", err=True)
        ending = ending or (1, reason)
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    return _record(library, number, ending or (_STOPPED, None), asked=watcher.asked_to_stop)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay interrupts until the block's end.

    An interrupted import leaves a package that cannot be imported again, which recording the outcome needs.
    """
    received: list[int] = []
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.default_int_handler)
    if received:
        raise KeyboardInterrupt


def _work(library: Path, number: int, watcher: Watcher) -> _Ending:
    try:
        with _uninterrupted():
            from nearsay.indexer.catalogue import jobs
            from nearsay.indexer.catalogue.store import now

            with _catalogue(library) as database, database.writing() as connection:
                row = jobs.find(connection, number)
                jobs.begun(connection, number, now("milliseconds"))
    except NearsayError as error:
        click.echo(f"Error: {error}", err=True)
        return 1, str(error)
    if row is None:
        return 1, "the job was removed"
    with reporting_to(watcher.update, JobFolder(library, number).add_note):
        return _command(row.arguments, library)


def _command(arguments: Sequence[str], library: Path) -> _Ending:
    """Run the command in this process; an older version may have started one that no longer exists."""
    try:
        given = background_arguments(arguments, library)
        nearsay.main(args=given, prog_name="nearsay", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code, error.format_message()
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _STOPPED, None
        return 1, "it asked for confirmation, which a job cannot give. Use --yes if the command has it"
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None), None
    except Exception as error:  # noqa: BLE001 - a defect, reported in the job's log and message
        traceback.print_exc()
        return 1, f"{type(error).__name__}: {first_line(error)}. This is a defect: see the job's log"
    return 0, None


def _record(library: Path, number: int, ending: _Ending, *, asked: bool) -> int:
    from nearsay.indexer.catalogue import jobs
    from nearsay.indexer.catalogue.store import now

    JobFolder(library, number).turn_has_come()
    state, (exit_code, message) = JobState.FAILED, ending
    if exit_code == 0:
        state = JobState.DONE
    elif exit_code == _STOPPED:
        state = JobState.CANCELLED if asked else JobState.INTERRUPTED
    elif message is None:
        message = next(iter(JobFolder(library, number).log(last=1)), None)
    recorded = jobs.Ending(state, exit_code, message, now("milliseconds"))
    try:
        with _catalogue(library) as database, database.writing() as connection:
            jobs.ended(connection, number, recorded)
    except NearsayError as error:
        click.echo(f"the outcome of the job could not be recorded: {error}", err=True)
    return exit_code


def _catalogue(library: Path) -> "contextlib.closing[Database]":
    """Open the library's catalogue for a moment: a job that runs for hours holds no connection."""
    import sqlalchemy as sa

    from nearsay.indexer.catalogue.database import Database
    from nearsay.indexer.catalogue.writer_lock import require_there

    require_there(library)
    inside = sa.URL.create("sqlite", database=str(library / "catalogue.sqlite"))
    return contextlib.closing(Database(os.environ.get("NEARSAY_DATABASE") or inside))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
