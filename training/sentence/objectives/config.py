"""What an objective may be told."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.training.sentence.objectives.concatenation import Concatenation
from nearsay.training.sentence.objectives.distance import Distance
from nearsay.training.sentence.objectives.kind import ObjectiveKind, usual_objective_kind

__all__ = ["ObjectiveConfig", "default_objective"]

_ONE_DISTANCE: Final = {Distance.EUCLIDEAN: 1.0, Distance.MANHATTAN: 1.0, Distance.COSINE: 0.5}
_SCALED: Final[Mapping[ObjectiveKind, float]] = {
    ObjectiveKind.RANKING: 20.0,
    ObjectiveKind.COSENT: 20.0,
    ObjectiveKind.ANGLE: 20.0,
    ObjectiveKind.SIMCSE: 20.0,  # temperature 0.05
    ObjectiveKind.GUIDED: 100.0,  # temperature 0.01
}
_DISTANCES: Final[Mapping[ObjectiveKind, tuple[Distance, ...]]] = {  # the first is taken if none is named
    ObjectiveKind.TRIPLET: (Distance.EUCLIDEAN, Distance.MANHATTAN, Distance.COSINE),
    ObjectiveKind.CONTRASTIVE: (Distance.COSINE, Distance.EUCLIDEAN, Distance.MANHATTAN),
    ObjectiveKind.TEACHER: (Distance.COSINE, Distance.EUCLIDEAN),
}
_USED_BY: Final[Mapping[str, tuple[ObjectiveKind, ...]]] = {
    "scale": tuple(_SCALED),
    "margin": (ObjectiveKind.TRIPLET, ObjectiveKind.CONTRASTIVE, ObjectiveKind.GUIDED),
    "distance": tuple(_DISTANCES),
    "concatenation": (ObjectiveKind.SOFTMAX,),
    "score_range": (ObjectiveKind.COSINE,),
    "cosine_range": (ObjectiveKind.COSINE,),
    "symmetric": (ObjectiveKind.RANKING,),
    "online": (ObjectiveKind.CONTRASTIVE,),
    "deletion": (ObjectiveKind.TSDAE,),
    "matryoshka": tuple(kind for kind in ObjectiveKind if kind is not ObjectiveKind.TSDAE),
}


@dataclass(frozen=True, slots=True)
class ObjectiveConfig:
    """An objective and its settings; BadInputError for a value that cannot be or that it has no use for."""

    kind: ObjectiveKind
    scale: float | None = None  # factor of the similarity, 1 / temperature; None: 20, guided 100
    margin: float | None = (
        None  # in units of the distance; None: triplet 1 (cosine .5), contrastive .5, guided 0
    )
    distance: Distance | None = None  # None: triplet Euclidean, contrastive and teacher cosine
    concatenation: Concatenation = Concatenation.BOTH_DIFFERENCE  # what the softmax sees of a pair
    score_range: tuple[float, float] | None = None  # lowest and highest score; None: as the data have them
    cosine_range: tuple[float, float] = (0.0, 1.0)  # the cosines that these two scores stand for
    symmetric: bool = False  # ranking: the positive looks for its anchor, too
    online: bool = False  # contrastive: only the hard pairs of a batch count
    deletion: float | None = None  # tsdae: share of words deleted; None: 0.6
    matryoshka: tuple[int, ...] = ()  # the loss is added up over these first dimensions; (): the whole vector

    def __post_init__(self) -> None:
        self._convert()
        self._check_use()
        for name, value in {"scale": self.scale, "margin": self.margin, "deletion": self.deletion}.items():
            if value is not None and not math.isfinite(value):
                raise BadInputError(f"the {name} is {value}; give a finite number, or leave it out")
        if self.scale is not None and self.scale <= 0:
            raise BadInputError(f"the scale is {self.scale}; give a number above 0 (20 is usual)")
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
        for part in fields(self):
            users = _USED_BY.get(part.name)
            if users and self.kind not in users and getattr(self, part.name) != part.default:
                raise BadInputError(
                    f"the objective {self.kind} has no use for {part.name} ({getattr(self, part.name)!r} was "
                    f"given); it belongs to {', '.join(users)}. Leave it out"
                )
        if self.distance is not None and self.distance not in _DISTANCES[self.kind]:
            raise BadInputError(
                f"the objective {self.kind} does not measure by the {self.distance} distance. "
                f"Take one of: {', '.join(_DISTANCES[self.kind])}"
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
        """Give the same with every default filled in, as a run saves it.

        label_range: the data's lowest and highest label, taken as the scale of the scores if none was named
        """
        values: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        values["scale"] = self.scale or _SCALED.get(self.kind)
        if values["distance"] is None and self.kind in _DISTANCES:
            values["distance"] = _DISTANCES[self.kind][0]
        if self.margin is None and self.kind is ObjectiveKind.TRIPLET:
            values["margin"] = _ONE_DISTANCE[values["distance"]]
        if self.margin is None and self.kind is ObjectiveKind.CONTRASTIVE:
            values["margin"] = 0.5
        if self.margin is None and self.kind is ObjectiveKind.GUIDED:
            values["margin"] = 0.0
        if self.deletion is None and self.kind is ObjectiveKind.TSDAE:
            values["deletion"] = 0.6
        if self.score_range is None and self.kind is ObjectiveKind.COSINE:
            values["score_range"] = label_range or (0.0, 1.0)
        return ObjectiveConfig(**values)

    def to_json(self) -> dict[str, JsonValue]:
        """Give what differs from the defaults, for a run's config.json; `from_json` reads it."""
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
                f"the objective's settings {dict(content)} cannot be read ({error}). Mend the value's type"
            ) from error


def default_objective(kind: ExampleKind) -> ObjectiveConfig:
    """Give the objective that is usual for a kind of data; see `usual_objective_kind` for the reasons."""
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
