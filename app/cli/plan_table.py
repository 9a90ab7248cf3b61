"""How a plan and the report that chose it are printed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.printing import print_table
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.plans.gpu_report import GpuMeasured, GpuReport
    from nearsay.indexer.plans.plan import Measured, Plan

__all__ = ["print_plan"]


def print_plan(plan: "Plan") -> None:
    """The contract, a line for each candidate at the setting that it was left at, and what has to be said."""
    click.echo(f"{plan.contract}, measured at {counted(plan.measured_at, 'passage')} with {plan.evidence}:")
    last = {(row.kind, str(row.shape), row.mapped): row for row in plan.report}
    print_table(
        ["candidate", "built", "searched", *_figures(plan), "verdict"], [_line(row) for row in last.values()]
    )
    if plan.gpu is not None:
        _print_gpu(plan.gpu, _figures(plan))
    if plan.check is not None:
        click.echo(
            f"looked at again at {counted(plan.check.passages, 'passage')}: recall {plan.check.recall:.3f} "
            f"of {counted(plan.check.queries, 'stored vector')}, estimated on passages"
        )
    if plan.note:
        click.echo(plan.note)


def _print_gpu(report: "GpuReport", figures: list[str]) -> None:
    """A line for each GPU plan at the setting that it was left at, or why nothing was measured."""
    if report.reason:
        click.echo(f"on GPUs: {report.reason}")
        return
    click.echo("on GPUs:")
    last = {(row.plan.kind, row.plan.lists, row.plan.code_bytes): row for row in report.rows}
    print_table(
        ["candidate", "on", "built and searched", *figures, "verdict"],
        [
            [str(row.plan.kind), row.device, _settings(row.plan.parameters), *_measured(row), row.verdict]
            for row in last.values()
        ],
    )


def _figures(plan: "Plan") -> list[str]:
    return [f"recall@{plan.contract.at}", "at least", "ms a query", "queries/s", "MB", "build s"]


def _line(row: "Measured") -> list[object]:
    kind = f"{row.kind}, in its file" if row.mapped else str(row.kind)
    return [kind, _settings(row.shape), _settings(row.parameters), *_measured(row), row.verdict]


def _measured(row: "Measured | GpuMeasured") -> list[object]:
    return [
        _number(row.recall, ".3f"),
        _number(row.recall_at_least, ".3f"),
        _number(row.milliseconds_a_query, ".2f"),
        _number(row.queries_a_second, ",.0f"),
        _number(None if row.bytes is None else row.bytes / 1e6, ",.1f"),
        _number(row.build_seconds, ",.1f"),
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _settings(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
