"""`nearsay train sentence`, `cross-encoder` and `adapt`: from examples, or from a collection alone."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.command import FILE, GROUP, argument, command, option
from nearsay.app.cli.options import (
    COLLECTION,
    EVALUATE,
    JSON,
    OUT_ENCODER,
    SEED,
    Encoding,
    Run,
    note,
    trains_encoder,
)
from nearsay.app.cli.printing import print_notes, print_reports
from nearsay.app.cli.sentence_options import (
    KIND,
    LOSSES_OF_PAIRS,
    Adapters,
    CrossModel,
    Data,
    Objective,
    Structure,
    Training,
    flat,
    recipe_of,
)
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.data.sentence_examples.example_kind import ExampleKind

if TYPE_CHECKING:
    from nearsay.training.sentence.fine_tuning.run_recipe import SeedResult
    from nearsay.training.sentence.fine_tuning.settings import SentenceResult


@command()
@trains_encoder
def sentence(
    files: tuple[str, ...] = argument("[FILE]…"),
    out: Path = OUT_ENCODER,
    kind: ExampleKind | None = KIND,
    recipe: Path | None = option(
        "TOML file with sets and settings; options on the command line take precedence.", type=FILE
    ),
    data: Data = GROUP,
    objective: Objective = GROUP,
    structure: Structure = GROUP,
    adapters: Adapters = GROUP,
    training: Training = GROUP,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
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

    options = flat(data, objective, structure, adapters, training, run)
    read = recipe_of(files, {"kind": kind, "recipe": recipe, **options})
    with training.resuming.watched() as watch:
        results = run_recipe(read, out, device=run.device, watch=watch)
    _print(results, as_json=as_json)


@command("cross-encoder", epilog=LOSSES_OF_PAIRS)
def cross_encoder(
    files: tuple[str, ...] = argument("FILE…", required=True),
    out: Path = option("Folder to write the new cross-encoder to."),
    kind: str | None = KIND(
        type=click.Choice([each.value for each in ExampleKind if each is not ExampleKind.TEXTS])
    ),
    data: Data = GROUP,
    model: CrossModel = GROUP,
    training: Training = GROUP,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Train a cross-encoder, which reads a query and a passage together, to rerank passages.

    FILE is as for `nearsay train sentence`, with two texts and a score, an NLI label or a label of 0 and 1;
    two texts that match; anchor, positive and negatives; or the output of `nearsay search -f`, whose scores
    are learned. The kind of data and the loss are detected and reported. --dev and --evaluate take judged
    sets of the kinds reranking, pairs, triplets and sts, and an encoder as the base is measured by its
    cosine. The cross-encoder is used by --rerank and --guide and loads in sentence-transformers. If the
    command is interrupted, running it again resumes it.

    \b
    Example:
        nearsay train cross-encoder hard.jsonl --evaluate reranking:candidates.jsonl --out my-reranker
        nearsay search papers "why is the sky blue" --rerank my-reranker
    """
    from nearsay.training.sentence.cross_encoder.run_cross_encoder import run_cross_encoder

    options = flat(data, model, training, run)
    loss, negatives, length = (options.pop(name) for name in ("objective", "negatives", "length"))
    recipe = recipe_of(files, {"kind": kind, **options})
    with training.resuming.watched() as watch:
        results = run_cross_encoder(
            recipe, out, loss=loss, negatives=negatives, length=length, device=run.device, watch=watch
        )
    _print(results, as_json=as_json)


def _print(results: list["SeedResult"], *, as_json: bool) -> None:
    """What came of the trainings; KeyboardInterrupt when the last was stopped."""
    from nearsay.training.evaluation.judged.reports import OverSeeds, Trained
    from nearsay.training.sentence.fine_tuning.run_recipe import spread_of

    last = results[-1].result
    if last is not None and not last.finished:
        raise KeyboardInterrupt
    if last is not None and not last.leads:
        return  # another of torchrun's processes tells what came of it
    done = [(one, one.result) for one in results if one.result is not None]
    trained: list[Report] = [
        Trained(
            str(one.folder),
            {
                "steps": result.steps,
                "seconds": round(result.seconds, 1),
                "rows_per_second": round(result.pairs_per_second, 1),
                "stopped_early": result.stopped_early,
            },
            seed=one.seed,
            dev=result.dev,
            base_dev=result.base_dev,
            evaluations=tuple(result.changes),
        )
        for one, result in done
    ]
    if len(results) > 1:
        trained.append(OverSeeds(len(results), tuple(spread_of(results))))
    print_reports(trained, as_json=as_json)
    if not as_json:
        print_notes(verdict for _, result in done for verdict in _verdicts(result))


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


@command()
@trains_encoder
def adapt(
    collection: str = COLLECTION,
    out: Path = OUT_ENCODER,
    evaluate: tuple[str, ...] = EVALUATE,
    power: float = option(
        "Strength with which shared directions are weakened, from 0 (not at all) to 1 (entirely).",
        default=0.15,
    ),
    seed: int = SEED(0),
    as_json: bool = JSON,
    place: Encoding = GROUP,
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
    from nearsay.training.evaluation.judged.reading import read_judged_set
    from nearsay.training.run.training_progress import Watch

    tests = [read_judged_set(spec) for spec in evaluate]
    from nearsay.indexer.encoder_candidate import adapt_to_collection  # seconds: after all files
    from nearsay.training.evaluation.judged.reports import Trained
    from nearsay.training.sentence.adaptation.adapt import Adaptation

    options = Adaptation(power=power, precision=place.precision, seed=seed)
    with place.open() as library:
        result = adapt_to_collection(
            library.collection(collection),
            out,
            options=options,
            tests=tests,
            device=place.device,
            watch=Watch(report=note),
        )
    facts = {"adapted": result.adapted, "seconds": round(result.seconds, 1)}
    print_reports([Trained(str(out), facts, evaluations=tuple(result.changes))], as_json=as_json)
    if as_json:
        return
    if result.adapted:
        note(f"the encoder is in {out}. Search with it: nearsay index rebuild {collection} --encoder {out}")
    else:
        note(
            "it is not better than the original, so no encoder was written. Go on with the original, or "
            "judge some results: nearsay train sentence learns from judgements"
        )
