"""The curves of a training: its metrics over its steps, as points to draw."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nearsay.data.document import JsonValue

__all__ = ["Curve", "CurvePoint", "curves"]

_SCORES = ("accuracy", "f1", "matthews", "exact_match", "score")
_MOST_POINTS = 1_000  # of one line: more cannot be told apart on a screen


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One metric at one step."""

    step: int
    value: float
    series: str  # whose line it is on
    held_out: bool  # measured on the dev set


@dataclass(frozen=True, slots=True)
class Curve:
    """What is drawn together."""

    title: str
    points: tuple[CurvePoint, ...]

    @property
    def series(self) -> tuple[str, ...]:
        """The names of the lines, in the order in which they first came."""
        return tuple(dict.fromkeys(point.series for point in self.points))


def curves(lines: Sequence[Mapping[str, JsonValue]]) -> list[Curve]:
    """Losses, scores, the learning rate and the speed of a training, those that there are.

    lines: as `read_metrics` gives them; of a line with very many points an even share is taken, the last too
    """
    found: dict[str, list[CurvePoint]] = {"Loss": [], "Score": [], "Learning rate": [], "Tokens a second": []}
    for line in lines:
        for panel, point in _points(line):
            found[panel].append(point)
    return [Curve(title, tuple(_thinned(points))) for title, points in found.items() if points]


def _points(line: Mapping[str, JsonValue]) -> Iterator[tuple[str, CurvePoint]]:
    step, evaluation = line.get("step"), line.get("evaluation")
    if not isinstance(step, int):
        return
    held_out = isinstance(evaluation, dict)
    for name, value in (evaluation if isinstance(evaluation, dict) else line).items():
        panel = _panel(name)
        if panel is None or not isinstance(value, int | float) or not math.isfinite(value):
            continue
        shown = name.replace("_", " ")
        yield panel, CurvePoint(step, float(value), f"dev {shown}" if held_out else shown, held_out)


def _panel(name: str) -> str | None:
    if name.endswith("loss"):
        return "Loss"
    if name.endswith(_SCORES):
        return "Score"
    return {"learning_rate": "Learning rate", "tokens_per_second": "Tokens a second"}.get(name)


def _thinned(points: Sequence[CurvePoint]) -> Iterator[CurvePoint]:
    for series in dict.fromkeys(point.series for point in points):
        own = [point for point in points if point.series == series]
        every = math.ceil(len(own) / _MOST_POINTS)
        yield from (point for place, point in enumerate(own) if (len(own) - 1 - place) % every == 0)
