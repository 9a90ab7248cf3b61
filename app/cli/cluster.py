"""`nearsay cluster`: a Ray cluster on this machine, and collections that a cluster searches."""

import click

from nearsay.app.cli.command import GROUP, CommandGroup, option
from nearsay.app.cli.options import ADDRESS, COLLECTION, JSON, WORKER_CPUS, WORKERS, Place
from nearsay.app.cli.printing import print_done, print_json
from nearsay.data.quantity import counted, size_words
from nearsay.data.report import Done


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
def up(workers: int | None = WORKERS(shown="all cores"), as_json: bool = JSON) -> None:
    """Start a Ray cluster on this machine, secured by a new token.

    The cluster runs until `nearsay cluster down`. The dashboard and usage reports are off. It listens on the
    loopback interface only, and answers only requests with the token, which is stored in a file that only you
    can read.

    \b
    Example:
        nearsay cluster up --workers 2
    """
    from nearsay.indexer.cluster.local import start_local

    local = start_local(workers)
    text = f"a Ray cluster with {counted(local.workers, 'core')} runs at {local.address}. Use it: "
    print_done(local, text + "--cluster auto. Stop it: nearsay cluster down", as_json=as_json)


@cluster.command()
def status(cluster: str = ADDRESS("auto"), as_json: bool = JSON) -> None:
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
        f"{state.address}: {counted(state.nodes, 'node')}, {state.free_cpus:g} of {state.cpus:g} cores free, "
        f"{state.free_gpus:g} of {state.gpus:g} GPUs"
    )


@cluster.command()
def serve(
    collection: str = COLLECTION,
    shards: int = option("Number of parts that the collection is divided into.", default=2, least=1),
    replicas: int = option("Number of processes that hold each part.", default=1, least=1),
    cluster: str = ADDRESS("auto"),
    worker_cpus: float = WORKER_CPUS,
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
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
    from nearsay.indexer import Cluster

    with place.open(cluster=Cluster(cluster, cpus=worker_cpus)) as library:
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
def release(
    collection: str = COLLECTION,
    cluster: str = ADDRESS("auto"),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Stop the processes that serve COLLECTION.

    \b
    Example:
        nearsay cluster release papers
    """
    from nearsay.indexer import Cluster

    with place.open(cluster=Cluster(cluster)) as library:
        ended = library.release(collection)
    text = f"{counted(ended, 'process', 'processes')} ended"
    print_done(Done("ended", "processes", ended), text, as_json=as_json)


@cluster.command()
def down(as_json: bool = JSON) -> None:
    """Stop the Ray cluster that `nearsay cluster up` started.

    \b
    Example:
        nearsay cluster down
    """
    from nearsay.indexer.cluster.local import stop_local

    local = stop_local()
    print_done(local, f"the Ray cluster at {local.address} is stopped", as_json=as_json)
