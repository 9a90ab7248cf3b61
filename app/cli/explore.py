"""`nearsay explore`: what a collection says of itself without a query."""

import click

__all__ = ["explore"]


@click.group()
def explore() -> None:
    """Look around in a collection: pairs, duplicates, clusters, maps, samples.

    \b
    Example:
        nearsay explore pairs papers --top 20
    """
