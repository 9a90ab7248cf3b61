"""`nearsay cluster`: a Ray cluster on this machine, and collections that a cluster searches."""

from typing import Unpack

import click

from nearsay.app.cli.completion import collection_argument
from nearsay.app.cli.options import CommandGroup, OnCluster, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json
from nearsay.data.quantity import counted, size_words

__all__ = ["cluster"]

_address_option = click.option(
    "--cluster",
    default="auto",
    show_default=True,
    metavar="ADDRESS",
    help=(
        "Address of the Ray cluster: HOST:PORT of its head node, or auto for the one that "
        "RAY_ADDRESS names or that `nearsay cluster up` started."
    ),
)


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Manage a Ray cluster on this machine, and serve collections from a cluster.

    Workers of the cluster embed and build indexes for `nearsay documents add --cluster auto` and `nearsay
    index rebuild --cluster auto`; its shards answer `nearsay search --cluster auto`. The same works with a
    cluster of several machines. Requires the extra: pip install 'nearsay[cluster]'.

    \b
    Example:
        nearsay cluster up --workers 2
        nearsay documents add papers papers.jsonl --cluster auto
        nearsay cluster down
    """


@cluster.command()
@click.option(
    "--workers",
    type=int,
    metavar="N",
    help="Maximum number of workers.",
    show_default="all cores",
)
def up(workers: int | None) -> None:
    """Start a Ray cluster on this machine, secured by a new token.

    The cluster runs until `nearsay cluster down`. The dashboard and usage reports are off. Ray listens on all
    interfaces of the machine but answers only requests with the token, which is stored in a file that only
    you can read.

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
@_address_option
@json_option
def status(cluster: str, *, as_json: bool) -> None:
    """Show the nodes, CPU cores and GPUs of a Ray cluster and how many are free.

    \b
    Example:
        nearsay cluster status
        nearsay cluster status --cluster head.example:6379
    """
    from nearsay.indexer.catalogue.store import Cluster
    from nearsay.indexer.cluster.joining import state_of

    state = state_of(Cluster(cluster))
    if as_json:
        print_json(state)
        return
    click.echo(
        f"{state.address}: {state.nodes} nodes, {state.free_cpus:g} of {state.cpus:g} cores free, "
        f"{state.free_gpus:g} of {state.gpus:g} GPUs"
    )


@cluster.command()
@collection_argument
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of parts that the collection is divided into.",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of processes that hold each part.",
)
@_address_option
@click.option(
    "--worker-cpus", type=float, default=1.0, show_default=True, help="Number of CPU cores of each worker."
)
@json_option
@library_options
def serve(collection: str, shards: int, replicas: int, *, as_json: bool, **place: Unpack[OnCluster]) -> None:
    """Load COLLECTION into the memory of processes on a cluster, which then search it.

    Each process holds a part of the live generation. The processes run until `nearsay cluster release` or
    until the cluster stops them; documents that are added in the meantime are searched as well. Run the
    command again after the index was rebuilt. `nearsay search COLLECTION QUERY --cluster auto` queries them.

    \b
    Example:
        nearsay index rebuild papers --cluster auto
        nearsay cluster serve papers --shards 4
        nearsay search papers "sentence vectors" --cluster auto
    """
    with open_library(place) as library:
        started = library.serve(collection, shards, replicas)
    for state in started:
        if as_json:
            print_json(state)
        else:
            click.echo(
                f"shard {state.shard}, replica {state.replica}: {counted(state.passages, 'passage')}, "
                f"{size_words(state.bytes)} of memory"
            )


@cluster.command()
@collection_argument
@_address_option
@library_options
def release(collection: str, **place: Unpack[OnCluster]) -> None:
    """Stop the processes that serve COLLECTION.

    \b
    Example:
        nearsay cluster release papers
    """
    with open_library(place) as library:
        ended = library.release(collection)
    click.echo(f"{counted(ended, 'process', 'processes')} ended", err=True)


@cluster.command()
def down() -> None:
    """Stop the Ray cluster that `nearsay cluster up` started.

    \b
    Example:
        nearsay cluster down
    """
    from nearsay.indexer.cluster.joining import stop_local

    click.echo(f"the Ray cluster at {stop_local().address} is stopped", err=True)
