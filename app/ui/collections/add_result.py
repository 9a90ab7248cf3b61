"""What an addition came to, in the words of the page."""

from collections.abc import Mapping
from dataclasses import dataclass

from nearsay.app.cli.add_report import DOCUMENTS_DONE, GATE_DONE, faults_told
from nearsay.data.quantity import counted
from nearsay.indexer import AddReport

__all__ = ["AddResult", "add_result"]


@dataclass(frozen=True, slots=True)
class AddResult:
    """An addition in words."""

    sentence: str
    remarks: tuple[str, ...]  # what was cut, skipped, guessed
    faults: tuple[Mapping[str, object], ...]  # the first rows that could not be used: file, line, why


def add_result(report: AddReport) -> AddResult:
    """Say what a report says."""
    done = [(getattr(report, name), said) for name, said in DOCUMENTS_DONE.items()]
    parts = [f"{counted(count, 'document')} {said}" for count, said in done if count]
    sentence = f"{', '.join(parts) or 'Nothing to add'}; {counted(report.embedded, 'passage')} embedded."
    remarks: list[str] = []
    if report.truncated:
        remarks.append(
            f"{counted(report.truncated, 'passage')} longer than the encoder takes were cut at its limit."
        )
    gate = report.near_duplicates
    if gate is not None and gate.looked_at:
        remarks.append(
            f"Near-duplicates: {gate.count:,} of {counted(gate.looked_at, 'document')} "
            f"{GATE_DONE[gate.action]} (cosine {gate.threshold:g} and above)."
        )
    rows: list[Mapping[str, object]] = []
    told = 0
    for name, faults, more_of_file in faults_told(report):
        rows += [{"file": name, "line": fault.line, "why": fault.reason} for fault in faults]
        if more_of_file:
            rows.append({"file": name, "line": None, "why": f"… {more_of_file:,} more in this file"})
        told += len(faults)
    if report.fault_count:
        more = " Here are the first:" if report.fault_count > told else ""
        remarks.append(f"{counted(report.fault_count, 'row')} could not be used and were left out.{more}")
    remarks += report.notes
    return AddResult(sentence, tuple(remarks), tuple(rows))
