"""The process of a run: `python -m nearsay.app.runs.child LIBRARY NUMBER AT_ONCE LOCK`, as `spawn` starts it.

It waits for its turn, gives the command as a person would in a terminal, and records how that ended. It is
stopped as a person stops a command: by Ctrl-C.
"""

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app import life_lock
from nearsay.app.cli.progress_record import heard_by
from nearsay.app.runs.run_folder import RunFolder
from nearsay.app.runs.run_state import RunState
from nearsay.app.runs.turn import turn
from nearsay.app.runs.watcher import Watcher
from nearsay.data.errors import NearsayError, first_line

if TYPE_CHECKING:
    from nearsay.indexer.catalogue.database import Database

__all__ = ["main"]

_STOPPED = 130  # the exit status of a command that was stopped
_GIVES_WAY = 5  # niceness: the page that is open beside it answers first


@dataclass(frozen=True, slots=True)
class _Ending:
    """How the command ended."""

    exit_code: int
    message: str | None = None  # of an error


def main(arguments: list[str]) -> int:
    """Be the run of these arguments; the exit status."""
    library, number, at_once = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    life_lock.keep(int(arguments[3]))
    for one in (signal.SIGINT, signal.SIGTERM):  # whatever our parent did with them
        signal.signal(one, signal.default_int_handler)
    with contextlib.suppress(OSError):
        os.nice(_GIVES_WAY)
    watcher, ending = Watcher(RunFolder(library, number)), None
    try:
        with watcher, turn(library, number, at_once=at_once):
            ending = _work(library, number, watcher)
    except KeyboardInterrupt:
        pass  # before its turn, or in the moment in which it ended
    except OSError as error:
        reason = (
            f"the library in {library} cannot be reached any more ({error.strerror}). If it was moved, start "
            f"the same again from where it is now: nearsay runs resume {number}"
        )
        click.echo(f"Error: {reason}", err=True)
        ending = ending or _Ending(1, reason)
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    return _record(library, number, ending or _Ending(_STOPPED), asked=watcher.asked_to_stop)


def _work(library: Path, number: int, watcher: Watcher) -> _Ending:
    from nearsay.app.runs.command_line import background_arguments
    from nearsay.indexer.catalogue import runs
    from nearsay.indexer.store import now

    try:
        with _catalogue(library) as database, database.writing() as connection:
            row = runs.find(connection, number)
            runs.begun(connection, number, now("milliseconds"))
    except NearsayError as error:
        click.echo(f"Error: {error}", err=True)
        return _Ending(1, str(error))
    if row is None:
        return _Ending(1, "the run was removed")
    with heard_by(watcher.heard):
        return _command(background_arguments(row.arguments, library))


def _command(arguments: list[str]) -> _Ending:
    """Give the command in this process."""
    from nearsay.app.cli.main import main as nearsay

    try:
        nearsay.main(args=arguments, prog_name="nearsay", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return _Ending(error.exit_code, error.format_message())
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _Ending(_STOPPED)
        return _Ending(1, "it asked a question, which nobody could answer. Say --yes where a command has it")
    except SystemExit as end:
        return _Ending(end.code if isinstance(end.code, int) else int(end.code is not None))
    except Exception as error:  # noqa: BLE001 - a defect, which the run's log and message tell
        traceback.print_exc()
        return _Ending(1, f"{type(error).__name__}: {first_line(error)}. This is a defect: see the run's log")
    return _Ending(0)


def _record(library: Path, number: int, ending: _Ending, *, asked: bool) -> int:
    from nearsay.indexer.catalogue import runs
    from nearsay.indexer.store import now

    RunFolder(library, number).turn_has_come()
    state, message = RunState.FAILED, ending.message
    if ending.exit_code == 0:
        state = RunState.DONE
    elif ending.exit_code == _STOPPED:
        state = RunState.CANCELLED if asked else RunState.INTERRUPTED
    elif message is None:
        message = next(iter(RunFolder(library, number).log(last=1)), None)
    recorded = runs.Ending(state, ending.exit_code, message, now("milliseconds"))
    try:
        with _catalogue(library) as database, database.writing() as connection:
            runs.ended(connection, number, recorded)
    except NearsayError as error:
        click.echo(f"how the run ended could not be recorded: {error}", err=True)
    return ending.exit_code


@contextlib.contextmanager
def _catalogue(library: Path) -> Iterator["Database"]:
    """The library's catalogue, for a moment: a run that works for hours keeps no connection."""
    import sqlalchemy as sa

    from nearsay.indexer.catalogue.database import Database

    inside = sa.URL.create("sqlite", database=str(library / "catalogue.sqlite"))
    database = Database(os.environ.get("NEARSAY_DATABASE") or inside)
    try:
        yield database
    finally:
        database.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
