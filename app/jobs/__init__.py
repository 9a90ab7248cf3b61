"""Long work in processes of its own, recorded in the library: progress, log, cancelling, resuming.

A job is a `nearsay` command line that goes on in the background. It outlives the page or the terminal that
started it, waits for its turn (one is at work in a library at a time), and is stopped as a person stops a
command: what it wrote is kept, and the same again goes on.

jobs = Jobs(library)  # light: make one whenever it is wanted
job = jobs.start(JobKind.ADD, ["documents", "add", "papers", "/data/papers.jsonl"], title="Add papers")
jobs.get(job.number).state  # as it is now

Names of files in the arguments are seen from the folder in which `start` was called: whole paths are safer.
"""

from nearsay.app.jobs.job import Job, JobKind, JobState
from nearsay.app.jobs.job_folder import JobProgress, duration
from nearsay.app.jobs.jobs import Jobs

__all__ = ["Job", "JobKind", "JobProgress", "JobState", "Jobs", "duration"]
