"""What `nearsay documents add` says when it is done."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from nearsay.app.cli.printing import print_json, print_notes
from nearsay.data.faults import Fault, by_file
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.duplicates.gate import GateReport
    from nearsay.indexer.writing.ingest import AddReport

__all__ = ["DOCUMENTS_DONE", "GATE_DONE", "faults_told", "print_report", "report_lines"]

_FAULTS_SHOWN = 10  # where one file alone has any
_FAULTS_OF_A_FILE = 3
_FILES_WITH_SEVERAL = 10  # of more files, one fault each is told
_NEAR_DUPLICATES_SHOWN = 10
GATE_DONE: Final = {"report": "found and kept", "skip": "removed again", "link": "linked"}  # near-duplicates
DOCUMENTS_DONE: Final = {
    "added": "added",
    "updated": "updated",
    "relabelled": "with new metadata",
    "unchanged": "unchanged",
    "removed": "removed, no longer in their file",
}


def print_report(collection: str, report: "AddReport", *, as_json: bool) -> None:
    """The counts, what was guessed, and the rows that could not be used, named by file and line."""
    if as_json:
        print_json(report)
    else:
        print_notes(report_lines(collection, report))


def report_lines(collection: str, report: "AddReport") -> Iterator[str]:
    """What is said of an addition."""
    yield from report.notes
    told = 0
    for name, faults, more in faults_told(report):
        yield from (f"skipped {fault}" for fault in faults)
        if more:
            yield f"… {more:,} more in {name}"
        told += len(faults)
    skipped = report.fault_count
    if skipped > told:
        yield f"… {skipped:,} rows skipped in all (--strict stops instead)"
    done = [(getattr(report, name), what) for name, what in DOCUMENTS_DONE.items()]
    counts = [f"{count:,} {what}" for count, what in (*done, (skipped, "skipped")) if count]
    said = ", ".join(counts) or "nothing to add"
    yield f"{collection}: {said}; {counted(report.embedded, 'passage')} embedded"
    if report.resumed:
        yield f"{report.resumed:,} of these an earlier run had left waiting"
    if report.truncated:
        were = "passage was" if report.truncated == 1 else "passages were"
        yield f"{report.truncated:,} {were} longer than the encoder takes and cut (see --chunking)"
    if report.near_duplicates is not None and report.near_duplicates.looked_at:
        yield from _gate_lines(report.near_duplicates)


def faults_told(report: "AddReport") -> Iterator[tuple[str, list[Fault], int]]:
    """Each file that rows are missing of: its name, the faults to tell, and how many more it has."""
    files = by_file(report.faults)
    counts = report.faults_of_files
    few = _FAULTS_OF_A_FILE if len(files) <= _FILES_WITH_SEVERAL else 1
    shown = _FAULTS_SHOWN if len(files) == 1 else few
    for name, faults in files.items():
        told = faults[:shown]
        yield name, told, counts.get(name, len(faults)) - len(told)


def _gate_lines(gate: "GateReport") -> Iterator[str]:
    for found in gate.first[:_NEAR_DUPLICATES_SHOWN]:
        yield f"{found.id} says nearly what {found.original} says ({found.cosine:.3f})"
    yield (
        f"near-duplicates: {gate.count:,} of {counted(gate.looked_at, 'document')} "
        f"{GATE_DONE[gate.action]} (cosine of {gate.threshold:g} and above)"
    )
