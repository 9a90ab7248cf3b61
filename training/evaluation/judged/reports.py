"""What measuring on a judged set and what a training report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from nearsay.data.document import JsonValue
from nearsay.data.report import Report, column
from nearsay.training.evaluation.judged.judged_set import EvaluationKind


@dataclass(frozen=True, slots=True)
class Evaluation(Report):
    """What an encoder reached on a judged set; its JSON has each figure under its own name, too."""

    REPORT: ClassVar = "evaluation"

    encoder: str
    name: str  # of the set
    kind: EvaluationKind
    details: Mapping[str, JsonValue]  # counts and settings beside the figures
    metrics: Mapping[str, float]  # by name; correlations times 100, everything else 0 to 1
    main: str  # the name of the figure that decides
    interval: tuple[float, float]  # of that figure, by the bootstrap
    interval_level: float
    interval_draws: int
    seed: int
    truncated: int  # texts that were cut at the encoder's length limit
    seconds: float

    @property
    def figure(self) -> float:
        """The figure that decides."""
        return self.metrics[self.main]

    def to_json(self) -> dict[str, JsonValue]:
        """See `Report`."""
        return {"report": self.REPORT, **self.details, **self.metrics, **Report.to_json(self)}


@dataclass(frozen=True, slots=True)
class ComparedSet(Report):
    """What one encoder of several reached on a judged set, or the error that it ended with."""

    REPORT: ClassVar = "compared set"

    set: str
    kind: str  # an `EvaluationKind`
    encoder: str
    error: str | None = None
    items: int | None = None  # None, as the figures below, where nothing was measured
    main: str = ""  # the name of the figure that decides
    figure: float | None = None
    interval: tuple[float, float] | None = None  # of the figure, by the bootstrap
    interval_level: float | None = None
    difference_to_first: tuple[float, float] | None = None  # its interval; None for the first encoder
    best: bool = False  # whether no encoder reached more on the set
    metrics: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    truncated: int = 0  # texts that were cut at the encoder's length limit
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ComparedEncoder(Report):
    """What an encoder of a comparison costs; None where it was not measured."""

    REPORT: ClassVar = "compared encoder"

    encoder: str
    source: str  # what loads it again
    dimension: int
    max_tokens: int  # of a passage
    parameters: int | None = None
    megabytes: float | None = None  # of its weight files, 10⁶ bytes
    sentences_a_second: float | None = None  # median of the rounds
    sentences_a_second_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LayerScore(Report):
    """What one choice of layers and pooling of a BERT reached."""

    REPORT: ClassVar = "layer score"

    layers: str  # a layer's number, or a combination, as `LayerChoice.parse` takes it
    pooling: str  # a `Pooling`
    figures: Mapping[str, float]  # by the measure's name; the first is the one that decides


_FEWEST: Final = 6  # items: fewer all change one way by chance in more than one case of twenty


def beyond_chance(low: float, high: float, items: int) -> int:
    """Say by a difference's interval at 95 % whether it is above 0 (1) or below (-1), or may be chance (0).

    Of fewer than 6 items no interval says so: drawn again, those that all changed one way never change back.
    """
    return 0 if items < _FEWEST else (low > 0) - (high < 0)


@dataclass(frozen=True, slots=True)
class JudgedChange:
    """What a judged set gave before and after a training."""

    set: str
    kind: EvaluationKind
    figure: str  # the name of the one that decides
    items: int
    before: float
    after: float
    difference_low: float  # of after less before, at 95 %: over items drawn again, for this one training
    difference_high: float
    verdict: str = field(init=False)  # whether it was worth it, in a word

    def __post_init__(self) -> None:
        sure = beyond_chance(self.difference_low, self.difference_high, self.items)
        object.__setattr__(self, "verdict", ("no clear change", "better", "worse")[sure])

    @property
    def gained(self) -> float:
        """After less before; above 0 is better."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Trained(Report):
    """What a training made and measured; its JSON has each fact under its own name, too."""

    REPORT: ClassVar = "trained"

    folder: str  # of what was made
    facts: Mapping[str, JsonValue]  # steps, seconds and what else the kind of training counts
    seed: int | None = None  # where several are trained
    training: Mapping[str, float] = field(default_factory=dict)  # figures of its last steps
    dev: Mapping[str, float] = field(default_factory=dict)  # on the dev set
    base_dev: Mapping[str, float] = field(default_factory=dict)  # of the base, on the dev set
    test: Mapping[str, float] = field(default_factory=dict)
    evaluations: tuple[JudgedChange, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """See `Report`."""
        return {"report": self.REPORT, **self.facts, **Report.to_json(self)}


@dataclass(frozen=True, slots=True)
class FigureOverSeeds:
    """A figure over several seeds."""

    set: str = field(metadata=column("set"))
    mean: float = field(metadata=column("mean", ".4g"))
    standard_deviation: float = field(metadata=column("deviation", ".2g"))  # (n - 1); 0 for one


@dataclass(frozen=True, slots=True)
class OverSeeds(Report):
    """What several trainings that differ in their seeds reached together."""

    REPORT: ClassVar = "over seeds"

    seeds: int
    evaluations: tuple[FigureOverSeeds, ...]
