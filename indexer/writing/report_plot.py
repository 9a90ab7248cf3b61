"""Plot of a generation's tuning report: recall and query time of each candidate."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nearsay.data.errors import BadInputError
from nearsay.data.picture import COLOURS, MARKS, write_picture
from nearsay.indexer.plans.plan import Measured, Plan, PlanKind, memory_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def front(rows: Sequence[Measured]) -> list[Measured]:
    """The Pareto front: rows that no other row beats in both recall and time, fastest first.

    Rows without a recall or a time are left out; of equal rows the first one stays.
    """
    measured = [row for row in rows if row.recall is not None and row.milliseconds_a_query is not None]
    best: list[Measured] = []
    for row in sorted(measured, key=lambda row: (row.milliseconds_a_query, -(row.recall or 0.0))):
        if not best or (row.recall or 0.0) > (best[-1].recall or 0.0):
            best.append(row)
    return best


def plot_report(collection: str, plan: Plan, path: Path) -> None:
    """Write the picture as .png or .svg, atomically.

    Raises BadInputError for another file type, and for a plan that was never measured.
    """
    if not front(plan.report):
        raise BadInputError(
            f"the plan of '{collection}' was not chosen by measurement, so there is nothing to plot. "
            f"Measure: nearsay index tune {collection}"
        )
    title = f"{collection}: {plan.measured_at:,} passages, {plan.evidence}"
    write_picture(path, lambda: pareto_figure(plan, title))


def pareto_figure(plan: Plan, title: str) -> "Figure":
    """Plot recall over query time: each kind and shape, the Pareto front, the target, the choice."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    figure = Figure(figsize=(9.0, 5.5), layout="constrained")
    axes = figure.subplots()
    drawn = [row for row in plan.report if row.recall is not None and row.milliseconds_a_query is not None]
    kinds: list[PlanKind] = []
    for kind, name in dict.fromkeys(_line(row) for row in drawn):
        rows = [row for row in drawn if _line(row) == (kind, name)]
        at = list(PlanKind).index(kind) % len(COLOURS)
        colour, mark = COLOURS[at], MARKS[at]
        held = f", {memory_text(rows[0].bytes)}" if rows[0].bytes else ""
        filled = "none" if kind in kinds else colour  # a kind built in a second way
        kinds.append(kind)
        axes.plot(*_points(rows), color=colour, marker=mark, markersize=4, linestyle="", fillstyle="none")
        axes.plot(
            *_points(front(rows)),
            color=colour,
            marker=mark,
            markerfacecolor=filled,
            linewidth=1,
            label=name + held,
        )
    best = _points(front(plan.report))
    axes.step(*best, where="post", color="0.6", linestyle=":", label="Pareto front")
    axes.axhline(plan.contract.recall, color="0.3", linestyle="--", linewidth=1, label=str(plan.contract))
    for row in drawn:
        if row.verdict == "taken":
            axes.plot(
                *_points([row]),
                linestyle="",
                marker="o",
                markersize=15,
                markerfacecolor="none",
                markeredgecolor="black",
                label=f"taken: {_line(row)[1]}, {row.milliseconds_a_query:.3g} ms",
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda milliseconds, _: f"{milliseconds:g}"))
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("milliseconds a query, one at a time (log)")
    axes.set_ylabel(f"recall at {plan.contract.at}")
    figure.suptitle(title)
    axes.grid(which="both", color="0.93")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _points(rows: Sequence[Measured]) -> tuple[list[float], list[float]]:
    return [row.milliseconds_a_query or 0.0 for row in rows], [row.recall or 0.0 for row in rows]


def _line(row: Measured) -> tuple[PlanKind, str]:
    """The rows of one line of the plot: a kind with one shape."""
    how = ", ".join(f"{name} {value}" for name, value in row.shape.items())
    name = str(row.kind) + (f" ({how})" if how else "")
    return row.kind, name
