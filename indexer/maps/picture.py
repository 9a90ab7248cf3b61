"""A map as a still picture: points, cluster names, a legend."""

import datetime as dt
import textwrap
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.content import RAMP, REST, Legend, cluster_legend, field_legend
from nearsay.indexer.maps.drawing import CLUSTER, Drawing, Field, FieldKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["map_figure"]

_WIDTH: Final = 13.0  # inches
_HEIGHTS: Final = (5.5, 11.0)
_BESIDE: Final = 3.6  # inches of them for the legend
_PLAIN: Final = "#3b6fb6"
_MOST_NAMES = 60  # tried on the map; those that would lie on a larger one's are left out
_MOST_IN_LEGEND = 34
_RASTER = 5_000  # points; more are one image inside an .svg
_INK: Final = "#1d1f23"


def map_figure(drawn: Drawing) -> "Figure":
    """The figure, to be saved as .png or .svg."""
    from matplotlib.figure import Figure

    low, high = _inner(drawn.places)
    height = float(np.clip((_WIDTH - _BESIDE) * (high - low)[1] / (high - low)[0] + 0.8, *_HEIGHTS))
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    axes = figure.add_axes((0.01, 0.02, 1.0 - _BESIDE / _WIDTH, 0.92))
    title = _plain(f"{drawn.collection}: {drawn.about}", 150)
    axes.set_title(title, loc="left", fontsize=13, color=_INK, parse_math=False)
    axes.set_aspect("equal", adjustable="box", anchor="W")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    field = drawn.field
    legend = None
    if field is not None and field.kind is FieldKind.CATEGORY:
        legend = field_legend(drawn, field)
    elif drawn.colour_by == CLUSTER:
        legend = cluster_legend(drawn)
    if legend is not None:
        _by_category(axes, drawn, legend)
    elif field is not None:
        _by_number(figure, axes, drawn, field)
    else:
        _points(axes, drawn.places, _PLAIN, len(drawn))
    named = legend if legend is not None and legend.names else cluster_legend(drawn)
    if named is not None:
        _names(figure, axes, named)
    return figure


def _inner(places: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lower left and the upper right corner of all but the outermost thousandth on each side."""
    low, high = np.quantile(places.astype(np.float64), (0.001, 0.999), axis=0, method="inverted_cdf")
    margin = np.maximum(0.04 * (high - low), 1e-3)
    return low - margin, high + margin


def _points(axes: "Axes", places: NDArray[np.float32], colour: Any, total: int, **more: Any) -> Any:  # noqa: ANN401
    size = float(np.clip(70_000 / max(total, 1), 0.9, 26.0))
    opacity = float(np.clip(12 / np.log2(max(total, 2)) - 0.32, 0.35, 0.9))
    drawn: dict[str, Any] = {"alpha": opacity, "linewidths": 0, "rasterized": total > _RASTER}
    return axes.scatter(places[:, 0], places[:, 1], s=size, c=colour, **drawn, **more)


def _by_number(figure: "Figure", axes: "Axes", drawn: Drawing, field: Field) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    there = ~np.isnan(field.numbers)
    _points(axes, drawn.places[~there], REST, len(drawn))
    colours = LinearSegmentedColormap.from_list("ramp", list(RAMP))
    low, high = field.span
    shown = _points(
        axes, drawn.places[there], field.numbers[there], len(drawn), cmap=colours, vmin=low, vmax=high
    )
    beside = figure.add_axes((1.02 - _BESIDE / _WIDTH, 0.25, 0.018, 0.5))
    bar = figure.colorbar(shown, cax=beside, extend=_beyond(field, low, high))
    bar.ax.set_ylabel(_plain(field.name, 40), parse_math=False)
    if bar.solids is not None:
        bar.solids.set_alpha(1)
    if field.kind is FieldKind.DATE:
        bar.ax.yaxis.set_major_formatter(lambda days, _: _day_text(days))
    elif not (field.numbers[there] % 1.0).any():  # no half years
        bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        bar.ax.yaxis.set_major_formatter(lambda number, _: f"{number:.0f}")


def _beyond(field: Field, low: float, high: float) -> Literal["neither", "both", "min", "max"]:
    """At which ends of the colours there are values beyond."""
    below, above = bool(np.nanmin(field.numbers) < low), bool(np.nanmax(field.numbers) > high)
    if below:
        return "both" if above else "min"
    return "max" if above else "neither"


def _by_category(axes: "Axes", drawn: Drawing, legend: Legend) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.lines import Line2D

    codes, rest = legend.codes, legend.codes < 0
    _points(axes, drawn.places[rest], REST, len(drawn))
    table = np.array([to_rgb(colour) for colour in legend.colours]).reshape(-1, 3)
    _points(axes, drawn.places[~rest], table[codes[~rest]], len(drawn))
    counts = np.bincount(codes[~rest], minlength=len(legend.texts))
    entries = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=f"{_plain(name, 34)}  {count:,}")
        for name, colour, count in zip(legend.texts, legend.colours, counts.tolist(), strict=True)
    ]
    if len(entries) > _MOST_IN_LEGEND:
        left = int(counts[_MOST_IN_LEGEND - 1 :].sum())
        more = f"{len(entries) - _MOST_IN_LEGEND + 1} more  {left:,}"
        entries = [*entries[: _MOST_IN_LEGEND - 1], Line2D([], [], linestyle="", label=more)]
    if rest.any():
        said = f"{legend.missing}  {int(rest.sum()):,}"
        entries.append(Line2D([], [], marker="o", linestyle="", color=REST, label=said))
    shown = axes.legend(
        handles=entries,
        title=_plain(drawn.colour_by or "", 40),
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        borderaxespad=0.5,
        frameon=False,
        fontsize=9,
        alignment="left",
    )
    for text in (shown.get_title(), *shown.get_texts()):
        text.set_parse_math(False)  # a dollar in a name is a dollar


def _names(figure: "Figure", axes: "Axes", legend: Legend) -> None:
    """Names at their medians, the largest first; those that would cover one are left out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke

    if not legend.names:
        return
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # only now the places of the points are known
    taken: list[Any] = []
    largest = legend.names[0].size
    for name in legend.names[:_MOST_NAMES]:
        text = axes.text(
            name.x,
            name.y,
            _wrapped(name.text),
            fontsize=7.5 + 3.0 * float(np.sqrt(name.size / largest)),
            fontweight="bold",
            color=_INK,
            ha="center",
            va="center",
            linespacing=1.05,
            parse_math=False,
            path_effects=[withStroke(linewidth=2.6, foreground="white")],
            in_layout=False,
        )
        box = text.get_window_extent().padded(2.0)
        right = _inwards(box.x0, box.x1, *axes.bbox.intervalx)
        up = _inwards(box.y0, box.y1, *axes.bbox.intervaly)
        if right or up:  # else it lies on the legend or off the picture
            x, y = axes.transData.transform((name.x, name.y)).tolist()
            x, y = axes.transData.inverted().transform((x + right, y + up)).tolist()
            text.set_position((x, y))
            box = box.translated(right, up)
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


def _inwards(low: float, high: float, least: float, most: float) -> float:
    """How far what reaches from low to high has to move to lie between least and most."""
    return max(least - low, 0.0) - max(high - most, 0.0)


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(_plain(name, 60), 24, max_lines=2, placeholder=" …")) or "?"


def _plain(text: str, length: int) -> str:
    """On one line, and short enough."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def _day_text(days: float) -> str:
    """An axis has marks beyond the first and the last day that a calendar knows: nothing."""
    day = round(days) + dt.date(1970, 1, 1).toordinal()
    return dt.date.fromordinal(day).isoformat() if 1 <= day <= dt.date.max.toordinal() else ""
