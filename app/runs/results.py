"""What a run found, as tables: before and after a training, the figures of an evaluation, rows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nearsay.data.quantity import significant
from nearsay.indexer.results import reports
from nearsay.training.evaluation.figure_names import figure_name, shown_figure

if TYPE_CHECKING:
    from nearsay.indexer.improving import Improvement
    from nearsay.training.evaluation.judged.reports import Evaluation, JudgedChange, OverSeeds, Trained

__all__ = ["RunResults", "changes_table", "evaluation_row", "improvement_table", "read_results"]

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
            continue
        report = next(reports([line]), None)
        show = None if report is None else _SHOWN.get(report.REPORT)
        if show is None:
            found.rows.append({str(name): _plain(value) for name, value in line.items() if name != "report"})
        else:
            show(report, found)
    return found


def _training(report: "Trained", found: RunResults) -> None:
    seed = f"seed {report.seed}, " if report.seed else ""
    found.changes += changes_table(report.evaluations)
    for name, value in [*report.facts.items()][:_FEW_FACTS]:
        found.facts[f"{seed}{name}".replace("_", " ")] = _number(value)
    for part, figures in (("training", report.training), ("dev", report.dev), ("test", report.test)):
        for name, value in figures.items():
            base = report.base_dev.get(name) if part == "dev" else None
            shown = _number(value) if base is None else f"{_number(value)}, of the base {_number(base)}"
            found.facts[f"{seed}{part} {name}".replace("_", " ")] = shown


def _over_seeds(report: "OverSeeds", found: RunResults) -> None:
    found.rows += [asdict(one) for one in report.evaluations]


def changes_table(changes: Iterable["JudgedChange"]) -> list[Row]:
    """What judged sets gave before and after a training, a set a row."""
    return [
        {
            "set": one.set,
            "figure": figure_name(one.figure),
            "items": one.items,
            "before": shown_figure(one.figure, one.before),
            "after": shown_figure(one.figure, one.after),
            "gained": f"{one.gained:+.3g}",
            "95 % interval": f"{one.difference_low:+.3g} to {one.difference_high:+.3g}",
            "verdict": one.verdict,
        }
        for one in changes
    ]


def evaluation_row(one: "Evaluation") -> Row:
    """What an encoder reached on a judged set: the figure that decides, and the others."""
    low, high = (shown_figure(one.main, end) for end in one.interval)
    row: Row = {
        "encoder": one.encoder,
        "set": one.name,
        figure_name(one.main): shown_figure(one.main, one.figure),
        "95 % interval": f"{low} to {high}",
    }
    for name, value in one.metrics.items():
        if name != one.main and not name.endswith(_OTHERS):
            row[figure_name(name)] = shown_figure(name, value)
    return row | {"cut": one.truncated}


def _evaluation(report: "Evaluation", found: RunResults) -> None:
    found.figures.append(evaluation_row(report))


def improvement_table(found: "Improvement") -> list[Row]:
    """What was tried to improve a search, a candidate a row."""
    return [
        {
            "candidate": one.name,
            "words": "" if one.word_weight is None else f"{one.word_weight:g}",
            "held out of training": _signed(one.learned),
            "interval": _between(one.learned_low, one.learned_high),
            "test part": _signed(one.tested),
            "95 %": _between(one.tested_low, one.tested_high),
            "general sets": ", ".join(_signed(general.after - general.before) for general in one.replay),
            "recall": "" if one.recall is None else f"{one.recall:.3f}",
            "ms": "" if one.milliseconds is None else f"{one.milliseconds:.1f}",
            "verdict": one.verdict,
        }
        for one in found.candidates
    ]


def _improvement(report: "Improvement", found: RunResults) -> None:
    found.rows += improvement_table(report)
    found.lines += [f"recommended: {report.recommended}{', live' * report.applied}", *report.notes]


_SHOWN: Final[Mapping[str, Callable[[Any, RunResults], None]]] = {
    "trained": _training,
    "over seeds": _over_seeds,
    "evaluation": _evaluation,
    "improvement": _improvement,
}


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"


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
