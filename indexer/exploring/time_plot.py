"""The picture of clusters through time: how much there is in each period, and the clusters' shares of it."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import beginning
from nearsay.indexer.exploring.through_time import ClusterThroughTime, ThroughTime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["time_figure"]

# Okabe and Ito's colours, which colour-blind people tell apart (https://jfly.uni-koeln.de/color/), with an
# olive for their yellow, which is too pale for a line; beyond eight clusters they come with another dash.
_COLOURS: Final = (*("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#999933", "#000000"),)
_DASHES: Final = ("-", "--", ":")
_REST: Final = "0.75"
_NAME = 42  # characters of a name in the legend's line
_TICKS = 16


def time_figure(found: ThroughTime, top: int) -> "Figure":
    """Draw the `top` largest clusters, and the rest together.

    Above each period's count, stacked; below each one's share, a line; growing and shrinking ones are marked
    in the legend.
    """
    from matplotlib.figure import Figure

    shown = found.clusters[:top]
    rest = (*found.clusters[top:], *((found.outside,) if found.outside.total else ()))
    totals = np.array(found.totals, dtype=np.float64)
    places = np.arange(totals.size)
    figure = Figure(figsize=(12.0, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    height = np.zeros_like(totals)
    handles, labels = [], []
    for at, each in enumerate(shown):
        colour, dash = _look(at)
        counts = np.array(each.counts, dtype=np.float64)
        above.bar(places, counts, 1.0, bottom=height, color=colour, linewidth=0)
        (line,) = below.plot(
            places, _share(counts, totals), color=colour, linestyle=dash, marker=".", linewidth=1.6
        )
        height += counts
        handles.append(line)
        labels.append(_label(each))
    if rest:
        together = np.sum([each.counts for each in rest], axis=0).astype(np.float64)
        bars = above.bar(places, together, 1.0, bottom=height, color=_REST, linewidth=0)
        handles.append(bars[0])
        labels.append(_rest_label(found, rest))
    _axes(above, below, found)
    dated = "" if found.field == found.by else f", dated by {found.field}"
    figure.suptitle(_plain(f"{found.collection}: {found.counted} by {found.by}{dated}"))
    figure.legend(handles, labels, loc="outside right center", fontsize="small", frameon=False)
    return figure


def _axes(above: "Axes", below: "Axes", found: ThroughTime) -> None:
    from matplotlib.ticker import PercentFormatter

    above.set_ylabel(str(found.counted))
    below.set_ylabel("share of all in the period")
    below.yaxis.set_major_formatter(PercentFormatter(1.0))
    below.set_ylim(bottom=0.0)
    every = -(-len(found.periods) // _TICKS)
    places = range(0, len(found.periods), every)
    below.set_xticks(list(places), [found.periods[at] for at in places])
    if found.by != "year":
        below.tick_params(axis="x", labelrotation=45)
    for axes in (above, below):
        axes.grid(axis="y", color="0.93")
        axes.set_axisbelow(True)


def _share(counts: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """A gap where a period holds nothing."""
    return np.divide(counts, totals, out=np.full_like(totals, np.nan), where=totals > 0)


def _look(at: int) -> tuple[str, str]:
    return _COLOURS[at % len(_COLOURS)], _DASHES[at // len(_COLOURS) % len(_DASHES)]


def _label(each: ClusterThroughTime) -> str:
    mark = " ▲" if each.trend.grows else " ▼" if each.trend.shrinks else ""
    name = beginning(each.name, 2 * _NAME)
    return _plain("\n".join(textwrap.wrap(name, _NAME)) + f" ({each.total:,}){mark}")


def _rest_label(found: ThroughTime, rest: Sequence[ClusterThroughTime]) -> str:
    total = sum(each.total for each in rest)
    clusters = sum(each.number is not None for each in rest)
    parts = [f"{clusters} more clusters"] if clusters else []
    parts += ["in no cluster"] if found.outside.total else []
    return f"{' and '.join(parts)} ({total:,})"


def _plain(text: str) -> str:
    """Text that matplotlib takes for text: no formula between dollars, no name that begins with _."""
    return " " * text.startswith("_") + text.replace("$", r"\$")
