"""A picture of what each layer and pooling reached."""

from typing import TYPE_CHECKING

from nearsay.data.picture import COLOURS, MARKS
from nearsay.training.bert.layers import Pooling
from nearsay.training.evaluation.judged.layers import LayerReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def layer_figure(report: LayerReport) -> "Figure":
    """Draw a line a pooling over the layers, and the combinations as marks to the right of them."""
    from matplotlib.figure import Figure

    single = [str(layer) for layer in range(report.layers + 1)]
    combined = list(dict.fromkeys(score.layers for score in report.scores if score.layers not in single))
    # The gap between the last layer and the first combination says that no line goes on there.
    places = {name: place for place, name in enumerate(single)}
    places |= {name: len(single) + 1 + place for place, name in enumerate(combined)}
    figure = Figure(figsize=(max(7.0, 0.4 * len(places) + 2.5), 4.5), layout="constrained")
    axes = figure.subplots()
    for pooling, colour, mark in zip(Pooling, COLOURS, MARKS, strict=False):
        scores = [score for score in report.scores if score.pooling is pooling]
        lined = [score for score in scores if score.layers in single]
        marked = [score for score in scores if score.layers in combined]
        for drawn, line, label in ((lined, "-", str(pooling)), (marked, "", None)):
            axes.plot(
                [places[score.layers] for score in drawn],
                [report.figure(score) for score in drawn],
                linestyle=line,
                marker=mark,
                color=colour,
                label=label,
            )
    best = report.best
    axes.plot(
        [places[best.layers]],
        [report.figure(best)],
        linestyle="",
        marker="o",
        markersize=14,
        markerfacecolor="none",
        markeredgecolor="black",
        label=f"best: {best.layers} {best.pooling}, {report.shown(best)}",
    )
    if combined:
        axes.axvline(len(single), color="0.8", linewidth=1)
    axes.set_xticks(list(places.values()), [name.replace("-last", "\nlast") for name in places])
    axes.set_xlabel("layer (0: the embeddings), and layers combined")
    axes.set_ylabel(f"{report.measure} × 100" if report.measure == "Spearman" else report.measure)
    axes.set_title(f"{report.encoder} by layer and pooling")
    axes.grid(axis="y", color="0.9")
    axes.legend()
    return figure
