"""A comparison as a table: for the terminal, as Markdown, and as JSON."""

from collections.abc import Iterator

from nearsay.data.document import JsonValue
from nearsay.training.evaluation.figure_names import figure_name, shown_figure, shown_interval
from nearsay.training.evaluation.judged.comparison import Cell, Comparison, EncoderProfile, SetRow

__all__ = ["comparison_json", "comparison_legend", "comparison_markdown", "comparison_rows"]


def comparison_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Give headers and rows: a row a set, a column an encoder, and below what each encoder costs.

    `*` marks the highest figure of a row; `+` and `-` one whose difference to the first encoder's is more
    than chance.
    """
    headers = ["set", "figure", "items", *(encoder.name for encoder in comparison.encoders)]
    rows = [
        [
            row.name,
            f"{row.kind}: {figure_name(row.main)}" if row.main else str(row.kind),
            "-" if row.items is None else f"{row.items:,}",
            *(_shown(row, cell) for cell in row.cells),
        ]
        for row in comparison.rows
    ]
    for name, told in _COSTS.items():
        cells = [told(encoder) for encoder in comparison.encoders]
        if any(cell != "-" for cell in cells):
            rows.append([name, "", "", *cells])
    return headers, rows


def comparison_markdown(comparison: Comparison) -> str:
    """Give the table in Markdown, with its legend below."""
    headers, rows = comparison_rows(comparison)
    lines = [headers, ["---"] * len(headers), *rows]
    table = "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)
    return f"{table}\n\n{comparison_legend(comparison)}\n"


def comparison_legend(comparison: Comparison) -> str:
    """Say what the marks mean."""
    first = comparison.encoders[0].name
    level = f"{100 * comparison.options.level:g} %"
    marks = "`*` the highest of a row"
    if len(comparison.encoders) > 1:
        marks += (
            f"; `+` and `-` better and worse than {first} beyond chance: the {level} interval of the "
            "difference on the same items excludes 0"
        )
    return f"In parentheses {level} bootstrap intervals over a set's items; {marks}."


def comparison_json(comparison: Comparison) -> Iterator[dict[str, JsonValue]]:
    """Give one object an encoder, then one a cell."""
    for encoder in comparison.encoders:
        size, speed = encoder.size, encoder.speed
        yield {
            "row": "encoder",
            "encoder": encoder.name,
            "source": encoder.source,
            "dimension": encoder.dimension,
            "max_tokens": encoder.max_tokens,
            "parameters": None if size is None else size.parameters,
            "megabytes": None if size is None else size.megabytes,
            "sentences_a_second": None if speed is None else speed.median,
            "sentences_a_second_range": None if speed is None else [speed.lowest, speed.highest],
        }
    for row in comparison.rows:
        for cell in row.cells:
            yield _cell_json(row, cell)


def _cell_json(row: SetRow, cell: Cell) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {
        "row": "cell",
        "set": row.name,
        "kind": str(row.kind),
        "encoder": cell.encoder,
        "error": cell.error,
    }
    if cell.outcome is not None and cell.interval is not None:
        outcome = cell.outcome
        told |= {
            "items": outcome.items,
            "main": outcome.main,
            "figure": outcome.figure,
            "interval": [cell.interval.low, cell.interval.high],
            "difference_to_first": None
            if cell.difference is None
            else [cell.difference.low, cell.difference.high],
            "best": cell.figure == row.best,
            "metrics": dict(outcome.metrics),
            "details": dict(outcome.details),
            "truncated": outcome.truncated,
            "seconds": outcome.seconds,
        }
    return told


def _shown(row: SetRow, cell: Cell) -> str:
    if cell.outcome is None or cell.interval is None:
        return f"error: {cell.error}"
    main = cell.outcome.main
    marks = "*" if cell.figure == row.best and len(row.cells) > 1 else ""
    if cell.difference is not None and cell.difference.excludes_zero:
        marks += "+" if cell.difference.low > 0 else "-"
    interval = shown_interval(main, cell.interval.low, cell.interval.high)
    return f"{shown_figure(main, cell.outcome.figure)}{marks} ({interval})"


def _parameters(encoder: EncoderProfile) -> str:
    return "-" if encoder.size is None else f"{encoder.size.parameters / 1e6:,.1f} M"


def _megabytes(encoder: EncoderProfile) -> str:
    return "-" if encoder.size is None else f"{encoder.size.megabytes:,.1f} MB"


def _speed(encoder: EncoderProfile) -> str:
    speed = encoder.speed
    return "-" if speed is None else f"{speed.median:,.0f} ({speed.lowest:,.0f} to {speed.highest:,.0f})"


_COSTS = {
    "parameters": _parameters,
    "weights": _megabytes,
    "dimension": lambda encoder: f"{encoder.dimension:,}",
    "sentences a second": _speed,
}


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("*", "\\*")
