"""What an objective may be told."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.table import Distance, ObjectiveKind, usual_objective_kind


class Concatenation(StrEnum):
    """Which vectors the softmax objective sees side by side; |u-v| and u*v are taken in each dimension.

    Reimers & Gurevych 2019, table 6, https://arxiv.org/abs/1908.10084
    """

    BOTH = "u,v"
    DIFFERENCE = "|u-v|"
    PRODUCT = "u*v"
    DIFFERENCE_PRODUCT = "|u-v|,u*v"
    BOTH_PRODUCT = "u,v,u*v"
    BOTH_DIFFERENCE = "u,v,|u-v|"  # the paper's best
    ALL = "u,v,|u-v|,u*v"

    @property
    def both(self) -> bool:
        """Whether u and v themselves are in it."""
        return self.startswith("u,v")

    @property
    def difference(self) -> bool:
        """Whether |u-v| is in it."""
        return "|u-v|" in self

    @property
    def product(self) -> bool:
        """Whether u*v is in it."""
        return "u*v" in self

    @property
    def vectors(self) -> int:
        """How many vectors lie side by side."""
        return 2 * self.both + self.difference + self.product


@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    """An objective and its settings; BadInputError for a value that cannot be or that it has no use for."""

    kind: ObjectiveKind
    # None: what the table of losses has. The command line and the page's form make an option of each.
    scale: float | None = field(
        default=None, metadata={"help": "Factor of the cosine similarities, the inverse of the temperature."}
    )
    margin: float | None = field(
        default=None,
        metadata={"help": "Minimum difference between the distances of a negative and a positive."},
    )
    distance: Distance | None = field(
        default=None, metadata={"help": "Distance between vectors: euclidean, manhattan or cosine."}
    )
    concatenation: Concatenation = field(
        default=Concatenation.BOTH_DIFFERENCE,
        metadata={"help": "Vectors that represent a pair, as in u,v,|u-v|."},
    )
    score_range: tuple[float, float] | None = field(
        default=None, metadata={"help": "Lowest and highest score of the data, as in 0,5.", "list": float}
    )
    cosine_range: tuple[float, float] = field(
        default=(0.0, 1.0),
        metadata={
            "help": "Cosine similarities that the lowest and highest score stand for, as in -1,1.",
            "list": float,
        },
    )
    symmetric: bool = field(default=False, metadata={"help": "Also rank anchors for each positive."})
    online: bool = field(default=False, metadata={"help": "Only train on the hard pairs of a batch."})
    teacher_temperature: float | None = field(
        default=None, metadata={"help": "Temperature that the teacher's scores are divided by."}
    )
    deletion: float | None = field(default=None, metadata={"help": "Share of the words to delete."})
    matryoshka: tuple[int, ...] = field(
        default=(),
        metadata={
            "help": "Numbers of leading dimensions that are trained to work alone, as in 384,128.",
            "list": int,
        },
    )

    def __post_init__(self) -> None:
        self._convert()
        self._check_use()
        for name in ("scale", "margin", "deletion", "teacher_temperature"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise BadInputError(f"the {name} is {value}; give a finite number, or leave it out")
        if self.scale is not None and self.scale <= 0:
            raise BadInputError(f"the scale is {self.scale}; give a number above 0 (20 is usual)")
        if self.teacher_temperature is not None and self.teacher_temperature <= 0:
            raise BadInputError(
                f"the teacher_temperature is {self.teacher_temperature}; give a number above 0"
            )
        if self.margin is not None and self.margin < 0:
            raise BadInputError(f"the margin is {self.margin}; give 0 or a number above it")
        if self.deletion is not None and not 0 <= self.deletion < 1:
            raise BadInputError(f"deletion is {self.deletion}; give a share from 0 to below 1 (0.6 is usual)")
        _check_range("score_range", self.score_range)
        _check_range("cosine_range", self.cosine_range)
        if self.cosine_range[0] < -1 or self.cosine_range[1] > 1:
            raise BadInputError(f"the cosine_range is {self.cosine_range}; cosines go from -1 to 1")
        self._check_dimensions()

    def _convert(self) -> None:
        """Turn words into choices and lists into tuples, as JSON gives them."""
        for name, choices in (
            ("kind", ObjectiveKind),
            ("distance", Distance),
            ("concatenation", Concatenation),
        ):
            value = getattr(self, name)
            if value is None and name == "distance":
                continue
            try:
                object.__setattr__(self, name, choices(value))
            except ValueError as error:
                what = "objective" if name == "kind" else name
                raise BadInputError(
                    f"there is no {what} {value!r}. Take one of: {_listed(choices)}"
                ) from error
        for name in ("symmetric", "online"):
            if not isinstance(value := getattr(self, name), bool):
                raise BadInputError(f"{name} is {value!r}; give true or false")
        for name in ("score_range", "cosine_range", "matryoshka"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))

    def _check_use(self) -> None:
        uses = self.kind.loss.settings
        for part in fields(self):
            if part.name in ("kind", *uses) or getattr(self, part.name) == part.default:
                continue
            users = [other for other in ObjectiveKind if part.name in other.loss.settings]
            raise BadInputError(
                f"the objective {self.kind} has no use for {part.name} ({getattr(self, part.name)} was "
                f"given); it belongs to {', '.join(users)}. Leave it out"
            )
        if self.distance is not None and self.distance not in self.kind.loss.distances:
            raise BadInputError(
                f"the objective {self.kind} does not measure by the {self.distance} distance. "
                f"Take one of: {', '.join(self.kind.loss.distances)}"
            )

    def _check_dimensions(self) -> None:
        dims = self.matryoshka
        if any(isinstance(dim, bool) or not isinstance(dim, int) or dim < 1 for dim in dims):
            raise BadInputError(f"matryoshka holds {dims}; give whole numbers of dimensions, 1 or more")
        if list(dims) != sorted(set(dims), reverse=True):
            raise BadInputError(
                f"the matryoshka dimensions {dims} do not descend. "
                f"Give {','.join(map(str, sorted(set(dims), reverse=True)))}"
            )

    def resolved(self, label_range: tuple[float, float] | None = None) -> "ObjectiveConfig":
        """Return the same with every default filled in, as a run saves it.

        label_range: the data's lowest and highest label or score, which what the table leaves to the data
            follows: the scale of the scores, a margin's scale, a teacher's temperature
        """
        values: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        loss = self.kind.loss
        if "score_range" in loss.settings and self.score_range is None:
            values["score_range"] = label_range or (0.0, 1.0)
        if self.distance is None:
            values["distance"] = next(iter(loss.distances), None)
        if self.margin is None:
            values["margin"] = loss.distances.get(values["distance"])
        for name, usual in loss.defaults.items():
            values[name] = usual if values[name] is None else values[name]
        spread = (label_range[1] - label_range[0] if label_range else 0.0) or 1.0
        if "scale" in loss.defaults and values["scale"] is None:
            values["scale"] = spread
        if "teacher_temperature" in loss.defaults and values["teacher_temperature"] is None:
            values["teacher_temperature"] = spread / values["scale"]
        return ObjectiveConfig(**values)

    def to_json(self) -> dict[str, JsonValue]:
        """Return what differs from the defaults, for a run's config.json; `from_json` reads it."""
        told: dict[str, JsonValue] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if part.name == "kind" or value != part.default:
                told[part.name] = list(value) if isinstance(value, tuple) else value
        return told

    @classmethod
    def from_json(cls, content: Mapping[str, JsonValue]) -> "ObjectiveConfig":
        """Read what `to_json` gave; BadInputError for a setting that there is not, or of a wrong type."""
        known = [part.name for part in fields(cls)]
        if unknown := sorted(set(content) - set(known)):
            raise BadInputError(f"an objective has no setting {unknown[0]!r}; it has {', '.join(known)}")
        if "kind" not in content:
            raise BadInputError(
                f"{dict(content)} names no objective. Give kind: one of {', '.join(ObjectiveKind)}"
            )
        values: dict[str, Any] = dict(content)
        try:
            return cls(**values)
        except TypeError as error:
            raise BadInputError(
                f"the objective's settings {dict(content)} cannot be read ({error}). Fix the value's type"
            ) from error


def default_objective(kind: ExampleKind) -> ObjectiveConfig:
    """Return the objective that is usual for a kind of data; see `usual_objective_kind` for the reasons."""
    return ObjectiveConfig(usual_objective_kind(kind))


def _listed(choices: Iterable[str]) -> str:
    """Choices for a message; in quotes where they hold commas themselves."""
    names = [str(choice) for choice in choices]
    return ", ".join(map(repr, names) if any("," in name for name in names) else names)


def _check_range(name: str, ends: tuple[float, float] | None) -> None:
    if ends is None:
        return
    if len(ends) != 2 or not all(map(math.isfinite, ends)) or not ends[0] < ends[1]:
        raise BadInputError(f"the {name} is {ends}; give two numbers, the lower first, such as 0 and 5")
