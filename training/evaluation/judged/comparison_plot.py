"""A picture of a comparison: a line a set, a mark with its interval for each encoder."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.figure_names import figure_name
from nearsay.training.evaluation.judged.comparison import Comparison, EncoderProfile
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.layer_plot import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["comparison_figure", "write_comparison_plot"]

# Okabe and Ito's colours, which colour-blind people tell apart (https://jfly.uni-koeln.de/color/), and marks.
_LOOKS: Final = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
    ("#000000", "X"),
)


def write_comparison_plot(comparison: Comparison, path: Path) -> None:
    """Write the picture as .png or .svg, whole or not at all; raises BadInputError for another ending."""
    write_figure(lambda: comparison_figure(comparison), path)


def comparison_figure(comparison: Comparison) -> "Figure":
    """Draw every main figure on a scale of 0 to 100, with its interval; what failed is left out.

    Raises BadInputError when nothing was measured.
    """
    from matplotlib.figure import Figure

    rows = [row for row in comparison.rows if row.best is not None]
    if not rows:
        raise BadInputError("no encoder could be measured on any set, so there is nothing to draw")
    figure = Figure(figsize=(9.0, 1.6 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    gap = 0.6 / max(len(comparison.encoders) - 1, 1)
    for number, encoder in enumerate(comparison.encoders):
        colour, mark = _LOOKS[number % len(_LOOKS)]
        places, figures, below, above = [], [], [], []
        for place, row in enumerate(rows):
            cell = row.cells[number]
            if cell.figure is None or cell.interval is None:
                continue
            scale = 100 / _most(row.kind)
            places.append(place + (gap * number - 0.3 if len(comparison.encoders) > 1 else 0.0))
            figures.append(scale * cell.figure)
            # A percentile interval may lie beside a figure at the end of its scale; bars are never negative.
            below.append(scale * max(cell.figure - cell.interval.low, 0.0))
            above.append(scale * max(cell.interval.high - cell.figure, 0.0))
        axes.errorbar(
            figures,
            places,
            xerr=[below, above],
            fmt=mark,
            color=colour,
            capsize=3,
            markersize=6,
            label=_label(encoder),
        )
    axes.set_yticks(range(len(rows)), [f"{row.name}\n{figure_name(row.main)}" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"main figure × 100, with {100 * comparison.options.level:g} % intervals")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper left", ncols=1, frameon=False)
    return figure


def _label(encoder: EncoderProfile) -> str:
    facts = [f"{encoder.dimension} dimensions"]
    if encoder.size is not None:
        facts.insert(0, f"{encoder.size.parameters / 1e6:,.1f} M parameters")
    if encoder.speed is not None:
        facts.append(f"{encoder.speed.median:,.0f} sentences a second")
    return f"{encoder.name}: {', '.join(facts)}"


def _most(kind: EvaluationKind) -> float:
    """What a kind's main figure reaches: 100 for correlations, else 1."""
    return 100.0 if kind is EvaluationKind.STS else 1.0
