"""`nearsay judgements`: what people say of search results."""

import click

from nearsay.app.cli.command_group import CommandGroup
from nearsay.app.cli.judgements_add import add, remove
from nearsay.app.cli.judgements_export import export
from nearsay.app.cli.judgements_list import list_
from nearsay.app.cli.judgements_next import import_, next_

__all__ = ["judgements"]


@click.group(cls=CommandGroup)
def judgements() -> None:
    """Say which passages answer a query; make evaluation and training data of it.

    \b
    Example:
        nearsay judgements add notes "when is the office closed" --hit 1 --relevant
        nearsay judgements next notes --between hybrid dense
        nearsay judgements export notes --as evaluation --out judged
        nearsay evaluate retrieval judged
    """


judgements.add_command(list_)
judgements.add_command(add)
judgements.add_command(remove)
judgements.add_command(next_)
judgements.add_command(import_)
judgements.add_command(export)
