"""`nearsay index`: embedding, indexing and rollout of a collection."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.command import FILE, GROUP, CommandGroup, option
from nearsay.app.cli.options import (
    COLLECTION,
    DTYPE,
    JSON,
    MEMORY,
    NAMED_ENCODER,
    PLOT,
    RECALL,
    ROWS,
    Encoding,
    OnCluster,
    Place,
    Removal,
    note,
)
from nearsay.app.cli.printing import (
    indexed_words,
    print_done,
    print_json,
    print_notes,
    print_reports,
    print_results,
    rows_alone,
)
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.quantity import counted, size_words
from nearsay.data.report import Done

if TYPE_CHECKING:
    from nearsay.indexer.improving import Improvement


@click.group(cls=CommandGroup)
def index() -> None:
    """Re-embed a collection with another encoder, and promote, roll back, tune, improve or compact its index.

    \b
    Example:
        nearsay index rebuild papers --encoder ./my-encoder
    """


@index.command()
def rebuild(
    collection: str = COLLECTION,
    encoder: str | None = NAMED_ENCODER,
    promote_: bool = option("Make the new generation live at once."),
    dtype: str | None = DTYPE,
    recall: str | None = RECALL,
    memory: str | None = MEMORY,
    as_json: bool = JSON,
    place: OnCluster = GROUP,
) -> None:
    """Re-embed COLLECTION with another encoder, or repair it.

    With --encoder, a new generation is built beside the live one, which answers searches until `nearsay index
    promote`. Without it, damaged or missing vectors of the live generation are rebuilt from the stored texts.

    \b
    Example:
        nearsay index rebuild papers --encoder ./my-encoder
        nearsay index rebuild papers --encoder ./my-encoder --cluster auto --workers 8
    """
    from nearsay.indexer.catalogue.generations import GenerationState

    with place.open() as library, ProgressBar("embedding") as bar:
        target = library.collection(collection, recall=recall, memory=memory, dtype=dtype)
        report = target.rebuild(encoder, progress=bar)
        if promote_ and report.state == "ready":
            target.promote(report.generation)
            report = replace(report, state=GenerationState.LIVE)
            measured = next(row.gate for row in target.generations() if row.number == report.generation)
            report = replace(report, notes=(*report.notes, *([measured["figures"]] if measured else [])))
    if as_json:
        print_json(report)
        return
    state = str(report.state)
    click.echo(
        f"generation {report.generation} is {state}: {counted(report.embedded, 'passage')} embedded, "
        f"{report.truncated:,} truncated, {counted(report.mended, 'damaged segment')} repaired",
        err=True,
    )
    print_notes(report.notes)
    if state == "ready":
        print_notes([f"Make it live: nearsay index promote {collection}"])


@index.command()
def promote(
    collection: str = COLLECTION,
    generation: int | None = option(
        "Number of the generation to use.", metavar="N", shown="the newest that is ready"
    ),
    gate: bool | None = option(
        "Require the generation to pass a comparison on the test part of the judgements.",
        "--gate/--no-gate",
        shown="required if ten test queries have a relevant passage",
    ),
    margin: float = option(
        "Loss of nDCG@10 that is tolerated at the lower end of the confidence interval.",
        default=0.05,
        type=click.FloatRange(min=0),
    ),
    force: bool = option("Promote the generation even if it fails the gate; its results are marked."),
    as_json: bool = JSON,
    place: Encoding = GROUP,
) -> None:
    """Make a ready generation of COLLECTION the live one.

    If there are judgements, the generation has to pass a gate: the confidence interval of its difference to
    the live generation, on the test part of the judgements, must not reach below 0 by more than --margin, and
    its index must meet the recall contract. The interval stays valid however often you check and however many
    generations you try.

    \b
    Example:
        nearsay index promote papers
        nearsay index promote papers --gate --margin 0.02
    """
    from nearsay.indexer.writing.rollout import Promotion

    with place.open() as library, ProgressBar("embedding") as bar:
        target = library.collection(collection)
        number = target.promote(generation, gate=gate, margin=margin, force=force, progress=bar)
        measured = next(row.gate for row in target.generations() if row.number == number)
        warnings = target.warnings()
    if measured:
        print_notes([measured["figures"]])
    message = f"generation {number} of '{collection}' is live. Undo it: nearsay index rollback {collection}"
    print_done(Promotion(collection, number, measured or None), message, as_json=as_json)
    print_notes(warnings)


@index.command()
def rollback(collection: str = COLLECTION, as_json: bool = JSON, place: Encoding = GROUP) -> None:
    """Make the previous generation live again.

    \b
    Example:
        nearsay index rollback papers
    """
    from nearsay.indexer.writing.rollout import Promotion

    with place.open() as library, ProgressBar("embedding") as bar:
        target = library.collection(collection)
        number, warnings = target.rollback(progress=bar), target.warnings()
    message = f"generation {number} of '{collection}' is live again"
    print_done(Promotion(collection, number), message, as_json=as_json)
    print_notes(warnings)


@index.command()
def compact(
    collection: str = COLLECTION,
    drop_retired: bool = option("Also delete retired generations, after which a rollback is impossible."),
    grace: float | None = option(
        "Seconds that a replaced file is kept for other machines that may have it open.",
        metavar="SECONDS",
        type=click.FloatRange(min=0),
        shown="3600 with --database, else 0",
    ),
    removal: Removal = GROUP,
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Merge segments and free the space of removed documents.

    \b
    Example:
        nearsay index compact papers
        nearsay index compact papers --drop-retired --dry-run
    """
    with place.open() as library:
        target = library.collection(collection)
        there = target.overview()
        retired = sum(row.state == "retired" for row in there.generations) if drop_retired else 0
        what = f"vectors of {counted(there.removed, 'removed passage')} of '{collection}'"
        if drop_retired:
            what = f"{counted(retired, 'retired generation')} and {what}"
        if not removal.may(what, harmless=not retired):
            kind = "retired generations" if drop_retired else "removed passages"
            removal.print_done(kind, retired if drop_retired else there.removed, "", as_json=as_json)
            return
        report = target.compact(drop_retired=drop_retired, grace=grace)
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
def tune(
    collection: str = COLLECTION,
    recall: str | None = RECALL,
    memory: str | None = MEMORY,
    queries: Path | None = option(
        "File with your own queries to measure with: .txt with one per line, or .jsonl; 73 or more can show "
        "a recall of 0.95. They are stored and used until others are given.",
        metavar="FILE",
        type=FILE,
        shown="those given before, else stored vectors",
    ),
    plot: Path | None = PLOT(metavar="FILE"),
    as_json: bool = ROWS,
    place: OnCluster = GROUP,
) -> None:
    """Measure index types for COLLECTION and use the smallest that meets the recall contract.

    The values of --recall and --memory are stored with the collection; an omitted one keeps its stored value.
    If the command is interrupted, the old index stays in use.

    \b
    Example:
        nearsay index tune papers --recall 0.95@10 --memory 2GB
        nearsay index tune papers --queries asked.txt --plot papers.png
    """
    from nearsay.data.query_file import read_queries
    from nearsay.indexer.plans.plan import TunedPlan
    from nearsay.indexer.writing.report_plot import plot_report

    asked = None if queries is None else read_queries(queries)
    with place.open() as library, ProgressBar("measuring", unit="candidates") as bar:
        plan = library.collection(collection).tune(recall=recall, memory=memory, queries=asked, progress=bar)
    if plot is not None:
        plot_report(collection, plan, plot)
    if rows_alone():
        for row in plan.report:
            print_json(row)
    else:
        print_reports([TunedPlan(collection, plan)], as_json=as_json)


@index.command()
def optimize(
    collection: str = COLLECTION,
    newer: bool = option(
        "Index only the passages added since, once they are a twentieth (on a cluster, a tenth) of the "
        "indexed ones and at least 16,384. Faster."
    ),
    as_json: bool = JSON,
    place: OnCluster = GROUP,
) -> None:
    """Build one index of all passages of COLLECTION: the first one, or a new one after many additions.

    Additions build no index unless requested, and report when one would pay off. The first index of over
    50,000 passages is chosen by measurement as by `nearsay index tune`, and chosen again if the collection
    has doubled. Searches and additions continue meanwhile. With --cluster, workers build it by groups, which
    shards can hold.

    \b
    Examples:
        nearsay index optimize papers
        nearsay index optimize papers --newer
    """
    from nearsay.indexer.plans.plan import TunedPlan

    with place.open() as library, ProgressBar("measuring", unit="candidates") as bar:
        target = library.collection(collection)
        before = target.overview()
        plan = target.optimize(newer=newer, progress=bar)
        found = target.overview()
    changed = (found.live, found.indexes) != (before.live, before.indexes)  # generations have the plan
    if as_json or (changed and plan.report):
        print_reports([TunedPlan(collection, plan)], as_json=as_json)
    elif not changed:
        due = f" after {counted(found.unindexed, 'newer passage')}" if newer and found.indexes else ""
        click.echo(f"no index is due{due}", err=True)
    click.echo(indexed_words(found), err=True)


@index.command()
def improve(
    collection: str = COLLECTION,
    apply_: bool = option("Make the recommended configuration live."),
    undo: bool = option("Withdraw the configuration that was applied last."),
    encoder: Path | None = option(
        "Also train the encoder into this new folder and embed the collection with it, which takes minutes.",
        metavar="FOLDER",
    ),
    as_json: bool = JSON,
    place: Encoding = GROUP,
) -> None:
    """Improve the search of COLLECTION by learning from its judgements.

    An adapter of query vectors and the weight of lexical scores are fitted to the training part of the
    judgements, and measured on held-out queries and on the test part, which is never trained on. No passage
    is embedded again, so an improvement is live within seconds. A candidate without a significant gain is not
    recommended; keeping the current configuration is one of the candidates.

    With --encoder, the encoder is also trained on three quarters of the training part, on titles and
    sentences of the collection, and on general examples. If it is recommended, its generation waits for
    `nearsay index promote`, which measures it once more.

    \b
    Example:
        nearsay index improve notes
        nearsay index improve notes --apply
        nearsay index improve notes --encoder ./tuned
    """
    if apply_ and undo:
        raise click.UsageError("--apply and --undo cannot be combined. Omit one.")
    with place.open() as library:
        target = library.collection(collection)
        if undo:
            message = f"undone: {target.undo_improvement()}"
            print_done(Done("taken back", "improvements", 1), message, as_json=as_json)
            return
        with ProgressBar("encoding", unit="texts") as bar:
            if encoder is None:
                found = target.improve(apply=apply_, progress=bar)
            else:
                from nearsay.indexer.encoder_candidate import improve_with_encoder
                from nearsay.indexer.vectors.progress import Progress
                from nearsay.training.run.training_progress import Watch

                watch = Watch(lambda at: bar(Progress(at.step, at.steps, "training", "steps")), report=note)
                found = improve_with_encoder(target, encoder, apply=apply_, watch=watch, progress=bar)
    if as_json:
        print_json(found)
    else:
        _print(found, collection)


def _print(found: "Improvement", collection: str) -> None:
    from nearsay.app.jobs.results import results_of

    results = results_of([found])
    print_results(results)
    *notes, recommended = results.lines
    print_notes(notes)
    again = f"nearsay index improve {collection}"
    if found.applied:
        recommended += f". Undo it: {again} --undo"
    elif found.recommended != found.candidates[0].name:
        recommended += f". Make it live: {again} --apply"
    click.echo(recommended)
