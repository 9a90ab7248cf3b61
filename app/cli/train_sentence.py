"""`nearsay train sentence`, `cross-encoder` and `adapt`: from examples, or from a collection alone."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from nearsay.app.cli.completion import collection_argument
from nearsay.app.cli.options import (
    Place,
    device_options,
    encoding_options,
    json_option,
    open_library,
    trains_encoder,
)
from nearsay.app.cli.printing import print_changes, print_json, print_notes, print_table
from nearsay.app.cli.sentence_options import (
    LOSSES_OF_PAIRS,
    cross_encoder_options,
    recipe_of,
    sentence_options,
)
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.training.run.training_progress import Watch
    from nearsay.training.sentence.adaptation.adapt import AdaptationResult
    from nearsay.training.sentence.fine_tuning.run_recipe import SeedResult
    from nearsay.training.sentence.fine_tuning.settings import SentenceResult

__all__ = ["adapt", "cross_encoder", "sentence"]


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the new encoder to."
)
@sentence_options
@json_option
@device_options
@trains_encoder
def sentence(files: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Train a sentence encoder on pairs, triplets, labels, scores or texts.

    FILE is a tsv, csv, jsonl or parquet (also .gz) with two texts and a score, an NLI label or a label of 0
    and 1; two texts that match; anchor, positive and negatives; one text per line; or the output of `nearsay
    search -f`. The kind of data and the loss are detected and reported. The encoder loads in
    sentence-transformers. If the command is interrupted, running it again resumes it. For several GPUs:
    torchrun --nproc-per-node 4 -m nearsay.app.cli train …; the GPUs share each batch, and all of its rows
    serve as negatives for each other.

    \b
    Example:
        nearsay train sentence stsb/train.tsv --dev sts:stsb/dev.tsv --epochs 4 --out my-encoder
    """
    from nearsay.training.sentence.fine_tuning.run_recipe import run_recipe

    recipe = recipe_of(files, options)
    _watched(
        lambda watch: run_recipe(recipe, out, device=options["device"], watch=watch),
        options["log_to"],
        as_json=as_json,
    )


@click.command("cross-encoder", epilog=LOSSES_OF_PAIRS)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the new cross-encoder to."
)
@cross_encoder_options
@json_option
@device_options
def cross_encoder(files: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Train a cross-encoder, which reads a query and a passage together, to rerank passages.

    FILE is as for `nearsay train sentence`, with two texts and a score, an NLI label or a label of 0 and 1;
    two texts that match; anchor, positive and negatives; or the output of `nearsay search -f`, whose scores
    are learned. The kind of data and the loss are detected and reported. --dev and --evaluate take judged
    sets of the kinds reranking, pairs, triplets and sts, and an encoder as the base is measured by its
    cosine. The cross-encoder is used by --rerank and --guide and loads in sentence-transformers. If the
    command is interrupted, running it again resumes it.

    \b
    Example:
        nearsay train cross-encoder hard.tsv --evaluate reranking:candidates.jsonl --out my-reranker
        nearsay search papers "why is the sky blue" --rerank my-reranker
    """
    from nearsay.training.sentence.cross_encoder.losses import CrossLoss
    from nearsay.training.sentence.cross_encoder.run_cross_encoder import CrossTraining, run_cross_encoder

    named = options.pop("objective")
    loss = None if named is None else CrossLoss(named)
    settings = CrossTraining(loss, options.pop("negatives"), options.pop("length"))
    recipe = recipe_of(files, options)
    _watched(
        lambda watch: run_cross_encoder(recipe, out, settings, device=options["device"], watch=watch),
        options["log_to"],
        as_json=as_json,
    )


def _watched(
    train: Callable[["Watch"], list["SeedResult"]], log_to: tuple[str, ...], *, as_json: bool
) -> None:
    """Train with a progress line and Ctrl-C, and print what came of it."""
    from nearsay.app.cli.progress import TrainingLine, stoppable
    from nearsay.training.run.training_progress import Watch

    with TrainingLine() as line, stoppable() as stop:
        results = train(
            Watch(listener=line, report=lambda note: print_notes([note]), stop=stop, log_to=log_to)
        )
    last = results[-1].result
    if last is not None and not last.finished:
        raise KeyboardInterrupt
    if last is not None and not last.leads:
        return  # another of torchrun's processes tells what came of it
    _print(results, as_json=as_json)


def _print(results: list["SeedResult"], *, as_json: bool) -> None:
    from nearsay.training.evaluation.judged.reports import OverSeeds, Trained
    from nearsay.training.sentence.fine_tuning.run_recipe import spread_of

    for one in results:
        result = one.result
        if result is None:
            continue
        figures = {
            "steps": result.steps,
            "seconds": round(result.seconds, 1),
            "rows_per_second": round(result.pairs_per_second, 1),
        }
        if as_json:
            print_json(
                Trained(
                    str(one.folder),
                    {**figures, "stopped_early": result.stopped_early},
                    seed=one.seed,
                    dev=result.dev,
                    base_dev=result.base_dev,
                    evaluations=tuple(result.changes),
                )
            )
            continue
        rows: list[list[object]] = [[name.replace("_", " "), value] for name, value in figures.items()]
        for name, value in result.dev.items():
            rows.append([f"dev {name}".replace("_", " "), f"{value:.4f}"])
            rows.append(["of the base", f"{result.base_dev.get(name, float('nan')):.4f}"])
        print_table(["", str(one.folder)], rows)
        print_notes(_verdicts(result))
        print_changes(result.changes)
    if len(results) > 1:
        spreads = spread_of(results)
        if as_json:
            print_json(OverSeeds(len(results), tuple(spreads)))
        else:
            click.echo()
            shown = [[one.set, f"{one.mean:.4g}", f"{one.standard_deviation:.2g}"] for one in spreads]
            print_table([f"{len(results)} seeds", "mean", "deviation"], shown)


def _verdicts(result: "SentenceResult") -> list[str]:
    notes = []
    if result.stopped_early:
        notes.append(
            f"ended early, after {counted(result.steps, 'step')}: the dev set did not get better any more"
        )
    if result.dev and result.dev == result.base_dev:
        notes.append("no step was better on the dev set than the base, whose weights were kept")
    if not result.dev and not result.changes:
        notes.append("nothing was measured; --dev and --evaluate say what the training was worth")
    return notes


@click.command()
@collection_argument
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the new encoder to."
)
@click.option(
    "--evaluate",
    multiple=True,
    metavar="SET",
    help="Judged set to measure on before and after, as in sts:test.tsv. Can be repeated.",
)
@click.option(
    "--power",
    type=float,
    default=0.15,
    show_default=True,
    help="Strength with which shared directions are weakened, from 0 (not at all) to 1 (entirely).",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random number generator.")
@json_option
@encoding_options
@trains_encoder
def adapt(
    collection: str,
    out: Path,
    evaluate: tuple[str, ...],
    *,
    power: float,
    seed: int,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Adapt the encoder of COLLECTION to its documents, without labels, in about a minute.

    A linear layer after the encoder weakens the directions that all passages share. It is evaluated on
    pseudo-queries (titles, sentences and salient words), on the judgements of the collection, on general
    texts, and on each --evaluate. The new encoder is written only if it is better. The collection is not
    changed: use `nearsay index rebuild` with the new encoder.

    \b
    Example:
        nearsay train adapt papers --out my-encoder
        nearsay index rebuild papers --encoder my-encoder
    """
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.evaluation.judged.reading import read_judged_set
    from nearsay.training.run.training_progress import Watch

    tests = [read_judged_set(spec) for spec in evaluate]
    from nearsay.indexer.encoder_candidate import adapt_to_collection  # seconds: after all files
    from nearsay.training.sentence.adaptation.adapt import Adaptation

    options = Adaptation(power=power, precision=Precision(place["precision"]), seed=seed)
    with open_library(place) as library:
        result = adapt_to_collection(
            library.collection(collection),
            out,
            options=options,
            tests=tests,
            device=place["device"],
            watch=Watch(report=lambda note: print_notes([note])),
        )
    _adapt_print(result, out, collection, as_json=as_json)


def _adapt_print(result: "AdaptationResult", out: Path, collection: str, *, as_json: bool) -> None:
    from nearsay.training.evaluation.judged.reports import Trained

    if as_json:
        facts = {"adapted": result.adapted, "seconds": round(result.seconds, 1)}
        print_json(Trained(str(out), facts, evaluations=tuple(result.changes)))
        return
    print_changes(result.changes)
    if result.adapted:
        click.echo(
            f"the encoder is in {out}. Search with it: nearsay index rebuild {collection} --encoder {out}",
            err=True,
        )
    else:
        click.echo(
            "it is not better than the original, so no encoder was written. Go on with the original, or "
            "judge some results: nearsay train sentence learns from judgements",
            err=True,
        )
