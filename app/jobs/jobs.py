"""The jobs of a library, and their processes."""

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearsay.app.jobs.command_line import checked, storable
from nearsay.app.jobs.job import Job, JobKind, JobState
from nearsay.app.jobs.job_folder import JobFolder, writing
from nearsay.app.life_lock import wait_until_free
from nearsay.data.errors import BadInputError, NearsayError

if TYPE_CHECKING:
    from nearsay.indexer import Library
    from nearsay.indexer.catalogue.jobs import JobRow, NewJob


# -P: modules in the working folder must not shadow others.
CHILD = (sys.executable, "-P", "-X", "utf8", "-m", "nearsay.app.cli.child")


def spawn(folder: JobFolder, lock: int, *, working_folder: Path, database: str | None) -> int:
    """Start the process of a job, `nearsay.app.cli.child`, in its own session; returns its process id.

    lock: descriptor of the job's lock, which the child still holds when it is closed here
    database: URL of a PostgreSQL catalogue; passed in the environment, because other users can see arguments
    """
    environment = {  # NEARSAY_UI…: the page's password and settings
        name: value
        for name, value in os.environ.items()
        if name not in ("NEARSAY_DATABASE", "NEARSAY_LIBRARY") and not name.startswith("NEARSAY_UI")
    }
    if database is not None:
        environment["NEARSAY_DATABASE"] = database
    environment["NEARSAY_CONFIG"] = os.devnull  # the job's arguments include its options
    arguments = [str(folder.library), str(folder.number), str(lock)]
    with writing(folder.path), folder.output_file.open("ab") as output, folder.log_file.open("ab") as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module
                [*CHILD, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                cwd=working_folder,
                env=environment,
                pass_fds=(lock,),
                start_new_session=True,
            )
        except OSError as error:
            raise NearsayError(
                f"no process could be started in {working_folder} ({error.strerror}). "
                "Check that the folder exists and that there is free memory, then start it again"
            ) from error
    threading.Thread(target=process.wait, name=f"job {folder.number}", daemon=True).start()
    return process.pid


_MOST = 2**63 - 1  # largest number in the catalogue


class Jobs:
    """Starts jobs and reads their state. Thread-safe."""

    def __init__(self, library: "Library", *, precision: str = "auto") -> None:
        """precision: of encoders that jobs load, unless their arguments set it; device: the library's."""
        self._library = library
        self._precision = precision

    def start(
        self,
        kind: JobKind,
        arguments: Sequence[str],
        *,
        title: str | None = None,
        collection: str | None = None,
        product: str | None = None,
    ) -> Job:
        """Start `nearsay …arguments…` in the background; the returned job is waiting or running.

        kind: from `JobKind.of(arguments)`
        arguments: without --library, --database and --json, which are added
        title: default: the command line
        collection: default: the one in the arguments
        product: output folder, file or name; default: the path in --out

        Raises BadInputError with the command's message if the arguments are wrong; then nothing is started.
        """
        from nearsay.indexer.catalogue.jobs import NewJob
        from nearsay.indexer.catalogue.store import now

        working_folder = str(Path.cwd())
        storable(title, collection, product, working_folder)
        arguments = [str(argument) for argument in arguments]  # click does not accept StrEnum members
        command = checked(arguments, device=self._library.store.device, precision=self._precision)
        new = NewJob(
            kind=kind,
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
        self, state: JobState | None = None, collection: str | None = None, limit: int | None = 200
    ) -> list[Job]:
        """Return the jobs, newest first; state, collection: only those; limit: at most this many."""
        from nearsay.indexer.catalogue import jobs as rows

        recorded = None if state is None else [state]
        if state is JobState.INTERRUPTED:  # jobs that are alive in the catalogue may have been killed
            recorded = [JobState.INTERRUPTED, JobState.WAITING, JobState.RUNNING]
        certain = state in (None, JobState.DONE, JobState.FAILED, JobState.CANCELLED)
        with self._library.store.database.reading() as connection:
            found = rows.newest(
                connection, states=recorded, collection=collection, limit=limit if certain else None
            )
        jobs = [self._job(row) for row in found]
        return [job for job in jobs if state in (None, job.state)][:limit]

    def get(self, number: int) -> Job:
        """Return a job. Raises BadInputError if it does not exist."""
        row = self._row(number)
        if row is None:
            raise BadInputError(f"there is no job {number} in this library. List them: nearsay jobs list")
        return self._job(row)

    def wait(self, number: int) -> Job:
        """Wait until a job has ended and return it."""
        wait_until_free(self.get(number).folder.lock_file)
        return self.get(number)

    def cancel(self, number: int) -> Job:
        """Request a stop after the current step; a second request stops it at once. It takes a moment.

        What it wrote is kept, and `resume` continues. The request is a file, so that it works across hosts
        and cannot hit another process. Raises BadInputError if it has ended.
        """
        job = self.get(number)
        if job.state.ended:
            again = job.command if job.state is JobState.DONE else f"nearsay jobs resume {number}"
            raise BadInputError(f"job {number} has ended: {job.state}. Run it again: {again}")
        job.folder.ask_to_stop()
        return job

    def resume(self, number: int) -> Job:
        """Start the same command as a new job, which continues where the former stopped.

        Raises BadInputError while that one is alive, if it is done, and if a resume of it is alive or done.
        """
        from nearsay.indexer.catalogue.jobs import NewJob
        from nearsay.indexer.catalogue.store import now

        job = self.get(number)
        if not job.state.ended:
            raise BadInputError(
                f"job {number} is still {job.state}. Wait for its end, or stop it: nearsay jobs cancel "
                f"{number}"
            )
        if job.state is JobState.DONE:
            raise BadInputError(
                f"job {number} is done, so there is nothing to resume. To run it again: {job.command}"
            )
        later = self.successor(number)
        if later is not None and (later.state is JobState.DONE or not later.state.ended):
            raise BadInputError(
                f"job {number} was resumed as job {later.number}, which is {later.state}. "
                f"See: nearsay jobs show {later.number}"
            )
        kept = {name: getattr(job, name) for name in NewJob.__slots__}
        new = NewJob(**(kept | {"resumes": number, "created_at": now("milliseconds")}))
        return self._begin(new, known=number if later is None else later.number)

    def successor(self, number: int) -> Job | None:
        """Return the last job that resumed this one, directly or indirectly; None if there is none."""
        numbers, found = {number}, None
        for job in reversed(self.list(limit=None)):
            if job.resumes in numbers:
                numbers.add(job.number)
                found = job
        return found

    def remove(self, *numbers: int) -> None:
        """Delete jobs, all or none; their results are kept. Raises BadInputError if one of them is alive."""
        from nearsay.indexer.catalogue import jobs as rows

        jobs = [self.get(number) for number in dict.fromkeys(numbers)]
        for job in jobs:
            if not job.state.ended:
                raise BadInputError(
                    f"job {job.number} is still {job.state}. Stop it first: nearsay jobs cancel {job.number}"
                )
        for job in jobs:
            job.folder.remove()
            with self._library.store.database.writing() as connection:
                rows.delete(connection, job.number)

    def _begin(self, new: "NewJob", known: int = 0) -> Job:
        """known: the newest known job that resumes the same one"""
        from nearsay.indexer.catalogue import jobs as rows
        from nearsay.indexer.catalogue.store import now

        store = self._library.store
        with contextlib.ExitStack() as held:
            with store.database.writing() as connection:
                at_once = None if new.resumes is None else rows.resumed(connection, new.resumes, known)
                if at_once is not None:
                    raise BadInputError(
                        f"job {new.resumes} was just resumed as job {at_once}. "
                        f"See: nearsay jobs show {at_once}"
                    )
                number = rows.create(connection, new)
                folder = JobFolder(store.folder, number)
                lock = folder.make()  # before the job is visible: one without a lock counts as dead
                held.callback(os.close, lock)
            try:
                pid = spawn(
                    folder,
                    lock,
                    working_folder=Path(new.working_folder),
                    database=self._database_url(),
                )
            except NearsayError as error:
                ending = rows.Ending(JobState.FAILED, None, str(error), now("milliseconds"))
                with store.database.writing() as connection:
                    rows.ended(connection, number, ending)
                raise
            with store.database.writing() as connection:
                rows.spawned(connection, number, pid=pid, host=socket.gethostname())
            return self.get(number)

    def _database_url(self) -> str | None:
        """Return the URL of a catalogue outside of the library, with its password; None if it is inside."""
        store = self._library.store
        url = store.database.engine.url
        if store.database.dialect == "sqlite":
            file = Path(url.database or "").absolute()  # the child may have another working folder
            if file.resolve() == store.folder / "catalogue.sqlite":
                return None
            url = url.set(database=str(file))
        return url.render_as_string(hide_password=False)

    def _row(self, number: int) -> "JobRow | None":
        from nearsay.indexer.catalogue import jobs as rows

        if not 0 < number <= _MOST:
            return None
        with self._library.store.database.reading() as connection:
            return rows.find(connection, number)

    def _job(self, row: "JobRow") -> Job:
        state, folder = JobState(row.state), self._library.store.folder
        try:
            alive = state.ended or JobFolder(folder, row.number).alive
        except OSError:  # perhaps another user's: trust the catalogue
            alive = True
        if not alive:
            # It may have ended since the row was read: a process records that before it releases its lock.
            row = self._row(row.number) or row
            state = JobState(row.state) if JobState(row.state).ended else JobState.INTERRUPTED
        values = {name: getattr(row, name) for name in row.__slots__}
        kind = row.kind if row.kind in [*JobKind] else JobKind.OTHER
        return Job(**(values | {"kind": JobKind(kind), "state": state}), library=folder)
