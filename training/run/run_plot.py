"""A picture of a run's metrics."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearsay.data.document import JsonValue
from nearsay.data.picture import write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARES = ("accuracy", "f1", "matthews", "exact_match", "score")
_MEASURES = ("loss", *_SHARES)  # a panel for the losses, one for the rest


def plot_run(lines: Sequence[Mapping[str, JsonValue]], file: Path, *, title: str) -> None:
    """Draw losses on the left and shares on the right, over steps; dots are evaluations.

    lines: as `read_metrics` gives them
    Raises DiskFullError or NearsayError when the file cannot be written.
    """
    write_picture(file, lambda: _run_figure(lines, title), dpi=120)


def _run_figure(lines: Sequence[Mapping[str, JsonValue]], title: str) -> "Figure":
    from matplotlib.figure import Figure

    trained = [line for line in lines if "evaluation" not in line]
    evaluated = [(line["step"], found) for line in lines if isinstance(found := line.get("evaluation"), dict)]
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = [name for line in (*trained, *(found for _, found in evaluated)) for name in line]
    for name in dict.fromkeys(names):
        if not name.endswith(_MEASURES):
            continue
        panel = left if name.endswith("loss") else right
        points = [(line["step"], line[name]) for line in trained if name in line]
        drawn = None
        if points:
            drawn = panel.plot(*zip(*points, strict=True), label=name.replace("_", " "), linewidth=1.2)[0]
        dots = [(step, found[name]) for step, found in evaluated if name in found]
        if dots:
            colour = drawn.get_color() if drawn else None
            label = f"{name.replace('_', ' ')}, evaluated"
            panel.plot(*zip(*dots, strict=True), "o:", markersize=5, linewidth=0.8, label=label, color=colour)
    for panel, what in ((left, "loss"), (right, "share")):
        panel.set_xlabel("step")
        panel.set_ylabel(what)
        panel.grid(alpha=0.3)
        if panel.has_data():
            panel.legend(fontsize=8)
    # Matthews' correlation goes below 0; dev scores alone differ in their third digit.
    only_scores = all(name.endswith("score") for name in names if name.endswith(_SHARES))
    if not right.has_data() or (right.dataLim.ymin >= 0 and not only_scores):
        right.set_ylim(bottom=0.0)
    figure.suptitle(title)
    return figure
