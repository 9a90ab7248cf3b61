"""The tables of the papers' figures and ours, from what reproduce.py wrote."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["PaperTable", "paper_tables"]


class PaperTable(NamedTuple):
    """A table, and what stands above it."""

    above: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def paper_tables(found: Mapping[str, Any]) -> Iterator[PaperTable]:
    """Give our pretraining at each size that was run, and then each experiment.

    A row that was not measured says so.
    """
    sizes: Mapping[str, Any] = found["sizes"]
    trained = [
        (f"`{size}`: {name}", *(_pretrained(told, column) for column in ("steps", "tokens", *_REACHED)))
        for size, of_size in sizes.items()
        for name, told in of_size["pretrainings"].items()
        if name in _NAMES
    ]
    head = ("our BERTs", "steps", "tokens", *_REACHED.values())
    yield PaperTable(_models(sizes), head, tuple(_named(row) for row in trained))
    for experiment in found["experiments"]:
        above = (
            f"**{experiment['title']}** ([{experiment['paper']}]({experiment['url']})). There: "
            f"{experiment['there']}. Here: {experiment['here']}."
        )
        rows = []
        for row in experiment["rows"]:
            name = row["name"].replace("|", "\\|")  # a bare one would end the cell
            cells = [name, f"{row['theirs']} {row['published']:g}", row["ours"]]
            for of_size in sizes.values():
                figure = of_size["rows"].get(experiment["name"], {}).get(row["key"])
                cells += _cells(figure)
            rows.append(tuple(cells))
        columns = [cell for size in sizes for cell in (f"`{size}`", "measured on")]
        yield PaperTable(above, ("", "published", "figure here", *columns), tuple(rows))


_NAMES = {
    "mlm-nsp": "masked words, next sentences",
    "mlm": "masked words",
    "left-to-right": "left to right",
    "spans-nsp": "masked spans, next sentences",
}
_REACHED = {
    "mlm_accuracy": "MLM accuracy, held out",
    "nsp_accuracy": "NSP accuracy, held out",
    "clm_accuracy": "accuracy of next tokens, held out",
}


def _models(sizes: Mapping[str, Any]) -> str:
    """Say how large our BERTs are."""
    told = []
    for size, of_size in sizes.items():
        budget = of_size["budget"]["pretraining"]
        told.append(
            f"`{size}` is a BERT of {budget['layers']} layers, hidden size {budget['width']} and "
            f"a vocabulary of {budget['vocabulary']:,}"
        )
    return "; ".join(told) + "."


def _named(row: tuple[str, ...]) -> tuple[str, ...]:
    size, name = row[0].split(": ")
    return (f"{size}, {_NAMES[name]}", *row[1:])


def _pretrained(told: Mapping[str, Any], column: str) -> str:
    value = told.get(column)
    if value is None:
        return ""
    return f"{value:.1%}" if column in _REACHED else f"{value:,}"


def _cells(figure: Mapping[str, Any] | None) -> list[str]:
    """The figure with its interval, and what it was measured on."""
    if figure is None:
        return ["not run", ""]
    value = f"{figure['value']:.1f}"
    if "low" not in figure:
        return [value, ""]
    return [f"{value} ({figure['low']:.1f} to {figure['high']:.1f})", f"{figure['n']:,} {figure['of']}"]
