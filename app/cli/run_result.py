"""What a run printed, for people: the sentences of an addition, tables of everything else."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from nearsay.app.cli.add_report import report_lines
from nearsay.app.cli.printing import print_table, visible
from nearsay.data.quantity import significant

if TYPE_CHECKING:
    from nearsay.app.runs import Run

__all__ = ["print_result"]

_LONGEST = 60  # characters of a value in a table


def print_result(run: "Run", first: int | None = None) -> None:
    """Print what a run printed; first: only so many lines of it, and how to see all of them."""
    from nearsay.app.runs import RunKind
    from nearsay.app.runs.results import read_results

    output = run.output(None if first is None else first + 1)
    if run.kind is RunKind.ADD and run.collection:
        added = next((line for line in output if isinstance(line, Mapping) and "embedded" in line), None)
        if added is not None:
            for line in report_lines(run.collection, added):
                click.echo(visible(line))
            return
    found = read_results(output[:first])
    for table in (found.changes, found.figures, found.rows):
        _print_rows(table)
    if found.facts:
        print_table(["", "result"], list(found.facts.items()))
    for line in found.lines:
        click.echo(visible(line))
    if first is not None and len(output) > first:
        click.echo(f"… all rows: nearsay jobs show {run.number} --output")


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """One row as a list of its values, several as a table."""
    if len(rows) == 1:
        print_table(["", "result"], [[_label(name), _short(value)] for name, value in rows[0].items()])
    elif rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        print_table(
            [_label(name) for name in names], [[_short(row.get(name, "")) for name in names] for row in rows]
        )


def _label(name: str) -> str:
    return visible(name.replace("_", " "))


def _short(value: str | float) -> str:
    if not isinstance(value, str):  # a whole number may name something: no separators
        return significant(value) if isinstance(value, float) else str(value)
    line = " ".join(value.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
