"""A comparison's reports as tables: for the command, jobs, the page and Markdown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nearsay.training.evaluation.figure_names import figure_name, shown_figure, shown_interval
from nearsay.training.evaluation.judged.reports import ComparedEncoder, ComparedSet, beyond_chance

if TYPE_CHECKING:
    from nearsay.training.evaluation.judged.comparison import Comparison


def set_rows(cells: Sequence[ComparedSet]) -> list[dict[str, str]]:
    """A row a set, a column an encoder.

    `*` marks the highest figure of a row; `+` and `-` one whose difference to the first encoder's is more
    than chance.
    """
    return [_set_row(some) for some in by_set(cells)]


def by_set(cells: Sequence[ComparedSet]) -> list[list[ComparedSet]]:
    """Put the encoders of each set together, in the order of the sets."""
    rows: dict[tuple[str, str], list[ComparedSet]] = {}
    for cell in cells:
        rows.setdefault((cell.set, cell.kind), []).append(cell)
    return [*rows.values()]


def main_figure(cells: Sequence[ComparedSet]) -> str:
    """Name the figure of a set that decides; empty where nothing was measured."""
    main = next((cell.main for cell in cells if cell.main), "")
    return figure_name(main) if main else ""


def _set_row(cells: Sequence[ComparedSet]) -> dict[str, str]:
    first, main = cells[0], main_figure(cells)
    items = next((cell.items for cell in cells if cell.items is not None), None)
    return {
        "set": first.set,
        "figure": f"{first.kind}: {main}" if main else first.kind,
        "items": "-" if items is None else f"{items:,}",
        **{cell.encoder: _shown(cell, alone=len(cells) == 1) for cell in cells},
    }


def _shown(cell: ComparedSet, *, alone: bool) -> str:
    if cell.figure is None or cell.interval is None:
        return f"error: {cell.error}"
    marks = "*" if cell.best and not alone else ""
    if cell.difference_to_first is not None:
        marks += ("", "+", "-")[beyond_chance(*cell.difference_to_first, cell.items or 0)]
    return f"{shown_figure(cell.main, cell.figure)}{marks} ({shown_interval(cell.main, *cell.interval)})"


def cost_rows(encoders: Sequence[ComparedEncoder]) -> list[dict[str, str]]:
    """A row a kind of cost, a column an encoder; what was measured of none has no row."""
    costs = {each.encoder: _costs(each) for each in encoders}
    rows = (
        {"": name, **{encoder: told[name] for encoder, told in costs.items()}}
        for name in next(iter(costs.values()))
    )
    return [row for row in rows if set(row.values()) - {row[""], "-"}]


def _costs(encoder: ComparedEncoder) -> dict[str, str]:
    speed, span = encoder.sentences_a_second, encoder.sentences_a_second_range
    return {
        "parameters": "-" if encoder.parameters is None else f"{encoder.parameters / 1e6:,.1f} M",
        "weights": "-" if encoder.megabytes is None else f"{encoder.megabytes:,.1f} MB",
        "dimension": f"{encoder.dimension:,}",
        "sentences a second": "-"
        if speed is None or span is None
        else f"{speed:,.0f} ({span[0]:,.0f} to {span[1]:,.0f})",
    }


def comparison_legend(cells: Sequence[ComparedSet]) -> str:
    """What the marks and parentheses mean."""
    level = f"{100 * next((cell.interval_level for cell in cells if cell.interval_level), 0.95):g} %"
    marks = "`*` the highest of a row"
    if any(cell.encoder != cells[0].encoder for cell in cells):
        marks += (
            f"; `+` and `-` better and worse than {cells[0].encoder} beyond chance: the {level} interval of "
            "the difference on the same items, 6 or more, excludes 0"
        )
    return f"In parentheses {level} bootstrap intervals over a set's items; {marks}."


def comparison_markdown(comparison: "Comparison") -> str:
    """Sets and costs as one table in Markdown, with its legend below."""
    rows = set_rows(comparison.cells)
    rows += [{"set": row.pop(""), "figure": "", "items": "", **row} for row in cost_rows(comparison.encoders)]
    headers = [*rows[0]]
    lines = [headers, ["---"] * len(headers), *([row[name] for name in headers] for row in rows)]
    table = "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)
    return f"{table}\n\n{comparison_legend(comparison.cells)}\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("*", "\\*")
