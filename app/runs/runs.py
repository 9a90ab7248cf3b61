"""The runs of a library."""

import contextlib
import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearsay.app.life_lock import wait_until_free
from nearsay.app.runs.command_line import checked, storable
from nearsay.app.runs.process import spawn
from nearsay.app.runs.run import Run, RunKind, RunState
from nearsay.app.runs.run_folder import RunFolder
from nearsay.data.errors import BadInputError, NearsayError

if TYPE_CHECKING:
    from nearsay.indexer import Library
    from nearsay.indexer.catalogue.runs import NewRun, RunRow

__all__ = ["Runs"]

_MOST = 2**63 - 1  # what the catalogue counts to


class Runs:
    """Starts long work in processes of its own, and reads how far it is. Safe to share between threads."""

    def __init__(
        self,
        library: "Library",
        *,
        precision: str = "auto",
        at_once: int = 1,
    ) -> None:
        """Take part in the runs of a library.

        precision: for encoders that runs load, where their arguments say none; the device is the library's
        at_once:   how many of those started here may be at work together with others; the rest wait
        """
        if at_once < 1:
            raise BadInputError(f"{at_once} runs at once are none. Take 1 or more")
        self._library = library
        self._precision = precision
        self._at_once = at_once

    def start(
        self,
        kind: RunKind | str,
        arguments: Sequence[str],
        *,
        title: str | None = None,
        collection: str | None = None,
        product: str | None = None,
    ) -> Run:
        """Start `nearsay …arguments…` in a process of its own; what comes back waits or runs already.

        kind:       what it does; `RunKind.of(arguments)` knows
        arguments:  without --library, --database and --json, which are added
        title:      for people; the command line if left out
        collection: the one that it is about; the one that the arguments name if left out
        product:    the folder, file or name that it makes; what --out names if left out

        BadInputError, in the command's own words, if the arguments are not right: then nothing was started.
        """
        from nearsay.indexer.catalogue.runs import NewRun
        from nearsay.indexer.catalogue.store import now

        working_folder = str(Path.cwd())
        storable(title, collection, product, working_folder)
        arguments = [str(argument) for argument in arguments]  # a member of a StrEnum is not what click knows
        command = checked(arguments, device=self._library.store.device, precision=self._precision)
        new = NewRun(
            kind=_kind(kind),
            title=title or shlex.join(["nearsay", *arguments]),
            arguments=command.arguments,
            working_folder=working_folder,
            collection=collection or command.collection,
            product=product or command.product,
            resumes=None,
            created_at=now("milliseconds"),
            subject=command.subject,
        )
        return self._begin(new)

    def list(
        self, state: RunState | str | None = None, collection: str | None = None, limit: int | None = 200
    ) -> list[Run]:
        """The runs, the newest first; state, collection: only those; limit: at most so many."""
        from nearsay.indexer.catalogue import runs as rows

        wanted = None if state is None else _state(state)
        recorded = None if wanted is None else [wanted]
        if wanted is RunState.INTERRUPTED:  # what the catalogue takes for alive may have been killed
            recorded = [RunState.INTERRUPTED, RunState.WAITING, RunState.RUNNING]
        certain = wanted in (None, RunState.DONE, RunState.FAILED, RunState.CANCELLED)
        with self._library.store.database.reading() as connection:
            found = rows.newest(
                connection, states=recorded, collection=collection, limit=limit if certain else None
            )
        runs = [self._run(row) for row in found]
        return [run for run in runs if wanted in (None, run.state)][:limit]

    def get(self, number: int) -> Run:
        """The run of that number; BadInputError if there is none."""
        row = self._row(number)
        if row is None:
            raise BadInputError(f"there is no run {number} in this library. See which are: nearsay jobs list")
        return self._run(row)

    def wait(self, number: int) -> Run:
        """The run when it has ended."""
        wait_until_free(self.get(number).folder.lock_file)
        return self.get(number)

    def cancel(self, number: int) -> Run:
        """Ask a run to end after what it is at; asked again, to end at once. It takes a moment.

        What it wrote is kept, and `resume` goes on. It is asked through a file, so that no other process can
        be meant, whatever host it is on. BadInputError if it has ended.
        """
        run = self.get(number)
        if run.state.ended:
            again = run.command if run.state is RunState.DONE else f"nearsay jobs resume {number}"
            raise BadInputError(f"run {number} has ended: {run.state}. Start the same again: {again}")
        run.folder.ask_to_stop()
        return run

    def resume(self, number: int) -> Run:
        """Start the same as a new run, which goes on where the former stopped.

        BadInputError while that one lives, when it is done, and when a resume of it lives or is done.
        """
        from nearsay.indexer.catalogue.runs import NewRun
        from nearsay.indexer.catalogue.store import now

        run = self.get(number)
        if not run.state.ended:
            raise BadInputError(
                f"run {number} is still {run.state}. Let it end, or stop it: nearsay jobs cancel {number}"
            )
        if run.state is RunState.DONE:
            raise BadInputError(
                f"run {number} is done, so there is nothing to resume. To do the same again: {run.command}"
            )
        later = self.successor(number)
        if later is not None and (later.state is RunState.DONE or not later.state.ended):
            raise BadInputError(
                f"run {number} was resumed as run {later.number}, which is {later.state}. "
                f"See: nearsay jobs show {later.number}"
            )
        kept = {name: getattr(run, name) for name in NewRun.__slots__}
        return self._begin(NewRun(**(kept | {"resumes": number, "created_at": now("milliseconds")})))

    def successor(self, number: int) -> Run | None:
        """The run that goes on with a run; the last of them if that was resumed, too. None if none does."""
        numbers, found = {number}, None
        for run in reversed(self.list(limit=None)):
            if run.resumes in numbers:
                numbers.add(run.number)
                found = run
        return found

    def remove(self, number: int) -> None:
        """Forget a run, its log and its output; what it made stays. BadInputError while it lives."""
        from nearsay.indexer.catalogue import runs as rows

        run = self.get(number)
        if not run.state.ended:
            raise BadInputError(
                f"run {number} is still {run.state}. Stop it first: nearsay jobs cancel {number}"
            )
        run.folder.remove()
        with self._library.store.database.writing() as connection:
            rows.delete(connection, number)

    def _begin(self, new: "NewRun") -> Run:
        from nearsay.indexer.catalogue import runs as rows
        from nearsay.indexer.catalogue.store import now

        store = self._library.store
        with contextlib.ExitStack() as held:
            with store.database.writing() as connection:
                number = rows.create(connection, new)
                folder = RunFolder(store.folder, number)
                lock = folder.make()  # before anyone sees the run: one without a lock is taken for dead
                held.callback(os.close, lock)
            try:
                pid = spawn(
                    folder,
                    lock,
                    working_folder=Path(new.working_folder),
                    database=self._database_url(),
                    at_once=self._at_once,
                )
            except NearsayError as error:
                ending = rows.Ending(RunState.FAILED, None, str(error), now("milliseconds"))
                with store.database.writing() as connection:
                    rows.ended(connection, number, ending)
                raise
            with store.database.writing() as connection:
                rows.spawned(connection, number, pid=pid, host=socket.gethostname())
            return self.get(number)

    def _database_url(self) -> str | None:
        """The URL of a catalogue that is not inside the library, with its password."""
        store = self._library.store
        url = store.database.engine.url
        if store.database.dialect == "sqlite":
            file = Path(url.database or "").absolute()  # the process may have another working folder
            if file.resolve() == store.folder / "catalogue.sqlite":
                return None
            url = url.set(database=str(file))
        return url.render_as_string(hide_password=False)

    def _row(self, number: int) -> "RunRow | None":
        from nearsay.indexer.catalogue import runs as rows

        if not 0 < number <= _MOST:
            return None
        with self._library.store.database.reading() as connection:
            return rows.find(connection, number)

    def _run(self, row: "RunRow") -> Run:
        """The run, with a state that is true now."""
        state, folder = RunState(row.state), self._library.store.folder
        if not state.ended and not RunFolder(folder, row.number).alive:
            # It may have ended since the row was read; a process says so before it lets go of its lock.
            row = self._row(row.number) or row
            state = RunState(row.state) if RunState(row.state).ended else RunState.INTERRUPTED
        values = {name: getattr(row, name) for name in row.__slots__}
        kind = row.kind if row.kind in [*RunKind] else RunKind.OTHER
        return Run(**(values | {"kind": RunKind(kind), "state": state}), library=folder)


def _kind(kind: str) -> RunKind:
    try:
        return RunKind(kind)
    except ValueError:
        raise BadInputError(f"'{kind}' is no kind of run. Take one of: {', '.join(RunKind)}") from None


def _state(state: str) -> RunState:
    try:
        return RunState(state)
    except ValueError:
        raise BadInputError(f"'{state}' is no state of a run. Take one of: {', '.join(RunState)}") from None
