"""`nearsay cluster`: a Ray cluster on this machine, to try what several do."""

import click

from nearsay.app.cli.command_group import CommandGroup
from nearsay.app.cli.options import json_option
from nearsay.app.cli.printing import print_json

__all__ = ["cluster"]


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Start, look at and stop a Ray cluster on this machine.

    Its workers embed for `index add --cluster auto` and `index rebuild --cluster auto`, as those of a cluster
    of several machines do. It needs the extra: pip install 'nearsay[cluster]'.

    \b
    Example:
        nearsay cluster up --workers 2
        nearsay index add papers papers.jsonl --cluster auto
        nearsay cluster down
    """


@cluster.command()
@click.option("--workers", type=int, metavar="N", help="Cores that it gives away; all of them if left out.")
def up(workers: int | None) -> None:
    """Start a Ray cluster on this machine, with a token of its own.

    It runs until `nearsay cluster down`. The dashboard and usage reports are off. Ray listens on all
    interfaces of the machine; without the token, which only you can read, it answers nothing.

    \b
    Example:
        nearsay cluster up --workers 2
    """
    from nearsay.indexer.cluster.joining import start_local

    local = start_local(workers)
    click.echo(
        f"a Ray cluster with {local.workers} cores runs at {local.address}. Use it: --cluster auto. "
        "Stop it: nearsay cluster down",
        err=True,
    )


@cluster.command()
@click.option(
    "--cluster",
    "address",
    default="auto",
    show_default=True,
    metavar="ADDRESS",
    help="HOST:PORT of its head.",
)
@json_option
def status(address: str, *, as_json: bool) -> None:
    """Say what a Ray cluster has, and what of it is free.

    \b
    Example:
        nearsay cluster status
        nearsay cluster status --cluster head.example:6379
    """
    from nearsay.indexer.catalogue.store import Cluster
    from nearsay.indexer.cluster.joining import state_of

    state = state_of(Cluster(address))
    if as_json:
        print_json(state)
        return
    click.echo(
        f"{state.address}: {state.nodes} nodes, {state.free_cpus:g} of {state.cpus:g} cores free, "
        f"{state.free_gpus:g} of {state.gpus:g} GPUs"
    )


@cluster.command()
def down() -> None:
    """Stop the Ray cluster that `nearsay cluster up` started.

    \b
    Example:
        nearsay cluster down
    """
    from nearsay.indexer.cluster.joining import stop_local

    click.echo(f"the Ray cluster at {stop_local().address} is stopped", err=True)
