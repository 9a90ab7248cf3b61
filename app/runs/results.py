"""What a run found, as tables: before and after a training, the figures of an evaluation, rows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nearsay.data.quantity import significant
from nearsay.training.evaluation.figure_names import figure_name, shown_figure

__all__ = ["RunResults", "changes_table", "read_results"]

Row = dict[str, str | int | float]
_FEW_FACTS = 12
_OTHERS = ("_dot", "_euclidean", "_manhattan")


@dataclass(slots=True)
class RunResults:
    """Tables of text and numbers, ready to be shown; what a run did not print is empty."""

    changes: list[Row] = field(default_factory=list)  # a judged set a row: before, after, interval
    figures: list[Row] = field(default_factory=list)  # of evaluations, a set a row
    facts: dict[str, str] = field(default_factory=dict)  # of a training: steps, seconds, dev figures
    rows: list[Row] = field(default_factory=list)  # what else was printed
    lines: list[str] = field(default_factory=list)  # what was printed and is no JSON


def read_results(output: Sequence[Any]) -> RunResults:
    """Sort what a run printed; output: as `Run.output` gives it."""
    found = RunResults()
    for line in output:
        if not isinstance(line, Mapping):
            found.lines.append(line if isinstance(line, str) else str(line))
        elif isinstance(line.get("evaluations"), list):
            _training(line, found)
        elif "main" in line and "interval" in line:
            found.figures.append(_evaluation(line))
        elif "folder" in line:
            _training(line, found)
        else:
            found.rows.append({str(name): _plain(value) for name, value in line.items() if name != "report"})
    return found


def _training(line: Mapping[str, Any], found: RunResults) -> None:
    seed = f"seed {line['seed']}, " if line.get("seed") else ""
    for one in line.get("evaluations", ()):
        if "verdict" in one:
            found.changes.append(_change(one))
        else:  # over several seeds
            found.rows.append({str(name): _plain(value) for name, value in one.items()})
    for name, value in line.items():
        if name in ("evaluations", "folder", "seed", "base_dev"):
            continue
        if isinstance(value, Mapping):
            base = line.get("base_dev") if name == "dev" else None
            for inner, number in value.items():
                shown = _number(number)
                if isinstance(base, Mapping) and inner in base:
                    shown += f", of the base {_number(base[inner])}"
                found.facts[f"{seed}{name} {inner}".replace("_", " ")] = shown
        elif len(found.facts) < _FEW_FACTS:
            found.facts[f"{seed}{name}".replace("_", " ")] = _number(value)


def changes_table(changes: Iterable[Mapping[str, Any]]) -> list[Row]:
    """What judged sets gave before and after a training, a set a row."""
    return [_change(one) for one in changes]


def _change(one: Mapping[str, Any]) -> Row:
    figure = str(one["figure"])
    gained = float(one["after"]) - float(one["before"])
    return {
        "set": str(one["set"]),
        "figure": figure_name(figure),
        "items": int(one["items"]),
        "before": shown_figure(figure, float(one["before"])),
        "after": shown_figure(figure, float(one["after"])),
        "gained": f"{gained:+.3g}",
        "95 % interval": f"{one['difference_low']:+.3g} to {one['difference_high']:+.3g}",
        "verdict": str(one["verdict"]),
    }


def _evaluation(line: Mapping[str, Any]) -> Row:
    main = str(line["main"])
    low, high = line["interval"]
    row: Row = {
        "encoder": str(line.get("encoder", "")),
        "set": str(line.get("name", "")),
        figure_name(main): shown_figure(main, float(line[main])),
        "95 % interval": f"{shown_figure(main, float(low))} to {shown_figure(main, float(high))}",
    }
    known = {main, "interval_level", "interval_draws", "seed", "seconds", "truncated"}
    for name, value in line.items():
        if isinstance(value, float) and name not in known and not name.endswith(_OTHERS):
            row[figure_name(name)] = shown_figure(name, value)
    row["cut"] = int(line.get("truncated", 0))
    return row


def _plain(value: Any) -> str | int | float:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return significant(value) if isinstance(value, float) else str(value)
