"""A job's process that knows commands made for tests; as a module, the commands themselves."""

import sys
import time
from pathlib import Path

import click

from nearsay.app.cli.command import GROUP, argument, command, option
from nearsay.app.cli.main import main as nearsay
from nearsay.app.cli.options import JSON, Encoding
from nearsay.app.cli.printing import print_json
from nearsay.app.cli.progress import ProgressBar, stoppable
from nearsay.data.errors import BadInputError
from nearsay.indexer.vectors.progress import Progress

PIPE = click.argument("pipe", type=click.Path(path_type=Path))


@click.group()
def scripted() -> None:
    """What a test wants done."""


@scripted.command()
@PIPE
@click.option("--nap", default=60.0)
def hold(pipe: Path, nap: float) -> None:
    """Say that it is at it, and stay there."""
    pipe.write_text("at it")
    time.sleep(nap)


@scripted.command()
@PIPE
def step(pipe: Path) -> None:
    """Work in steps, and do not end after the one in which it was asked to."""
    with stoppable() as stop:
        pipe.write_text("at it")
        while not stop():
            time.sleep(0.01)
        pipe.write_text("asked")
        time.sleep(60)


@scripted.add_command
@command()
def say(
    words: tuple[str, ...] = argument(),
    out: str | None = option("Where to write."),
    as_json: bool = JSON,
    place: Encoding = GROUP,
) -> None:
    """Print a line a word, and be nearly done."""
    with ProgressBar("saying", unit="words") as bar:
        bar(Progress(3, 4))
    for word in words:
        print_json({"said": word}) if as_json else click.echo(word)
    click.echo(f"device {place.device}, cwd {Path.cwd().name}", err=True)


@scripted.command()
def fail() -> None:
    """Meet what a user can mend."""
    raise BadInputError("there is no bread. Bake some")


@scripted.command("break")
def break_() -> None:
    """Meet a defect."""
    raise KeyError("crumb")


@scripted.command()
def stop() -> None:
    """Be stopped."""
    raise KeyboardInterrupt


@scripted.command()
def ask() -> None:
    """Ask a question."""
    click.confirm("Really?", abort=True)


if __name__ == "__main__":
    from nearsay.app.cli.child import main

    nearsay.add_command(scripted)
    sys.exit(main(sys.argv[1:]))
