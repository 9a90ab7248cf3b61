"""The jobs of a library, and the process of each."""

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


# -P: modules that lie in the working folder shadow nothing.
CHILD = (sys.executable, "-P", "-X", "utf8", "-m", "nearsay.app.cli.child")


def spawn(folder: JobFolder, lock: int, *, working_folder: Path, database: str | None) -> int:
    """Start the process of a job, `nearsay.app.cli.child`, in a session of its own; its process id.

    lock:     the descriptor of the job's lock, which the child goes on holding when it is closed here
    database: the URL of a PostgreSQL catalogue: through the environment, since others see arguments
    """
    environment = {  # NEARSAY_UI…: the page's password and what else it was told
        name: value
        for name, value in os.environ.items()
        if name not in ("NEARSAY_DATABASE", "NEARSAY_LIBRARY") and not name.startswith("NEARSAY_UI")
    }
    if database is not None:
        environment["NEARSAY_DATABASE"] = database
    environment["NEARSAY_CONFIG"] = os.devnull  # what a file said is among the job's arguments
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
                "Check that the folder is there and that there is memory left, then start it again"
            ) from error
    threading.Thread(target=process.wait, name=f"job {folder.number}", daemon=True).start()
    return process.pid


_MOST = 2**63 - 1  # what the catalogue counts to


class Jobs:
    """Starts long work in processes of its own, and reads how far it is. Safe to share between threads."""

    def __init__(self, library: "Library", *, precision: str = "auto") -> None:
        """Take part in the jobs of a library.

        precision: for encoders that jobs load, where their arguments say none; the device is the library's
        """
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
        """Start `nearsay …arguments…` in a process of its own; what comes back waits or runs already.

        kind:       what it does; `JobKind.of(arguments)` knows
        arguments:  without --library, --database and --json, which are added
        title:      for people; the command line if left out
        collection: the one that it is about; the one that the arguments name if left out
        product:    the folder, file or name that it makes; what --out names if left out

        BadInputError, in the command's own words, if the arguments are not right: then nothing was started.
        """
        from nearsay.indexer.catalogue.jobs import NewJob
        from nearsay.indexer.catalogue.store import now

        working_folder = str(Path.cwd())
        storable(title, collection, product, working_folder)
        arguments = [str(argument) for argument in arguments]  # a member of a StrEnum is not what click knows
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
        """The jobs, the newest first; state, collection: only those; limit: at most so many."""
        from nearsay.indexer.catalogue import jobs as rows

        recorded = None if state is None else [state]
        if state is JobState.INTERRUPTED:  # what the catalogue takes for alive may have been killed
            recorded = [JobState.INTERRUPTED, JobState.WAITING, JobState.RUNNING]
        certain = state in (None, JobState.DONE, JobState.FAILED, JobState.CANCELLED)
        with self._library.store.database.reading() as connection:
            found = rows.newest(
                connection, states=recorded, collection=collection, limit=limit if certain else None
            )
        jobs = [self._job(row) for row in found]
        return [job for job in jobs if state in (None, job.state)][:limit]

    def get(self, number: int) -> Job:
        """The job of that number; BadInputError if there is none."""
        row = self._row(number)
        if row is None:
            raise BadInputError(f"there is no job {number} in this library. See which are: nearsay jobs list")
        return self._job(row)

    def wait(self, number: int) -> Job:
        """The job when it has ended."""
        wait_until_free(self.get(number).folder.lock_file)
        return self.get(number)

    def cancel(self, number: int) -> Job:
        """Ask a job to end after what it is at; asked again, to end at once. It takes a moment.

        What it wrote is kept, and `resume` goes on. It is asked through a file, so that no other process can
        be meant, whatever host it is on. BadInputError if it has ended.
        """
        job = self.get(number)
        if job.state.ended:
            again = job.command if job.state is JobState.DONE else f"nearsay jobs resume {number}"
            raise BadInputError(f"job {number} has ended: {job.state}. Start the same again: {again}")
        job.folder.ask_to_stop()
        return job

    def resume(self, number: int) -> Job:
        """Start the same as a new job, which goes on where the former stopped.

        BadInputError while that one lives, when it is done, and when a resume of it lives or is done.
        """
        from nearsay.indexer.catalogue.jobs import NewJob
        from nearsay.indexer.catalogue.store import now

        job = self.get(number)
        if not job.state.ended:
            raise BadInputError(
                f"job {number} is still {job.state}. Let it end, or stop it: nearsay jobs cancel {number}"
            )
        if job.state is JobState.DONE:
            raise BadInputError(
                f"job {number} is done, so there is nothing to resume. To do the same again: {job.command}"
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
        """The job that goes on with a job; the last of them if that was resumed, too. None if none does."""
        numbers, found = {number}, None
        for job in reversed(self.list(limit=None)):
            if job.resumes in numbers:
                numbers.add(job.number)
                found = job
        return found

    def remove(self, *numbers: int) -> None:
        """Forget jobs, all or none; what they made stays. BadInputError while one of them lives."""
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
        """known: the newest job that resumes what this one does, as far as has been looked."""
        from nearsay.indexer.catalogue import jobs as rows
        from nearsay.indexer.catalogue.store import now

        store = self._library.store
        with contextlib.ExitStack() as held:
            with store.database.writing() as connection:
                at_once = None if new.resumes is None else rows.resumed(connection, new.resumes, known)
                if at_once is not None:
                    raise BadInputError(
                        f"job {new.resumes} was resumed at this moment as job {at_once}. "
                        f"See: nearsay jobs show {at_once}"
                    )
                number = rows.create(connection, new)
                folder = JobFolder(store.folder, number)
                lock = folder.make()  # before anyone sees the job: one without a lock is taken for dead
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
        """The URL of a catalogue that is not inside the library, with its password."""
        store = self._library.store
        url = store.database.engine.url
        if store.database.dialect == "sqlite":
            file = Path(url.database or "").absolute()  # the process may have another working folder
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
        """The job, with a state that is true now."""
        state, folder = JobState(row.state), self._library.store.folder
        try:
            alive = state.ended or JobFolder(folder, row.number).alive
        except OSError:  # it is another user's, perhaps: the catalogue's word stands
            alive = True
        if not alive:
            # It may have ended since the row was read; a process says so before it lets go of its lock.
            row = self._row(row.number) or row
            state = JobState(row.state) if JobState(row.state).ended else JobState.INTERRUPTED
        values = {name: getattr(row, name) for name in row.__slots__}
        kind = row.kind if row.kind in [*JobKind] else JobKind.OTHER
        return Job(**(values | {"kind": JobKind(kind), "state": state}), library=folder)
