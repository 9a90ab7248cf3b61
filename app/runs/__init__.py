"""Long work in processes of its own, recorded in the library: progress, log, cancelling, resuming.

A run is a `nearsay` command line that goes on in the background. It outlives the page or the terminal that
started it, waits for its turn (one is at work in a library at a time), and is stopped as a person stops a
command: what it wrote is kept, and the same again goes on.

from nearsay.app.runs import RunKind, Runs, RunState
from nearsay.indexer import Library

library = Library.open("my-library")
runs = Runs(library)  # light: make one whenever it is wanted
run = runs.start(  # BadInputError if the command would refuse it
    RunKind.ADD, ["documents", "add", "papers", "/data/papers.jsonl"], title="Add papers", collection="papers"
)
run = runs.get(run.number)  # as it is now
run.state  # RunState: waiting, running, done, failed, cancelled, interrupted
run.state.ended  # whether nothing is at it any more
run.stopping  # asked to stop, and not ended yet
run.message  # a failed run's sentence, with its remedy
run.command  # "nearsay documents add papers /data/papers.jsonl --library /…/my-library"
look = run.progress()  # RunProgress, or None before the first look
look.doing, look.done, look.total, look.unit, look.share, look.rate, look.seconds_left, look.metrics
run.log(last=50)  # lines of standard error
run.output()  # what it printed: the rows of --json
runs.list(state=None, collection="papers", limit=200)  # the newest first
runs.cancel(run.number)  # once: ends after its step; again: at once
runs.resume(run.number)  # a new Run; its .resumes is the former
runs.remove(run.number)  # of one that has ended; what it made stays
runs.wait(run.number)  # until it has ended (for scripts and tests)

Names of files in the arguments are seen from the folder in which `start` was called: whole paths are safer.
"""

from nearsay.app.runs.run import Run, RunKind, RunState
from nearsay.app.runs.run_folder import RunProgress
from nearsay.app.runs.runs import Runs

__all__ = ["Run", "RunKind", "RunProgress", "RunState", "Runs"]
