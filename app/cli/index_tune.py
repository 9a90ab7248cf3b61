"""`nearsay index tune`: the fastest index that keeps the contract."""

from pathlib import Path
from typing import Unpack

import click

from nearsay.app.cli.contract_options import contract_options
from nearsay.app.cli.options import (
    OnCluster,
    Place,
    cluster_options,
    json_option,
    library_options,
    open_library,
)
from nearsay.app.cli.plan_table import print_plan
from nearsay.app.cli.printing import print_json
from nearsay.app.cli.progress_bar import ProgressBar

__all__ = ["optimize", "tune"]


@click.command()
@click.argument("collection")
@contract_options
@click.option(
    "--queries",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Your own queries to measure with: .txt, one a line, or .jsonl. Stored vectors if left out.",
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Also draw it: .png or .svg.")
@json_option
@cluster_options
def tune(
    collection: str,
    recall: str | None,
    memory: str | None,
    queries: Path | None,
    plot: Path | None,
    as_json: bool,
    **place: Unpack[OnCluster],
) -> None:
    """Measure the indexes for COLLECTION and take the fastest that keeps the contract.

    What is said of recall and memory holds from now on; what is not said stays as it was. Stopped at any
    moment, the old index goes on answering. The workers of a cluster take the smallest that keeps it.

    \b
    Example:
        nearsay index tune papers --recall 0.95@10 --memory 2GB
        nearsay index tune papers --queries asked.txt --plot papers.png
    """
    from nearsay.indexer.plans.pareto import plot_format
    from nearsay.indexer.query.query_file import read_queries
    from nearsay.indexer.writing.report_plot import plot_report

    if plot is not None:
        plot_format(plot)  # refused now rather than after the work
    asked = None if queries is None else read_queries(queries)
    with open_library(place) as library, ProgressBar("measuring", unit="candidates") as bar:
        plan = library.collection(collection).tune(recall=recall, memory=memory, queries=asked, progress=bar)
    if plot is not None:
        plot_report(collection, plan, plot)
    if as_json:
        print_json(plan.to_json())
    else:
        print_plan(plan)


@click.command()
@click.argument("collection")
@json_option
@library_options
def optimize(collection: str, as_json: bool, **place: Unpack[Place]) -> None:
    """Make one index of everything in COLLECTION after many additions.

    Additions index what is new by themselves and measure nothing. Where the collection has doubled since its
    index was chosen, it is chosen anew, as `nearsay index tune` does. Searches go on meanwhile.

    \b
    Example:
        nearsay index optimize papers
    """
    with open_library(place) as library, ProgressBar("measuring", unit="candidates") as bar:
        plan = library.collection(collection).optimize(progress=bar)
    if as_json:
        print_json(plan.to_json())
    else:
        print_plan(plan)
