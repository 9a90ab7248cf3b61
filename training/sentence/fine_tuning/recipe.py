"""A recipe: everything that a training needs, in one TOML file."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentenceTraining
from nearsay.training.sentence.objectives.config import ObjectiveConfig

_WORDS: Final = {
    str: "a text in quotes",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}
_TOO_LARGE: Final = 2**63  # for 64 bits: the command line refuses it, too


@dataclass(frozen=True, slots=True)
class SetRecipe:
    """One set: its file, how it is read, and its objective."""

    file: str  # tsv, csv, jsonl, parquet, txt (or .gz), or the folder of a judged corpus
    objective: ObjectiveConfig | None = None  # None: the default for the kind
    # Of the usual objective, when none is named.
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    kind: ExampleKind | None = None  # None: guessed from columns and content
    columns: tuple[str, ...] | None = None  # the fields with the texts; None: guessed
    label: str | None = None  # the field with label or score; None: guessed
    where: Mapping[str, str] = field(default_factory=dict)  # only rows whose fields have exactly these values
    rows: int | None = None  # this many, drawn at random; None: all
    batch: int | None = None  # rows per step; None: the training's
    guide: str | None = None  # the encoder that guides or teaches
    split: str = "train"  # of a judged corpus: whose judgements become pairs; "" = titles and texts

    def __post_init__(self) -> None:
        if self.objective is not None and self.settings:
            raise BadInputError(
                f"{self.file} has an objective, and settings apart from it. Write them together, as in "
                "objective = { kind = 'ranking', scale = 30 }"
            )
        for name, value in {"rows": self.rows, "batch": self.batch}.items():
            if value is not None and value < 1:
                raise BadInputError(f"{name} of {self.file} is {value}; give 1 or more, or leave it out")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A training: sets, base, options and evaluations."""

    sets: tuple[SetRecipe, ...] = ()
    base: str = BUNDLED_NAME  # name or folder of a BERT or sentence encoder
    structure: EncoderStructure = field(default_factory=EncoderStructure)
    training: SentenceTraining = field(default_factory=SentenceTraining)
    dev: str | None = None  # a judged set as for `nearsay evaluate`, "sts:dev.tsv"
    evaluate: tuple[str, ...] = ()  # judged sets to measure before and after
    seeds: int = 1  # number of trainings, with the seeds from `training.seed` on

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise BadInputError(f"seeds is {self.seeds}; give 1 or more")


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe; its file names are relative to its folder.

    Raises BadInputError, naming the setting, for an unknown setting or a wrong type.
    """
    place = Path(path)
    try:
        told = tomllib.loads(place.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read ({error}). Name a recipe file") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{path} is not TOML: {error}. Fix that line") from error
    own = _settings(Recipe).keys() - {"sets", "structure", "training"}
    _require_known(told, [*_settings(SentenceTraining), *sorted(own), "set", "structure"], str(path))
    sets = told.pop("set", [])
    if not isinstance(sets, list):
        raise BadInputError(f"{path}: 'set' is no list of tables. Begin each set with [[set]]")
    numbered = [_read(SetRecipe, one, f"{path}, set {number}") for number, one in enumerate(sets, 1)]
    structure = _read(EncoderStructure, told.pop("structure", {}), f"{path}, structure")
    values = _values(Recipe, {name: told.pop(name) for name in own & told.keys()}, str(path))
    training = _read(SentenceTraining, told, str(path))
    recipe = Recipe(tuple(numbered), structure=structure, training=training, **values)
    folder = place.parent
    return replace(
        recipe,
        sets=tuple(_beside(one, folder) for one in recipe.sets),
        base=_base(recipe.base, folder),
        dev=None if recipe.dev is None else _judged(recipe.dev, folder),
        evaluate=tuple(_judged(one, folder) for one in recipe.evaluate),
    )


def _beside(one: SetRecipe, folder: Path) -> SetRecipe:
    """The set with its file and its guide where the recipe is."""
    guide = None if one.guide is None else _base(one.guide, folder)
    return replace(one, file=str(folder / one.file), guide=guide)


def _read(kind: Any, value: object, place: str) -> Any:  # noqa: ANN401 - what the type says
    """A value as the type of its setting has it; BadInputError, naming the place, where it has another."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kinds = [part for part in parts if part is not NoneType]
        return _read(kinds[0], value, place) if len(kinds) == 1 else value
    if origin is tuple:
        return tuple(_read(parts[0], one, place) for one in (value if isinstance(value, list) else [value]))
    if kind is ObjectiveConfig and isinstance(value, str):
        return ObjectiveConfig.from_json({"kind": value})
    is_table = origin is Mapping or is_dataclass(kind)
    if is_table and not isinstance(value, dict):
        raise BadInputError(f"{place} is {value!r}, no table. Give a table of its settings")
    if isinstance(value, dict) and kind is ObjectiveConfig:
        return ObjectiveConfig.from_json(value)
    if isinstance(value, dict) and origin is Mapping:
        return {name: _read(parts[1], one, f"{place}, {name}") for name, one in value.items()}
    if isinstance(value, dict) and is_table:
        return kind(**_values(kind, value, place))
    if issubclass(kind, StrEnum):
        if value not in [*kind]:
            raise BadInputError(f"{place} is {value!r}. Take one of: {', '.join(kind)}")
        return kind(value)
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise BadInputError(f"{place} is {value!r}. Give {_WORDS[kind]}")
    if isinstance(value, int | float) and abs(value) >= _TOO_LARGE:
        raise BadInputError(f"{place} is {value!r}. Give a number nearer to 0")
    return value


def _values(kind: type, told: Mapping[str, object], place: str) -> dict[str, Any]:
    """The settings of a dataclass from a table."""
    settings = _settings(kind)
    _require_known(told, settings, place)
    if kind is SetRecipe and "file" not in told:
        raise BadInputError(f'{place} names no file. Add file = "pairs.tsv"')
    return {name: _read(settings[name], value, f"{place}, {name}") for name, value in told.items()}


def _require_known(told: Mapping[str, object], known: Collection[str], place: str) -> None:
    for name in told:
        if name not in known:
            raise BadInputError(f"{place}: there is no setting {name!r}. There are: {', '.join(known)}")


def _settings(kind: type) -> dict[str, Any]:
    """The names and types of a dataclass's fields."""
    hints = get_type_hints(kind)
    return {part.name: hints[part.name] for part in fields(kind)}


def _base(name: str, folder: Path) -> str:
    """A folder beside the recipe, or a name as it is."""
    beside = folder / name
    return str(beside) if beside.is_dir() else name


def _judged(spec: str, folder: Path) -> str:
    kind, colon, file = spec.partition(":")
    if colon and kind in set(EvaluationKind):
        return f"{kind}:{folder / file}"
    return str(folder / spec)
