"""The options of `nearsay train sentence` and `nearsay train cross-encoder`."""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
from click.core import ParameterSource

from nearsay.app.cli.options import ENCODER, encoder_named, training_run_options
from nearsay.data.sentence_examples.examples import ExampleKind
from nearsay.training.sentence.cross_encoder.losses import NEGATIVES, CrossLoss
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind

if TYPE_CHECKING:
    from nearsay.training.sentence.fine_tuning.recipe import Recipe, SetRecipe

__all__ = ["LOSSES_OF_PAIRS", "cross_encoder_options", "recipe_of", "sentence_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


class _LossName(click.Choice[str]):
    """A loss by its name, or by one that other libraries have for it: MNRL, CoSENTLoss."""

    def __init__(self, losses: type[ObjectiveKind | CrossLoss]) -> None:
        super().__init__([loss.value for loss in losses])
        self._losses = losses

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 - as click
        try:
            return self._losses(value)
        except ValueError:
            return super().convert(value, param, ctx)


def _setting_option(part: Field[Any]) -> Callable[[Command], Command]:
    """The option for a setting of losses: which use it and what is usual, from their table."""
    name, option = part.name, f"--{part.name.replace('_', '-')}"
    usual: dict[str, list[str]] = {}
    for kind in ObjectiveKind:
        if name in kind.loss.settings:
            usual.setdefault(kind.loss.usual(name), []).append(kind)
    users = [kind for kinds in usual.values() for kind in kinds]
    told = part.metadata["help"]
    if len(users) < len(ObjectiveKind) - 1:
        told += f" For {', '.join(users)}."
    if isinstance(part.default, bool):
        return click.option(option, is_flag=True, help=told)
    defaults = [f"{value} for {', '.join(kinds)}" for value, kinds in usual.items() if value]
    shown = "; ".join(defaults) if len(usual) > 1 else next(iter(usual), "")
    of: dict[str, Any] = {"help": told, "show_default": shown or None}
    if "list" in part.metadata:
        return click.option(option, metavar="N,N", **of)
    if float in get_args(part.type):
        return click.option(option, type=float, **of)
    return click.option(option, metavar="NAME", **of)


_OF_OBJECTIVES = tuple(part for part in fields(ObjectiveConfig) if part.metadata)
_SETTINGS = tuple(part.name for part in _OF_OBJECTIVES)
_POOLINGS = ("cls", "mean", "max", "mean-sqrt-length", "weighted", "last")


def _kind_option(*kinds: ExampleKind) -> Callable[[Command], Command]:
    return click.option(
        "--kind",
        type=click.Choice([kind.value for kind in kinds]),
        help="Kind of the examples.",
        show_default="guessed",
    )


_DATA = (
    click.option(
        "--recipe",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="TOML file with sets and settings; options on the command line take precedence.",
    ),
    click.option(
        "--columns",
        metavar="A,B",
        help="Fields that hold the texts, separated by commas.",
        show_default="guessed",
    ),
    click.option(
        "--label",
        metavar="FIELD",
        help="Field that holds the label or score, or a score for each passage.",
        show_default="guessed",
    ),
    click.option(
        "--sample",
        "rows",
        type=int,
        help="Maximum number of rows of each file, drawn at random.",
        show_default="all",
    ),
    click.option(
        "--dev",
        metavar="SET",
        help=(
            "Judged set to measure on during the training, as in sts:dev.tsv or "
            "sts:dev.tsv:left,right,score. The best checkpoint is kept."
        ),
    ),
    click.option(
        "--evaluate",
        multiple=True,
        metavar="SET",
        help="Judged set to measure on before and after, as in sts:test.tsv. Can be repeated.",
    ),
)
# What both kinds of encoders are trained by.
_GUIDE = click.option(
    "--guide",
    type=ENCODER,
    metavar="ENCODER",
    help=(
        "Encoder that guides or teaches. A teacher encodes the first column, also for the others. Where its "
        "scores are learned (mse, margin-mse, kl), it may be a cross-encoder."
    ),
)
_BASE = click.option(
    "--base",
    type=ENCODER,
    metavar="ENCODER",
    help="Name or folder of the model to start from: a BERT or a sentence encoder; a cross-encoder may also "
    "start from another one.",
    show_default="all-MiniLM-L6-v2",
)
_REVISION = click.option(
    "--revision",
    metavar="NAME",
    help="Branch, tag or commit of the base on the hub.",
    show_default="the main branch",
)
_OBJECTIVE = (
    click.option(
        "--objective",
        type=_LossName(ObjectiveKind),
        help="Loss to train with.",
        show_default="by the kind of the examples",
    ),
    *map(_setting_option, _OF_OBJECTIVES),
    _GUIDE,
)
_STRUCTURE = (
    _BASE,
    click.option(
        "--pooling",
        type=click.Choice(_POOLINGS),
        help="How token vectors are combined into one vector per text.",
        show_default="that of the base, or mean",
    ),
    click.option(
        "--dimension", type=int, help="Number of dimensions of the vectors.", show_default="that of the base"
    ),
    click.option(
        "--normalise/--no-normalise",
        default=None,
        help="Normalise vectors to length 1.",
        show_default="as the base does",
    ),
    click.option(
        "--length", type=int, help="Maximum number of tokens in a sequence.", show_default="that of the base"
    ),
    _REVISION,
    click.option(
        "--query-prompt",
        metavar="TEXT",
        help="Prompt that is put before each query, in training and in use, as in 'query: '.",
        show_default="that of the base",
    ),
    click.option(
        "--passage-prompt",
        metavar="TEXT",
        help="Prompt that is put before each passage, in training and in use, as in 'passage: '.",
        show_default="that of the base",
    ),
)
_TRAINING = (
    click.option(
        "--epochs",
        type=float,
        help="Number of passes over the training data.",
        show_default="by the number of rows",
    ),
    click.option("--steps", type=int, help="Number of training steps."),
    click.option("--minutes", type=float, help="Length of the training in minutes."),
    click.option("--batch", type=int, help="Number of rows in a training step.", show_default="32"),
    click.option("--learning-rate", type=float, help="Peak learning rate.", show_default="2e-5"),
    click.option(
        "--warmup",
        "warmup_share",
        type=float,
        help="Share of the training during which the learning rate rises.",
        show_default="0.1",
    ),
    click.option(
        "--weight-decay",
        type=float,
        help="Weight decay, which spares biases and normalisation layers.",
        show_default="0.01",
    ),
    click.option(
        "--sampling",
        type=click.Choice(["proportional", "round-robin"]),
        help="How steps are divided among several sets.",
        show_default="proportional",
    ),
    click.option(
        "--evaluations", type=float, help="Number of measurements on --dev per epoch.", show_default="1"
    ),
    click.option(
        "--patience",
        type=int,
        help="Number of measurements without improvement after which the training stops.",
        show_default="never",
    ),
    click.option(
        "--training-length",
        type=int,
        help="Maximum number of tokens in a sequence during training.",
        show_default="--length",
    ),
    click.option(
        "--tokens-at-once",
        type=int,
        help="Maximum number of tokens in the model at once; larger batches are computed in parts.",
        show_default="fitted to the device",
    ),
    click.option("--seed", type=int, help="Seed of the random number generator.", show_default="0"),
    click.option(
        "--seeds",
        type=int,
        help="Number of trainings, with consecutive seeds from --seed on.",
        show_default="1",
    ),
    click.option(
        "--lora-rank",
        type=int,
        help="Rank of the low-rank adapters that are trained instead of the whole transformer.",
        show_default="none",
    ),
    click.option(
        "--lora-alpha",
        type=int,
        help="Scale of the adapters: they are weighted by alpha / rank.",
        show_default="twice the rank",
    ),
    click.option(
        "--lora-targets",
        metavar="A,B",
        help="Names of the linear layers that get adapters.",
        show_default="all",
    ),
    training_run_options,
)
_CROSS = (
    click.option(
        "--objective",
        type=_LossName(CrossLoss),
        help="Loss to train with.",
        show_default="by the kind of the examples",
    ),
    click.option(
        "--negatives",
        type=int,
        default=NEGATIVES,
        show_default=True,
        help="Number of texts of other rows that a pair without negatives is ranked above.",
    ),
    _GUIDE,
    _BASE,
    _REVISION,
    click.option(
        "--length",
        type=int,
        help="Maximum number of tokens in a sequence.",
        show_default="that of the base, at most 512",
    ),
)
LOSSES_OF_PAIRS = "Losses: " + "; ".join(f"{loss}, to {loss.row.help}" for loss in CrossLoss) + "."
_OF_ENCODERS = {"recipe", "training_length", "lora_rank", "lora_alpha", "lora_targets"}
_OF_FILES = ("kind", "columns", "label", "rows", "objective", "guide")


def sentence_options(command: Command) -> Command:
    """Every option that a recipe could hold, too."""
    for option in reversed((_kind_option(*ExampleKind), *_DATA, *_OBJECTIVE, *_STRUCTURE, *_TRAINING)):
        command = option(command)
    return command


def cross_encoder_options(command: Command) -> Command:
    """What `sentence_options` has of files, evaluation and training, and a cross-encoder's own."""
    kinds = (kind for kind in ExampleKind if kind is not ExampleKind.TEXTS)
    for option in reversed((_kind_option(*kinds), *_DATA, *_CROSS, *_TRAINING)):
        command = option(command)
    given: list[click.Parameter] = vars(command)["__click_params__"]
    given[:] = [one for one in given if one.name not in _OF_ENCODERS]
    return command


def recipe_of(files: tuple[str, ...], options: Mapping[str, Any]) -> "Recipe":
    """The recipe that the options name, changed by the other options."""
    from nearsay.data.errors import BadInputError
    from nearsay.training.encoder.hardware import Precision
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
        raise BadInputError(f"--{lengths[0]} and --{lengths[1]} both say how long to train. Give one of them")
    recipe = read_recipe(given["recipe"]) if "recipe" in given else Recipe()
    structure = {part.name: given[part.name] for part in fields(EncoderStructure) if part.name in given}
    if "pooling" in structure:
        structure["pooling"] = SentencePooling(structure["pooling"])
    training = {part.name: given[part.name] for part in fields(SentenceTraining) if part.name in given}
    source = click.get_current_context().get_parameter_source("precision")
    if "recipe" in given and source is ParameterSource.DEFAULT:
        training.pop("precision")  # the recipe's
    else:
        training["precision"] = Precision(options["precision"])
    if given["inexact_resume"]:
        training["exact_resume"] = False
    if lengths and lengths != ["minutes"]:
        training.setdefault("minutes", None)  # what a recipe says of it gives way
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
    """A recipe's set, its guide as the library at hand knows it."""
    if one.guide is None:
        return one
    return replace(one, guide=encoder_named(one.guide, click.get_current_context()))


def _require_files(files: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raise BadInputError for options about files when there is no file; a recipe tells its own."""
    from nearsay.data.errors import BadInputError

    if files:
        return
    for name in (*_OF_FILES, *_SETTINGS):
        if given.get(name, False) is not False:
            option = "sample" if name == "rows" else name.replace("_", "-")
            raise BadInputError(
                f"--{option} is for the files that the command names, and there is none. Name a file, or "
                f"write {name} into the recipe's [[set]]"
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
    columns = tuple(given["columns"].split(",")) if "columns" in given else None
    return [
        SetRecipe(
            file,
            objective=objective,
            settings=settings,
            kind=ExampleKind(given["kind"]) if "kind" in given else None,
            columns=columns,
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
