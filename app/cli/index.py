"""`nearsay index`: how a collection is embedded, indexed and rolled out."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import (
    CommandGroup,
    OnCluster,
    Place,
    cluster_options,
    contract_options,
    dtype_option,
    encoding_options,
    json_option,
    library_options,
    open_library,
)
from nearsay.app.cli.printing import print_json, print_notes, print_plan, print_table
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.quantity import counted, size_words

if TYPE_CHECKING:
    from nearsay.indexer.improving import Candidate, Improvement

__all__ = ["index"]


@click.group(cls=CommandGroup)
def index() -> None:
    """Embed a collection anew, promote and roll back, tune, improve and compact its index.

    \b
    Example:
        nearsay index rebuild papers --encoder ./my-encoder
    """


@index.command()
@click.argument("collection")
@click.option("--encoder", metavar="NAME", help="Embed by this encoder beside the live generation.")
@click.option("--promote", "promote_", is_flag=True, help="Make the new generation live at once.")
@dtype_option
@contract_options
@json_option
@cluster_options
def rebuild(
    collection: str,
    encoder: str | None,
    promote_: bool,
    dtype: str | None,
    recall: str | None,
    memory: str | None,
    as_json: bool,
    **place: Unpack[OnCluster],
) -> None:
    """Embed COLLECTION by another encoder, or mend it.

    With --encoder a new generation is made beside the live one, which goes on answering until `promote`.
    Without, what is damaged or missing in the live one is made anew from the stored text.

    \b
    Example:
        nearsay index rebuild papers --encoder ./my-encoder
        nearsay index rebuild papers --encoder ./my-encoder --cluster auto --workers 8
    """
    with open_library(place) as library, ProgressBar("embedding") as bar:
        target = library.collection(collection, recall=recall, memory=memory, dtype=dtype)
        report = target.rebuild(encoder, progress=bar)
        if promote_ and report.state == "ready":
            target.promote(report.generation)
    if as_json:
        print_json(report)
        return
    state = "live" if promote_ else str(report.state)
    click.echo(
        f"generation {report.generation} is {state}: {counted(report.embedded, 'passage')} embedded, "
        f"{report.truncated:,} cut, {counted(report.mended, 'damaged segment')} mended",
        err=True,
    )
    print_notes(report.notes)
    if state == "ready":
        click.echo(f"Make it live: nearsay index promote {collection}", err=True)


@index.command()
@click.argument("collection")
@click.option("--generation", type=int, metavar="N", help="The newest that is ready if left out.")
@click.option(
    "--gate/--no-gate",
    default=None,
    help="Measure it on the judgements' test part first; done unasked where ten queries of it or more have a "
    "relevant passage.",
)
@click.option(
    "--margin",
    type=click.FloatRange(min=0),
    default=0.05,
    show_default=True,
    help="Of nDCG@10 that the interval of the difference may reach below 0.",
)
@click.option("--force", is_flag=True, help="Promote it though it does not pass; its hits say so.")
@encoding_options
def promote(
    collection: str,
    generation: int | None,
    *,
    gate: bool | None,
    margin: float,
    force: bool,
    **place: Unpack[Place],
) -> None:
    """Make a generation that is ready answer for COLLECTION.

    Where there are judgements it has to pass the gate: the interval of its difference to the live one, on the
    judged queries that nothing learns from, must not reach further below 0 than --margin, and its index must
    keep the recall contract. The interval is right however often one looks and however many one tries.

    \b
    Example:
        nearsay index promote papers
        nearsay index promote papers --gate --margin 0.02
    """
    with open_library(place) as library, ProgressBar("embedding") as bar:
        target = library.collection(collection)
        number = target.promote(generation, gate=gate, margin=margin, force=force, progress=bar)
        measured = next(row.gate for row in target.generations() if row.number == number)
        warnings = target.warnings()
    if measured:
        print_notes([measured["figures"]])
    click.echo(
        f"generation {number} of '{collection}' is live. Back: nearsay index rollback {collection}", err=True
    )
    print_notes(warnings)


@index.command()
@click.argument("collection")
@encoding_options
def rollback(collection: str, **place: Unpack[Place]) -> None:
    """Go back to the generation that was live before.

    \b
    Example:
        nearsay index rollback papers
    """
    with open_library(place) as library, ProgressBar("embedding") as bar:
        target = library.collection(collection)
        number, warnings = target.rollback(progress=bar), target.warnings()
    click.echo(f"generation {number} of '{collection}' is live again", err=True)
    print_notes(warnings)


@index.command()
@click.argument("collection")
@click.option("--drop-retired", is_flag=True, help="Also forget retired generations: no way back to them.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long a replaced file stays for other machines that may have it open. If left out: 3600 with "
    "--database, where several machines may share a library, otherwise 0.",
)
@json_option
@library_options
def compact(
    collection: str, drop_retired: bool, grace: float | None, as_json: bool, **place: Unpack[Place]
) -> None:
    """Merge segments and free the room of what was removed.

    \b
    Example:
        nearsay index compact papers
    """
    with open_library(place) as library:
        report = library.collection(collection).compact(drop_retired=drop_retired, grace=grace)
    if as_json:
        print_json(report)
        return
    dropped = (
        f"{counted(report.vectors_dropped, 'removed vector')} and {counted(report.files_removed, 'file')}"
    )
    click.echo(
        f"{counted(report.segments_before, 'segment')} became {report.segments_after}; {dropped} dropped, "
        f"{size_words(report.bytes_freed + report.catalogue_bytes_freed)} freed",
        err=True,
    )
    print_notes(report.notes)


@index.command()
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


@index.command()
@click.argument("collection")
@json_option
@encoding_options
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


@index.command()
@click.argument("collection")
@click.option("--apply", "apply_", is_flag=True, help="Make what is recommended live, at once.")
@click.option("--undo", is_flag=True, help="Take back what was made live last.")
@click.option(
    "--encoder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Also train the encoder further into this new folder and embed the collection by it; takes minutes.",
)
@json_option
@encoding_options
def improve(
    collection: str,
    *,
    apply_: bool,
    undo: bool,
    encoder: Path | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Learn from the judgements of COLLECTION how its queries are searched for better.

    An adapter of the queries' vectors and a weight of words are fitted to the judgements' training part, and
    measured on its queries held out and on the test part, from which nothing is learned. No passage is
    embedded again, so that what is applied is live within seconds. What gains nothing beyond chance is not
    recommended: to keep what you have is among the candidates.

    With --encoder, the encoder is trained on three quarters of the training part, on titles and sentences of
    the collection, and on general examples. Where it is recommended, its generation waits for `nearsay index
    promote`, which measures it once more.

    \b
    Example:
        nearsay index improve notes
        nearsay index improve notes --apply
        nearsay index improve notes --encoder ./tuned
    """
    if apply_ and undo:
        raise click.UsageError("--apply and --undo are opposites. Leave one out.")
    with open_library(place) as library:
        target = library.collection(collection)
        if undo:
            click.echo(f"taken back: {target.undo_improvement()}", err=True)
            return
        if encoder is None:
            found = target.improve(apply=apply_)
        else:
            from nearsay.indexer.encoder_candidate import improve_with_encoder
            from nearsay.training.run.watch import Watch

            watch = Watch(report=lambda note: print_notes([note]))
            with ProgressBar("embedding") as bar:
                found = improve_with_encoder(target, encoder, apply=apply_, watch=watch, progress=bar)
    if as_json:
        print_json(found)
    else:
        _print(found, collection)


def _print(found: "Improvement", collection: str) -> None:
    print_table(
        [
            "candidate",
            "words",
            "held out of training",
            "interval",
            "test part",
            "95 %",
            "general sets",
            "recall",
            "ms",
            "verdict",
        ],
        [_row(one) for one in found.candidates],
    )
    live = [
        f"{figure:.3f} on {counted(count, 'query', 'queries')} to {what}"
        for figure, count, what in (
            (found.live, found.training_queries, "learn from"),
            (found.live_tested, found.test_queries, "measure on"),
        )
        if figure is not None
    ]
    print_notes([f"as it is: nDCG@10 {', '.join(live)}"] if live else [])
    print_notes(found.notes)
    if found.applied:
        click.echo(f"{found.recommended}: live. Take it back: nearsay index improve {collection} --undo")
    elif found.recommended == found.candidates[0].name:
        click.echo(f"recommended: {found.recommended}")
    else:
        click.echo(
            f"recommended: {found.recommended}. Make it live: nearsay index improve {collection} --apply"
        )


def _row(one: "Candidate") -> list[str]:
    return [
        one.name,
        "" if one.word_weight is None else f"{one.word_weight:g}",
        _signed(one.learned),
        _between(one.learned_low, one.learned_high),
        _signed(one.tested),
        _between(one.tested_low, one.tested_high),
        ", ".join(_signed(general.after - general.before) for general in one.replay),
        "" if one.recall is None else f"{one.recall:.3f}",
        "" if one.milliseconds is None else f"{one.milliseconds:.1f}",
        one.verdict,
    ]


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
