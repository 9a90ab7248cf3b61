"""`nearsay cluster`: a Ray cluster on this machine, and collections that a cluster searches."""

from typing import Unpack

import click

from nearsay.app.cli.options import CommandGroup, OnCluster, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json
from nearsay.data.quantity import counted, size_words

__all__ = ["cluster"]

_address_option = click.option(
    "--cluster", default="auto", show_default=True, metavar="ADDRESS", help="HOST:PORT of its head."
)


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Start, look at and stop a Ray cluster on this machine; let a cluster search.

    Its workers embed and build indexes for `nearsay documents add --cluster auto` and `nearsay index rebuild
    --cluster auto`, and its shards answer `nearsay search --cluster auto`, as those of a cluster of several
    machines do. It needs the extra: pip install 'nearsay[cluster]'.

    \b
    Example:
        nearsay cluster up --workers 2
        nearsay documents add papers papers.jsonl --cluster auto
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
@_address_option
@json_option
def status(cluster: str, *, as_json: bool) -> None:
    """Say what a Ray cluster has, and what of it is free.

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
@click.argument("collection")
@click.option("--shards", type=click.IntRange(min=1), default=2, show_default=True, help="How many parts.")
@click.option(
    "--replicas", type=click.IntRange(min=1), default=1, show_default=True, help="Processes for each part."
)
@_address_option
@click.option("--worker-cpus", type=float, default=1.0, show_default=True, help="Cores of each process.")
@json_option
@library_options
def serve(collection: str, shards: int, replicas: int, *, as_json: bool, **place: Unpack[OnCluster]) -> None:
    """Let the processes of a cluster hold a collection in memory and search it.

    Each holds a part of the live generation. They go on when this command ends, until `nearsay cluster
    release` or the cluster ends them; what is added meanwhile is searched, too. Run it again after the index
    was built anew. `nearsay search COLLECTION QUERY --cluster auto` asks them.

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
@click.argument("collection")
@_address_option
@library_options
def release(collection: str, **place: Unpack[OnCluster]) -> None:
    """End the processes that search a collection.

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
