"""A row that could not be used, by file and line."""

from dataclasses import dataclass

__all__ = ["Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What stands in a reading in place of a document that could not be made.

    Its text is the line to print: `papers.jsonl:17: not JSON: Expecting ',' delimiter at column 8`.
    """

    source: str  # the file as the user gave it; '<stdin>' or '<rows>'
    line: int | None  # 1-based line, row or page; None: the whole file
    reason: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.reason}"
