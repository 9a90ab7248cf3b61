"""`nearsay jobs`: long work in the background."""

import sys
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.command import GROUP, CommandGroup, argument, option
from nearsay.app.cli.options import JSON, LIMIT, ROWS, Place, Removal
from nearsay.app.cli.printing import print_json, print_notes, print_results, print_table
from nearsay.data.document import visible

if TYPE_CHECKING:
    from nearsay.app.runs import Run, Runs

__all__ = ["jobs"]

_STATES = ["waiting", "running", "done", "failed", "cancelled", "interrupted"]
_LINES = 20  # of what a run printed, beside the rest that is shown of it
_WAIT = "Come back when it has ended, with its exit status. Ctrl-C leaves it going on."


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
    collection: str | None = option("Only list jobs about this collection.", metavar="NAME"),
    limit: int = LIMIT,
    as_json: bool = ROWS,
    place: Place = GROUP,
) -> None:
    """List the jobs, the newest first.

    \b
    Example:
        nearsay jobs list --state running
    """
    from nearsay.app.runs import Runs

    with place.open() as library:
        found = Runs(library).list(state, collection, limit)
    if as_json:
        for run in found:
            print_json(_facts(run))
        return
    print_table(
        ["run", "state", "what", "begun", "minutes", "progress"],
        [
            [str(run.number), run.state, run.title, run.created_at[:16], _minutes(run), _far(run)]
            for run in found
        ],
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
    from nearsay.app.runs import Runs

    with place.open() as library:
        run = Runs(library).get(number)
    if whole and as_json:
        for row in run.output():
            click.echo(visible(row)) if isinstance(row, str) else print_json(row)
    elif whole:
        print_result(run)
    elif as_json:
        print_json(_facts(run) | {"log": run.log(log)})
    else:
        _print_facts(run)
        print_result(run, _LINES)
        print_notes(run.log(log))


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
    from nearsay.app.runs import RunKind, Runs

    with place.open(create=True) as library:
        found = Runs(library)
        run = found.start(RunKind.of(command), command, title=title)
        _told(_waited(found, run) if wait else run, as_json=as_json)


@jobs.command()
def cancel(number: int, place: Place = GROUP) -> None:
    """Cancel a job after its current step; repeat the command to stop it at once.

    Results so far are kept, and `nearsay jobs resume` resumes the job.

    \b
    Example:
        nearsay jobs cancel 3
    """
    from nearsay.app.runs import Runs

    with place.open() as library:
        Runs(library).cancel(number)
    click.echo(f"run {number} was asked to stop. Whether it has: nearsay jobs show {number}", err=True)


@jobs.command()
def resume(number: int, wait: bool = option(_WAIT), as_json: bool = JSON, place: Place = GROUP) -> None:
    """Resume a job that was cancelled or has failed, as a new job.

    \b
    Example:
        nearsay jobs resume 3
    """
    from nearsay.app.runs import Runs

    with place.open() as library:
        found = Runs(library)
        run = found.resume(number)
        _told(_waited(found, run) if wait else run, as_json=as_json)


@jobs.command()
def remove(
    numbers: tuple[int, ...] = argument("NUMBER…", required=True),
    removal: Removal = GROUP,
    place: Place = GROUP,
) -> None:
    """Delete finished jobs with their logs; the files that they made are kept.

    \b
    Example:
        nearsay jobs remove 1 2 --yes
    """
    from nearsay.app.runs import Runs

    with place.open() as library:
        found = Runs(library)
        titles = ", ".join(f"{number} ({found.get(number).title})" for number in numbers)
        if removal.may(f"the logs and results of {titles}"):
            for number in numbers:
                found.remove(number)


def _waited(found: "Runs", run: "Run") -> "Run":
    try:
        return found.wait(run.number)
    except KeyboardInterrupt:
        click.echo(f"\nrun {run.number} goes on. Stop it: nearsay jobs cancel {run.number}", err=True)
        sys.exit(130)


def _told(run: "Run", *, as_json: bool) -> None:
    """Say what became of a run that was started; ends with its exit status if it failed."""
    if as_json:
        print_json(_facts(run))
    else:
        state = f"{run.state}: {run.message}" if run.message else run.state
        click.echo(f"run {run.number} is {visible(state)}. See: nearsay jobs show {run.number}", err=True)
    if run.state.ended and run.state != "done":
        sys.exit(run.exit_code or 1)


def _facts(run: "Run") -> dict[str, object]:
    names = (
        "number", "kind", "state", "title", "collection", "product", "resumes", "pid", "host",
        "created_at", "started_at", "ended_at", "exit_code", "message", "command",
    )  # fmt: skip
    look = run.progress()
    return {name: getattr(run, name) for name in names} | {"progress": None if look is None else asdict(look)}


def _print_facts(run: "Run") -> None:
    """A table of what a run is, and a line of how far it is."""
    known = {name: value for name, value in _facts(run).items() if value is not None}
    # A pid and an exit status are no amounts: 12053, as `kill` takes it.
    rows = [[name.replace("_", " "), str(known[name])] for name in known if name not in ("title", "progress")]
    print_table(["", run.title], rows)
    if far := _far(run):
        click.echo(far)


def _minutes(run: "Run") -> str:
    if run.started_at is None or (run.ended_at is None and run.state.ended):
        return ""
    begun = datetime.fromisoformat(run.started_at)
    ended = datetime.now(begun.tzinfo) if run.ended_at is None else datetime.fromisoformat(run.ended_at)
    return f"{(ended - begun).total_seconds() / 60:.1f}"


def _far(run: "Run") -> str:
    """How far a run is, in words."""
    look = run.progress()
    if look is None or run.state == "done":
        return ""
    of = "" if look.total is None else f" of {look.total:,}"
    share = "" if look.share is None else f" ({look.share:.0%})"
    left = ""
    if look.seconds_left is not None and not run.state.ended:
        left = f", {int(look.seconds_left) // 60}:{int(look.seconds_left) % 60:02} left"
    asked = ", stopping" if run.stopping else ""
    if not look.done and look.total is None:
        return visible(f"{look.doing} …{asked}")
    return visible(f"{look.doing}: {look.done:,}{of} {look.unit}{share}{left}{asked}")


def print_result(run: "Run", first: int | None = None) -> None:
    """Print what a run printed; first: only so many lines of it, and how to see all of them."""
    from nearsay.app.runs import RunKind
    from nearsay.app.runs.results import read_results
    from nearsay.indexer import AddReport
    from nearsay.indexer.results import newest

    output = run.output(None if first is None else first + 1)
    if run.kind is RunKind.ADD and run.collection:
        added = newest(output, AddReport)
        if added is not None:
            for line in added.lines(run.collection):
                click.echo(visible(line))
            return
    found = read_results(output[:first])
    print_results(found)
    for line in found.lines:
        click.echo(visible(line))
    if first is not None and len(output) > first:
        click.echo(f"… all rows: nearsay jobs show {run.number} --all")
