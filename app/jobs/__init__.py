"""Background jobs, recorded in the library: progress, log, cancelling, resuming.

A job is a `nearsay` command that runs in a process of its own. It continues when the page or terminal that
started it is closed, waits for its turn (one job at a time runs in a library), and stops like a command at
Ctrl-C: what it wrote is kept, and running it again resumes it.

    jobs = Jobs(library)  # cheap: create one whenever needed
    job = jobs.start(JobKind.ADD, ["documents", "add", "papers", "/data/papers.jsonl"], title="Add papers")
    jobs.get(job.number).state  # the current state

Relative paths in the arguments are resolved in the folder in which `start` is called.
"""

from nearsay.app.jobs.job import Job, JobKind, JobState
from nearsay.app.jobs.job_folder import JobProgress, duration
from nearsay.app.jobs.jobs import Jobs

__all__ = ["Job", "JobKind", "JobProgress", "JobState", "Jobs", "duration"]
