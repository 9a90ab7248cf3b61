"""`nearsay explore`: what a collection says of itself without a query."""

import click

from nearsay.app.cli.command_group import CommandGroup
from nearsay.app.cli.explore_clusters import clusters, rename
from nearsay.app.cli.explore_diverse import diverse
from nearsay.app.cli.explore_duplicates import duplicates
from nearsay.app.cli.explore_map import map_
from nearsay.app.cli.explore_new import new
from nearsay.app.cli.explore_outliers import outliers
from nearsay.app.cli.explore_pairs import pairs
from nearsay.app.cli.explore_time import over_time

__all__ = ["explore"]


@click.group(cls=CommandGroup)
def explore() -> None:
    """Look around in a collection: pairs, duplicates, clusters, maps, samples.

    \b
    Example:
        nearsay explore pairs papers --top 20
    """


explore.add_command(clusters)
explore.add_command(rename)
explore.add_command(outliers)
explore.add_command(diverse)
explore.add_command(over_time)
explore.add_command(new)
explore.add_command(map_)
explore.add_command(pairs)
explore.add_command(duplicates)
