"""Long work in processes of its own, recorded in the library: progress, log, cancelling, resuming.

A job is a `nearsay` command line that goes on in the background. It outlives the page or the terminal that
started it, waits for its turn (one is at work in a library at a time), and is stopped as a person stops a
command: what it wrote is kept, and the same again goes on.

from nearsay.app.jobs import JobKind, Jobs, JobState
from nearsay.indexer import Library

library = Library.open("my-library")
jobs = Jobs(library)  # light: make one whenever it is wanted
job = jobs.start(  # BadInputError if the command would refuse it
    JobKind.ADD, ["documents", "add", "papers", "/data/papers.jsonl"], title="Add papers", collection="papers"
)
job = jobs.get(job.number)  # as it is now
job.state  # JobState: waiting, running, done, failed, cancelled, interrupted
job.state.ended  # whether nothing is at it any more
job.stopping  # asked to stop, and not ended yet
job.message  # a failed job's sentence, with its remedy
job.command  # "nearsay documents add papers /data/papers.jsonl --library /…/my-library"
look = job.progress()  # JobProgress, or None before the first look
look.doing, look.done, look.total, look.unit, look.share, look.rate, look.seconds_left, look.metrics
job.log(last=50)  # lines of standard error
job.notes()  # the sentences among them that it said beside its results
job.output()  # what it printed: the rows of --json
jobs.list(state=None, collection="papers", limit=200)  # the newest first
jobs.cancel(job.number)  # once: ends after its step; again: at once
jobs.resume(job.number)  # a new Job; its .resumes is the former
jobs.remove(job.number)  # of one that has ended; what it made stays
jobs.wait(job.number)  # until it has ended (for scripts and tests)

Names of files in the arguments are seen from the folder in which `start` was called: whole paths are safer.
"""

from nearsay.app.jobs.job import Job, JobKind, JobState
from nearsay.app.jobs.job_folder import JobProgress, duration
from nearsay.app.jobs.jobs import Jobs

__all__ = ["Job", "JobKind", "JobProgress", "JobState", "Jobs", "duration"]
