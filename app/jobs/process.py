"""The process of a job."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from nearsay.app.jobs.job_folder import JobFolder, writing
from nearsay.data.errors import NearsayError

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
