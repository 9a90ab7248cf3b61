"""A recipe: everything that a training needs, in one TOML file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.mixing import Sampling
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentencePooling, SentenceTraining
from nearsay.training.sentence.objectives.config import ObjectiveConfig

__all__ = ["Recipe", "SetRecipe", "read_recipe"]

_TABLES: Final = ("set", "structure")


@dataclass(frozen=True, slots=True)
class SetRecipe:
    """One set: where its examples are, how they are read, and what they are for."""

    file: str  # tsv, csv, jsonl, parquet, txt (or .gz), or the folder of a judged corpus
    objective: ObjectiveConfig | None = None  # None: what is usual for the kind
    # Of the usual objective, when none is named.
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    kind: ExampleKind | None = None  # None: guessed from columns and content
    columns: tuple[str, ...] | None = None  # the fields with the texts; None: guessed
    label: str | None = None  # the field with label or score; None: guessed
    where: Mapping[str, str] = field(default_factory=dict)  # only rows whose fields say exactly this
    rows: int | None = None  # so many, drawn by chance; None: all
    batch: int | None = None  # rows of a step; None: the training's
    guide: str | None = None  # the encoder that guides or teaches
    split: str = "train"  # of a judged corpus: which judgements become pairs; "" takes titles and texts

    def __post_init__(self) -> None:
        for name, value in {"rows": self.rows, "batch": self.batch}.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise BadInputError(
                    f"{name} of {self.file} is {value!r}; give a whole number, 1 or more, or leave it out"
                )


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is trained on what, and how it is measured."""

    sets: tuple[SetRecipe, ...] = ()
    base: str = BUNDLED_NAME  # name or folder of a BERT or sentence encoder
    structure: EncoderStructure = field(default_factory=EncoderStructure)
    training: SentenceTraining = field(default_factory=SentenceTraining)
    dev: str | None = None  # a judged set as `nearsay evaluate` takes it, "sts:dev.tsv"
    evaluate: tuple[str, ...] = ()  # judged sets that are measured before and after
    seeds: int = 1  # trainings, with the seeds from `training.seed` on

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise BadInputError(f"seeds is {self.seeds}; give 1 or more")


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe; files in it are relative to its folder.

    Raises BadInputError, naming the setting, for what there is not or what has the wrong type.
    """
    place = Path(path)
    try:
        told = tomllib.loads(place.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read ({error}). Name a recipe file") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{path} is no TOML: {error}. Mend that line") from error
    folder = place.parent
    sets = told.get("set", [])
    if not isinstance(sets, list) or not all(isinstance(one, dict) for one in sets):
        raise BadInputError(f"{path}: 'set' is no list of tables. Begin each set with [[set]]")
    structure = _table(told.get("structure", {}), EncoderStructure, f"{path}, [structure]")
    if (pooling := structure.get("pooling")) is not None:
        structure["pooling"] = _choice(SentencePooling, pooling, f"{path}, pooling")
    own = {name: value for name, value in told.items() if name not in _TABLES}
    named = {part.name for part in fields(Recipe)} - {"sets", "structure", "training"}
    training = {name: value for name, value in own.items() if name not in named}
    training = _table(training, SentenceTraining, str(path), also=[*sorted(named), *_TABLES])
    for name, choices in (("precision", Precision), ("sampling", Sampling)):
        if name in training:
            training[name] = _choice(choices, training[name], f"{path}, {name}")
    values = {name: value for name, value in own.items() if name in named}
    return Recipe(
        sets=tuple(_set(one, folder, f"{path}, set {number}") for number, one in enumerate(sets, 1)),
        base=_base(_text(values.get("base", BUNDLED_NAME), f"{path}, base"), folder),
        structure=_made(EncoderStructure, structure, f"{path}, [structure]"),
        training=_made(SentenceTraining, training, str(path)),
        dev=None if values.get("dev") is None else _judged(values["dev"], folder, f"{path}, dev"),
        evaluate=tuple(
            _judged(one, folder, f"{path}, evaluate") for one in _list(values.get("evaluate", []))
        ),
        seeds=_whole_number(values.get("seeds", 1), f"{path}, seeds"),
    )


def _set(told: Mapping[str, Any], folder: Path, place: str) -> SetRecipe:
    values = _table(told, SetRecipe, place)
    if "file" not in values:
        raise BadInputError(f'{place} names no file. Add file = "pairs.tsv"')
    values["file"] = str(folder / str(values["file"]))
    if (objective := values.get("objective")) is not None:
        settings = {"kind": objective} if isinstance(objective, str) else objective
        if not isinstance(settings, dict):
            raise BadInputError(f"{place}: the objective is {objective!r}; give its name or a table")
        values["objective"] = ObjectiveConfig.from_json(settings)
    if (kind := values.get("kind")) is not None:
        values["kind"] = _choice(ExampleKind, kind, f"{place}, kind")
    if (columns := values.get("columns")) is not None:
        values["columns"] = tuple(str(name) for name in _list(columns))
    if (guide := values.get("guide")) is not None:
        values["guide"] = _base(str(guide), folder)
    made: SetRecipe = _made(SetRecipe, values, place)
    return made


def _table(told: object, kind: type, place: str, also: list[str] | None = None) -> dict[str, Any]:
    """A table whose keys are a dataclass's fields."""
    if not isinstance(told, dict):
        raise BadInputError(
            f"{place} is {told!r}, no table. Write its settings below [structure] or [[set]], one a line"
        )
    known = [part.name for part in fields(kind)]
    for name in told:
        if name not in known:
            listed = ", ".join([*known, *(also or [])])
            raise BadInputError(f"{place}: there is no setting {name!r}. There are: {listed}")
    return dict(told)


def _made(kind: type, values: Mapping[str, Any], place: str) -> Any:  # noqa: ANN401 - any of three dataclasses
    try:
        return kind(**values)
    except TypeError as error:
        raise BadInputError(f"{place}: a value has the wrong type ({error}). Mend it") from error


def _choice(kind: Any, value: object, place: str) -> Any:  # noqa: ANN401 - any StrEnum
    try:
        return kind(value)
    except ValueError as error:
        raise BadInputError(f"{place} is {value!r}. Take one of: {', '.join(kind)}") from error


def _whole_number(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInputError(f"{place} is {value!r}. Give a whole number")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise BadInputError(f"{place} is {value!r}. Give a name or a folder, in quotes")
    return value


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _base(name: str, folder: Path) -> str:
    """A folder beside the recipe, or a name as it is."""
    beside = folder / name
    return str(beside) if beside.is_dir() else name


def _judged(spec: object, folder: Path, place: str) -> str:
    if not isinstance(spec, str):
        raise BadInputError(f'{place} is {spec!r}. Name a file, such as "sts:dev.tsv"')
    kind, colon, file = spec.partition(":")
    if colon and kind in set(EvaluationKind):
        return f"{kind}:{folder / file}"
    return str(folder / spec)
