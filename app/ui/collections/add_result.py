"""What an addition came to, from what its run printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearsay.app.cli.add_report import DOCUMENTS_DONE, GATE_DONE, faults_told
from nearsay.data.quantity import counted

__all__ = ["AddResult", "add_result"]


@dataclass(frozen=True, slots=True)
class AddResult:
    """An addition in words."""

    sentence: str
    remarks: tuple[str, ...]  # what was cut, skipped, guessed
    faults: tuple[Mapping[str, object], ...]  # the first rows that could not be used: file, line, why


def add_result(output: Sequence[Any]) -> AddResult | None:
    """From the lines of a run's output; None where there is no report among them."""
    report = next((line for line in output if isinstance(line, Mapping) and "embedded" in line), None)
    if report is None:
        return None
    done = [(report.get(name, 0), said) for name, said in DOCUMENTS_DONE.items()]
    parts = [f"{counted(count, 'document')} {said}" for count, said in done if count]
    sentence = (
        f"{', '.join(parts) or 'Nothing to add'}; {counted(report.get('embedded', 0), 'passage')} embedded."
    )
    remarks: list[str] = []
    if report.get("truncated"):
        remarks.append(
            f"{counted(report['truncated'], 'passage')} longer than the encoder takes were cut at its limit."
        )
    gate = report.get("near_duplicates")
    if gate and gate.get("looked_at"):
        remarks.append(
            f"Near-duplicates: {gate['count']:,} of {counted(gate['looked_at'], 'document')} "
            f"{GATE_DONE.get(str(gate['action']), '')} (cosine {gate['threshold']:g} and above)."
        )
    rows: list[Mapping[str, object]] = []
    told = 0
    for name, faults, more_of_file in faults_told(report):
        rows += [{"file": name, "line": fault.line, "why": fault.reason} for fault in faults]
        if more_of_file:
            rows.append({"file": name, "line": None, "why": f"… {more_of_file:,} more in this file"})
        told += len(faults)
    if report.get("fault_count"):
        more = " Here are the first:" if report["fault_count"] > told else ""
        remarks.append(f"{counted(report['fault_count'], 'row')} could not be used and were left out.{more}")
    remarks += list(report.get("notes") or ())
    return AddResult(sentence, tuple(remarks), tuple(rows))
