"""`nearsay train sentence`, `cross-encoder` and `adapt`: training on examples, or on a collection alone."""

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
from click.core import ParameterSource

from nearsay.app.cli.command import FILE, GROUP, argument, command, option
from nearsay.app.cli.options import (
    BATCH,
    COLLECTION,
    COLUMNS,
    DEV,
    DIMENSION,
    ENCODER,
    EPOCHS,
    EVALUATE,
    JSON,
    LEARNING_RATE,
    LENGTH,
    MINUTES,
    OUT_ENCODER,
    POOLING,
    SEED,
    STEPS,
    TOKENS_AT_ONCE,
    WARMUP,
    WEIGHT_DECAY,
    Encoding,
    Run,
    TrainingRun,
    encoder_named,
    note,
    trains_encoder,
)
from nearsay.app.cli.printing import print_notes, print_reports
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.cross_encoder.losses import NEGATIVES, CrossLoss
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind

if TYPE_CHECKING:
    from nearsay.training.sentence.fine_tuning.recipe import Recipe, SetRecipe
    from nearsay.training.sentence.fine_tuning.run_recipe import SeedResult
    from nearsay.training.sentence.fine_tuning.settings import SentenceResult


KIND = option("Kind of the examples.", shown="guessed")
_OBJECTIVE = option("Loss to train with.", shown="by the kind of the examples")
_GUIDE = option(
    "Encoder that guides or teaches. A teacher encodes the first column, also for the others. Where its "
    "scores are learned (mse, margin-mse, kl), it may be a cross-encoder.",
    metavar="ENCODER",
    type=ENCODER,
)
_BASE = option(
    "Name or folder of the model to start from: a BERT or a sentence encoder; a cross-encoder may also start "
    "from another one.",
    metavar="ENCODER",
    type=ENCODER,
    shown="all-MiniLM-L6-v2",
)
_REVISION = option("Branch, tag or commit of the base on the hub.", metavar="NAME", shown="the main branch")
LOSSES_OF_PAIRS = "Losses: " + "; ".join(f"{loss}, to {loss.row.help}" for loss in CrossLoss) + "."


@dataclass(frozen=True)
class Data:
    """Data to train and evaluate on."""

    columns: tuple[str, ...] | None = COLUMNS
    label: str | None = option(
        "Field that holds the label or score, or a score for each passage.", metavar="FIELD", shown="guessed"
    )
    rows: int | None = option(
        "Maximum number of rows of each file, drawn at random.", "--sample", shown="all"
    )
    dev: str | None = DEV
    evaluate: tuple[str, ...] = EVALUATE


def _setting(part: Field[Any]) -> tuple[str, Any, Any]:
    """Return the option for a setting of losses; losses that use it and defaults come from their table."""
    usual: dict[str, list[str]] = {}
    for kind in ObjectiveKind:
        if part.name in kind.loss.settings:
            usual.setdefault(kind.loss.usual(part.name), []).append(kind)
    users = [kind for kinds in usual.values() for kind in kinds]
    help_text = part.metadata["help"]
    if len(users) < len(ObjectiveKind) - 1:
        help_text += f" For {', '.join(users)}."
    if isinstance(part.default, bool):
        return part.name, bool, option(help_text)
    defaults = [f"{value} for {', '.join(kinds)}" for value, kinds in usual.items() if value]
    shown = "; ".join(defaults) if len(usual) > 1 else next(iter(usual), "")
    if float in get_args(part.type) and "list" not in part.metadata:
        return part.name, float | None, option(help_text, shown=shown or None)
    metavar = "N,N" if "list" in part.metadata else "NAME"
    return part.name, str | None, option(help_text, shown=shown or None, metavar=metavar)


_OF_OBJECTIVES = tuple(part for part in fields(ObjectiveConfig) if part.metadata)
_SETTINGS = tuple(part.name for part in _OF_OBJECTIVES)
_Settings: Any = make_dataclass("_Settings", [_setting(part) for part in _OF_OBJECTIVES], frozen=True)


@dataclass(frozen=True)
class Objective:
    """The loss of a sentence encoder."""

    objective: ObjectiveKind | None = _OBJECTIVE
    settings: _Settings = GROUP
    guide: str | None = _GUIDE


@dataclass(frozen=True)
class Structure:
    """The architecture of a sentence encoder."""

    base: str | None = _BASE
    pooling: Literal["cls", "mean", "max", "mean-sqrt-length", "weighted", "last"] | None = POOLING(
        shown="that of the base, or mean"
    )
    dimension: int | None = DIMENSION(shown="that of the base")
    normalise: bool | None = option(
        "Normalise vectors to length 1.", "--normalise/--no-normalise", shown="as the base does"
    )
    length: int | None = LENGTH(shown="that of the base")
    revision: str | None = _REVISION
    query_prompt: str | None = option(
        "Prompt that is put before each query, in training and in use, as in 'query: '.",
        metavar="TEXT",
        shown="that of the base",
    )
    passage_prompt: str | None = option(
        "Prompt that is put before each passage, in training and in use, as in 'passage: '.",
        metavar="TEXT",
        shown="that of the base",
    )


@dataclass(frozen=True)
class Adapters:
    """Which weights of a sentence encoder are trained."""

    training_length: int | None = option(
        "Maximum number of tokens in a sequence during training.", shown="--length"
    )
    lora_rank: int | None = option(
        "Rank of the low-rank adapters that are trained instead of the whole transformer.", shown="none"
    )
    lora_alpha: int | None = option(
        "Scale of the adapters: they are weighted by alpha / rank.", shown="twice the rank"
    )
    lora_targets: str | None = option(
        "Names of the linear layers that get adapters.", metavar="A,B", shown="all"
    )


@dataclass(frozen=True)
class Training:
    """Length and optimisation of a training, for both kinds of encoders."""

    epochs: float | None = EPOCHS(shown="by the number of rows")
    steps: int | None = STEPS
    minutes: float | None = MINUTES
    batch: int | None = BATCH(shown="32")
    learning_rate: float | None = LEARNING_RATE(shown="2e-5")
    warmup_share: float | None = WARMUP(shown="0.1")
    weight_decay: float | None = WEIGHT_DECAY(shown="0.01")
    sampling: Literal["proportional", "round-robin"] | None = option(
        "How steps are divided among several sets.", shown="proportional"
    )
    evaluations: float | None = option(
        "Number of measurements on --dev per epoch.", shown="1, without --epochs about 10 in all"
    )
    patience: int | None = option(
        "Number of measurements without improvement after which the training stops.", shown="never"
    )
    tokens_at_once: int | None = TOKENS_AT_ONCE
    seed: int | None = SEED(shown="0")
    seeds: int | None = option("Number of trainings, with consecutive seeds from --seed on.", shown="1")
    resuming: TrainingRun = GROUP


@dataclass(frozen=True)
class CrossModel:
    """Loss and architecture of a cross-encoder."""

    objective: CrossLoss | None = _OBJECTIVE
    negatives: int = option(
        "Number of texts of other rows that a pair without negatives is ranked above.", default=NEGATIVES
    )
    guide: str | None = _GUIDE
    base: str | None = _BASE
    revision: str | None = _REVISION
    length: int | None = LENGTH(shown="that of the base, at most 512")


_OF_FILES = ("kind", "columns", "label", "rows", "objective", "guide")


def flat(*groups: Any) -> dict[str, Any]:  # noqa: ANN401 - dataclasses
    """Return the options of groups, including nested ones, by name."""
    found: dict[str, Any] = {}
    for group in groups:
        for part in fields(group):
            value = getattr(group, part.name)
            found |= flat(value) if is_dataclass(value) else {part.name: value}
    return found


def recipe_of(files: tuple[str, ...], options: Mapping[str, Any]) -> "Recipe":
    """Return the recipe of the options, or a default one, changed by the other options."""
    from nearsay.data.errors import BadInputError
    from nearsay.training.sentence.fine_tuning.recipe import Recipe, read_recipe
    from nearsay.training.sentence.fine_tuning.settings import (
        EncoderStructure,
        SentencePooling,
        SentenceTraining,
    )

    given = {name: value for name, value in options.items() if value is not None}
    _require_files(files, given)
    lengths = [name for name in ("epochs", "steps", "minutes") if name in given]
    if len(lengths) > 1:
        raise BadInputError(f"--{lengths[0]} and --{lengths[1]} both limit the training. Use one of them")
    recipe = read_recipe(given["recipe"]) if "recipe" in given else Recipe()
    structure = {part.name: given[part.name] for part in fields(EncoderStructure) if part.name in given}
    if "pooling" in structure:
        structure["pooling"] = SentencePooling(structure["pooling"])
    training = {part.name: given[part.name] for part in fields(SentenceTraining) if part.name in given}
    source = click.get_current_context().get_parameter_source("precision")
    if "recipe" in given and source is ParameterSource.DEFAULT:
        training.pop("precision")  # the recipe's
    else:
        training["precision"] = options["precision"]
    if given["inexact_resume"]:
        training["exact_resume"] = False
    if lengths and lengths != ["minutes"]:
        training.setdefault("minutes", None)  # overrides the recipe
    if lengths and lengths != ["steps"]:
        training.setdefault("steps", None)
    if "sampling" in training:
        from nearsay.data.sentence_examples.mixing import Sampling

        training["sampling"] = Sampling(training["sampling"])
    changes = {name: given[name] for name in ("base", "dev", "seeds") if name in given}
    changes.setdefault("base", encoder_named(recipe.base, click.get_current_context()))
    if "revision" in given:
        from nearsay.training.sentence.source import at_revision

        changes["base"] = at_revision(changes["base"], given["revision"])
    return replace(
        recipe,
        sets=(*map(_with_guide, recipe.sets), *_sets(files, given)),
        structure=replace(recipe.structure, **structure),
        training=replace(recipe.training, **training),
        evaluate=(*recipe.evaluate, *options["evaluate"]),
        **changes,
    )


def _with_guide(one: "SetRecipe") -> "SetRecipe":
    if one.guide is None:
        return one
    return replace(one, guide=encoder_named(one.guide, click.get_current_context()))


def _require_files(files: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raise BadInputError for options about files if there are none; recipes have their own."""
    from nearsay.data.errors import BadInputError

    if files:
        return
    for name in (*_OF_FILES, *_SETTINGS):
        if given.get(name, False) is not False:
            option = "sample" if name == "rows" else name.replace("_", "-")
            raise BadInputError(
                f"--{option} applies to files on the command line, and there are none. Add a file, or "
                f"set {name} in the recipe's [[set]]"
            )


def _sets(files: tuple[str, ...], given: Mapping[str, Any]) -> list[Any]:
    from nearsay.training.sentence.fine_tuning.recipe import SetRecipe

    settings = {name: given[name] for name in _SETTINGS if given.get(name, False) is not False}
    for part in _OF_OBJECTIVES:
        if "list" in part.metadata and part.name in settings:
            settings[part.name] = _numbers(part, settings[part.name])
    objective = None
    if "objective" in given:
        objective = ObjectiveConfig.from_json({"kind": given["objective"], **settings})
        settings = {}
    return [
        SetRecipe(
            file,
            objective=objective,
            settings=settings,
            kind=ExampleKind(given["kind"]) if "kind" in given else None,
            columns=given.get("columns"),
            label=given.get("label"),
            rows=given.get("rows"),
            guide=given.get("guide"),
        )
        for file in files
    ]


def _numbers(part: Field[Any], text: str) -> list[Any]:
    from nearsay.data.errors import BadInputError

    try:
        return [part.metadata["list"](number) for number in text.split(",")]
    except ValueError as error:
        what = "whole numbers" if part.metadata["list"] is int else "numbers"
        option = part.name.replace("_", "-")
        raise BadInputError(f"--{option} is {text!r}. Give {what}. {part.metadata['help']}") from error


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
    and 1; two texts that match; anchor, positive and negatives; a text and its class; one text per line; or
    the output of `nearsay search -f`. The kind of data and the loss are detected and reported. The encoder
    loads in sentence-transformers. If the command is interrupted, running it again resumes it. For several
    GPUs: torchrun --nproc-per-node 4 -m nearsay.app.cli train …; the GPUs share each batch, and all of its
    rows serve as negatives for each other.

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
        type=click.Choice(
            [each.value for each in ExampleKind if each not in {ExampleKind.TEXTS, ExampleKind.CLASSES}]
        )
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
    """Print the results of the trainings. Raises KeyboardInterrupt if the last was stopped."""
    from nearsay.training.evaluation.judged.reports import OverSeeds, Trained
    from nearsay.training.sentence.fine_tuning.run_recipe import spread_of

    last = results[-1].result
    if last is not None and not last.finished:
        raise KeyboardInterrupt
    if last is not None and not last.leads:
        return  # torchrun's first process prints the results
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
            f"stopped early after {counted(result.steps, 'step')}: no more improvement on the dev set"
        )
    if result.base_kept:
        notes.append("no step was better on the dev set than the base, so the base's weights were kept")
    if not result.dev and not result.changes:
        notes.append("nothing was evaluated; use --dev and --evaluate to measure the gain")
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
    from nearsay.training.evaluation.judged.reading import read_judged_sets
    from nearsay.training.run.training_progress import Watch

    tests = read_judged_sets(evaluate, note)
    from nearsay.indexer.encoder_candidate import adapt_to_collection  # slow: after checking all files
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
            "it is not better than the original, so no encoder was written. Keep the original, or judge "
            "some results: nearsay train sentence learns from judgements"
        )
