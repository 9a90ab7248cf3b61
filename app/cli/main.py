"""The command's root: its groups, and how it ends.

Exit status 0: done, no hits included. 1: a known error, one clear line with its remedy. 2: usage.
130: stopped by the user.
"""

import sys
from typing import Any

import click

from nearsay.app.cli.bert import bert
from nearsay.app.cli.cluster import cluster
from nearsay.app.cli.collections import collections
from nearsay.app.cli.demo import demo
from nearsay.app.cli.doctor import doctor
from nearsay.app.cli.documents import documents
from nearsay.app.cli.encoders import encoders
from nearsay.app.cli.evaluate import evaluate
from nearsay.app.cli.explore import explore
from nearsay.app.cli.index import index
from nearsay.app.cli.jobs import jobs
from nearsay.app.cli.judgements import judgements
from nearsay.app.cli.options import CommandGroup
from nearsay.app.cli.printing import visible
from nearsay.app.cli.search import search, similar
from nearsay.app.cli.train import train
from nearsay.app.cli.ui import ui
from nearsay.data.errors import NearsayError

__all__ = ["main"]


class _Root(CommandGroup):
    """Turns what a user can mend into one line and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        try:
            return super().invoke(ctx)
        except NearsayError as error:
            raise click.ClickException(visible(" ".join(str(error).split()))) from error
        except KeyboardInterrupt:
            click.echo(
                "\nStopped. What was written is kept: the same command does what is missing.", err=True
            )
            sys.exit(130)


@click.group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="nearsay", prog_name="nearsay")
def main() -> None:
    """Find the sentences that say nearly the same.

    \b
    Begin:
        nearsay demo
        nearsay documents add notes my-notes/
        nearsay search notes "what did we decide about holidays"
    """


for command in (
    demo,
    collections,
    documents,
    index,
    search,
    similar,
    explore,
    judgements,
    train,
    evaluate,
    encoders,
    bert,
    jobs,
    cluster,
    ui,
    doctor,
):
    main.add_command(command)
