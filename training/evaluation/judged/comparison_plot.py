"""A picture of a comparison: a line a set, a mark with its interval for each encoder."""

from typing import TYPE_CHECKING

from nearsay.data.errors import BadInputError
from nearsay.data.picture import COLOURS, MARKS
from nearsay.training.evaluation.judged.comparison import Comparison
from nearsay.training.evaluation.judged.comparison_table import by_set, main_figure
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.reports import ComparedEncoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def comparison_figure(comparison: Comparison) -> "Figure":
    """Draw every main figure on a scale of 0 to 100, with its interval; what failed is left out.

    Raises BadInputError when nothing was measured.
    """
    from matplotlib.figure import Figure

    rows = [row for row in by_set(comparison.cells) if main_figure(row)]
    if not rows:
        raise BadInputError("no encoder could be measured on any set, so there is nothing to draw")
    figure = Figure(figsize=(9.0, 1.6 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    gap = 0.6 / max(len(comparison.encoders) - 1, 1)
    for number, encoder in enumerate(comparison.encoders):
        places, figures, below, above = [], [], [], []
        for place, row in enumerate(rows):
            cell = row[number]
            if cell.figure is None or cell.interval is None:
                continue
            scale = 1 if cell.kind == EvaluationKind.STS else 100  # correlations are told times 100
            places.append(place + (gap * number - 0.3 if len(comparison.encoders) > 1 else 0.0))
            figures.append(scale * cell.figure)
            # A percentile interval may lie beside a figure at the end of its scale; bars are never negative.
            low, high = cell.interval
            below.append(scale * max(cell.figure - low, 0.0))
            above.append(scale * max(high - cell.figure, 0.0))
        axes.errorbar(
            figures,
            places,
            xerr=[below, above],
            fmt=MARKS[number % len(MARKS)],
            color=COLOURS[number % len(COLOURS)],
            capsize=3,
            markersize=6,
            label=_label(encoder),
        )
    axes.set_yticks(range(len(rows)), [f"{row[0].set}\n{main_figure(row)}" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"main figure × 100, with {100 * comparison.options.level:g} % intervals")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper left", ncols=1, frameon=False)
    return figure


def _label(encoder: ComparedEncoder) -> str:
    facts = [f"{encoder.dimension} dimensions"]
    if encoder.parameters is not None:
        facts.insert(0, f"{encoder.parameters / 1e6:,.1f} M parameters")
    if encoder.sentences_a_second is not None:
        facts.append(f"{encoder.sentences_a_second:,.0f} sentences a second")
    return f"{encoder.encoder}: {', '.join(facts)}"
