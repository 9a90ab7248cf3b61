"""`nearsay jobs`: commands that run in the background."""

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.command import GROUP, CommandGroup, argument, option
from nearsay.app.cli.options import JSON, LIMIT, ROWS, Place, Removal, collection_names
from nearsay.app.cli.printing import (
    in_the_library,
    print_done,
    print_json,
    print_notes,
    print_results,
    print_rows,
    print_table,
)
from nearsay.data.document import visible
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.app.jobs import Job, Jobs

_STATES = ["waiting", "running", "done", "failed", "cancelled", "interrupted"]
_LINES = 20  # of a job's output
_WAIT = "Wait until the job has ended and exit with its exit status. Ctrl-C leaves the job running."


@click.group(cls=CommandGroup)
def jobs() -> None:
    """Run commands in the background: start, watch, cancel and resume them.

    A job is any other nearsay command in a process of its own. One job at a time runs in a library; others
    wait for their turn.

    \b
    Example:
        nearsay jobs start documents add papers papers.jsonl
        nearsay jobs list
    """


@jobs.command("list")
def list_(
    state: str | None = option("Only list jobs in this state.", type=click.Choice(_STATES)),
    collection: str | None = option(
        "Only list jobs about this collection.", metavar="NAME", shell_complete=collection_names
    ),
    limit: int = LIMIT,
    as_json: bool = ROWS,
    place: Place = GROUP,
) -> None:
    """List the jobs, newest first.

    \b
    Example:
        nearsay jobs list --state running
    """
    from nearsay.app.jobs import Jobs, JobState, duration

    with place.open() as library:
        found = Jobs(library).list(None if state is None else JobState(state), collection, limit)
    print_rows(
        found,
        {
            "job": lambda job: str(job.number),
            "state": "state",
            "what": "title",
            "started": lambda job: (job.started_at or "")[:16],
            "took": lambda job: None if (seconds := job.seconds()) is None else duration(seconds),
            "progress": _far,
        },
        as_json=as_json,
        to_json=_facts,
    )


@jobs.command()
def show(
    number: int,
    log: int = option("Number of lines of the log to show.", default=10, least=0),
    whole: bool = option("Show the complete output.", "--all"),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Show a job: its state, progress, results and the end of its log.

    \b
    Example:
        nearsay jobs show 3
        nearsay jobs show 3 --all
    """
    from nearsay.app.jobs import Jobs

    with place.open() as library:
        job = Jobs(library).get(number)
    if whole and as_json:
        for row in job.output():
            click.echo(visible(row)) if isinstance(row, str) else print_json(row)
    elif whole:
        print_result(job)
    elif as_json:
        print_json(_facts(job) | {"log": job.log(log)})
    else:
        _print_facts(job)
        print_result(job, _LINES)
        print_notes(job.log(log))


@jobs.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def start(
    command: tuple[str, ...] = argument(required=True, type=click.UNPROCESSED),
    title: str | None = option("Title to show for the job.", shown="the command"),
    wait: bool = option(_WAIT),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Run COMMAND, any other nearsay command, in the background.

    The job continues when the terminal is closed. Put --library and --database before COMMAND, and its own
    options after it.

    \b
    Example:
        nearsay jobs start documents add papers papers.jsonl --text abstract
        nearsay jobs start --wait train vocabulary novels/ --out my-vocabulary
    """
    from nearsay.app.jobs import JobKind, Jobs

    with place.open(create=True) as library:
        found = Jobs(library)
        job = found.start(JobKind.of(command), command, title=title)
        _follow(found, job, wait=wait, as_json=as_json)


@jobs.command()
def cancel(number: int, as_json: bool = JSON, place: Place = GROUP) -> None:
    """Cancel a job after its current step; repeat the command to stop it at once.

    Results so far are kept, and `nearsay jobs resume` resumes the job.

    \b
    Example:
        nearsay jobs cancel 3
    """
    from nearsay.app.jobs import Jobs

    with place.open() as library:
        job = Jobs(library).cancel(number)
        message = f"job {number} was asked to stop. Check: nearsay jobs show {number}"
        print_done(_facts(job), message, as_json=as_json)


@jobs.command()
def resume(number: int, wait: bool = option(_WAIT), as_json: bool = JSON, place: Place = GROUP) -> None:
    """Resume a job that was cancelled or has failed, as a new job.

    \b
    Example:
        nearsay jobs resume 3
    """
    from nearsay.app.jobs import Jobs

    with place.open() as library:
        found = Jobs(library)
        job = found.resume(number)
        _follow(found, job, wait=wait, as_json=as_json)


@jobs.command()
def remove(
    numbers: tuple[int, ...] = argument("NUMBER…", required=True),
    removal: Removal = GROUP,
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Delete finished jobs with their logs; the files that they created are kept.

    \b
    Example:
        nearsay jobs remove 1 2 --yes
    """
    from nearsay.app.jobs import Jobs

    numbers = tuple(dict.fromkeys(numbers))
    with place.open() as library:
        found = Jobs(library)
        titles = ", ".join(f"{number} ({found.get(number).title})" for number in numbers)
        if removal.may(f"the logs and results of {titles}"):
            found.remove(*numbers)
    removal.print_done("jobs", len(numbers), f"removed {counted(len(numbers), 'job')}", as_json=as_json)


def _follow(found: "Jobs", job: "Job", *, wait: bool, as_json: bool) -> None:
    """Print the state of a job that was started; if it failed, exit with its exit status."""
    if wait:
        try:
            job = found.wait(job.number)
        except KeyboardInterrupt:
            click.echo(err=True)
            print_notes([f"job {job.number} is still running. Stop it: nearsay jobs cancel {job.number}"])
            sys.exit(130)
    if as_json:
        print_json(_facts(job))
    else:
        state = f"{job.state}: {job.message}" if job.message else job.state
        print_notes([f"job {job.number} is {state}. See: nearsay jobs show {job.number}"])
    if job.state.ended and job.state != "done":
        sys.exit(job.exit_code or 1)


def _facts(job: "Job") -> dict[str, object]:
    names = (
        "number", "kind", "state", "title", "collection", "product", "resumes", "pid", "host",
        "created_at", "started_at", "ended_at", "exit_code", "message", "command",
    )  # fmt: skip
    look = job.progress()
    return {name: getattr(job, name) for name in names} | {"progress": None if look is None else asdict(look)}


def _print_facts(job: "Job") -> None:
    known = {name: value for name, value in _facts(job).items() if value is not None}
    # str(): a pid needs no thousands separators, as in 12053.
    rows = [[name.replace("_", " "), str(known[name])] for name in known if name not in ("title", "progress")]
    print_table(["", job.title], rows)
    if far := _far(job):
        click.echo(far)


def _far(job: "Job") -> str:
    look = job.progress()
    if look is None or job.state == "done":
        return ""
    shown = replace(look, seconds_left=None) if job.state.ended else look
    return visible(shown.words() + (", stopping" if job.stopping else ""))


def print_result(job: "Job", first: int | None = None) -> None:
    """Print the output of a job; first: only this many lines, with the command that shows all."""
    from nearsay.app.jobs.results import read_results

    output = job.output(None if first is None else first + 1)
    found = read_results(output[:first])
    print_results(found, whole=first is None)
    for line in found.lines:
        click.echo(visible(line))
    if first is not None and len(output) > first:
        click.echo(in_the_library(f"… all rows: nearsay jobs show {job.number} --all"))
