"""What `nearsay index add` says when it is done."""

from typing import TYPE_CHECKING

import click

from nearsay.app.cli.printing import print_json, print_notes, visible

if TYPE_CHECKING:
    from nearsay.indexer.duplicates.gate import GateReport
    from nearsay.indexer.ingest import AddReport

__all__ = ["print_report"]

_FAULTS_SHOWN = 10
_NEAR_DUPLICATES_SHOWN = 10
_DONE = {"report": "found and kept", "skip": "removed again", "link": "linked"}


def print_report(collection: str, report: "AddReport", *, as_json: bool) -> None:
    """The counts, what was guessed, and the rows that could not be used, named by file and line."""
    if as_json:
        print_json(report)
        return
    print_notes(visible(note) for note in report.notes)
    for fault in report.faults[:_FAULTS_SHOWN]:
        click.echo(f"skipped {visible(str(fault))}", err=True)
    if report.fault_count > _FAULTS_SHOWN:
        click.echo(f"… {report.fault_count:,} rows skipped in all (--strict stops instead)", err=True)
    counts = {
        "added": report.added,
        "updated": report.updated,
        "with new metadata": report.relabelled,
        "unchanged": report.unchanged,
        "removed, no longer in their file": report.removed,
        "skipped": report.fault_count,
    }
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing to add"
    click.echo(f"{collection}: {said}; {report.embedded:,} passages embedded", err=True)
    if report.resumed:
        click.echo(f"{report.resumed:,} of these an earlier run had left waiting", err=True)
    if report.truncated:
        click.echo(
            f"{report.truncated:,} passages were longer than the encoder takes and cut (see --chunking)",
            err=True,
        )
    if report.near_duplicates is not None and report.near_duplicates.looked_at:
        _print_gate(report.near_duplicates)


def _print_gate(gate: "GateReport") -> None:
    for found in gate.first[:_NEAR_DUPLICATES_SHOWN]:
        click.echo(
            f"{visible(found.id)} says nearly what {visible(found.original)} says ({found.cosine:.3f})",
            err=True,
        )
    click.echo(
        f"near-duplicates: {gate.count:,} of {gate.looked_at:,} documents {_DONE[gate.action]} "
        f"(cosine of {gate.threshold:g} and above)",
        err=True,
    )
