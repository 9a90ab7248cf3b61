"""Faulty rows by file and line, and the choice of those to report."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

_KEPT_OF_A_FILE: Final = 10
_FILES: Final = 100  # of those that lost rows, and as many of those that could not be read at all


@dataclass(frozen=True, slots=True)
class Fault:
    """Takes the place of a document that could not be read.

    Its text is the line to print: `papers.jsonl:17: not JSON: Expecting ',' delimiter at column 8`.
    """

    source: str  # the file as the user gave it; '<stdin>' or '<rows>'
    line: int | None  # 1-based line, row or page; None: the whole file
    reason: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.reason}"


def of_whole_file(said: str, name: str, *others: str) -> Fault:
    """Why a file cannot be read, from an error's message, which may begin with its name and a line."""
    names = "|".join(map(re.escape, (name, *others)))
    begins = re.match(rf"(?:{names})(?::(\d+))?(: | )", said)
    if begins is None:
        return Fault(name, None, said)
    line, sign = begins.groups()
    start = f"line {line}: " if line else "" if sign == ": " else "it "
    return Fault(name, None, f"{start}{said[begins.end() :]}")


class KeptFaults:
    """Counts faults and keeps some of them in bounded memory, so that one bad file does not hide others."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How many faults each file has."""
        self._kept: dict[str, list[Fault]] = {}
        self._unread: set[str] = set()  # the kept files with a fault of the whole file

    def take(self, fault: Fault) -> None:
        """Count a fault; keep it if it is among its file's first ones, or about the whole file."""
        self.counts[fault.source] += 1
        whole = fault.line is None and (fault.source in self._unread or len(self._unread) < _FILES)
        if fault.source not in self._kept:
            if len(self._kept) - len(self._unread) >= _FILES and not whole:
                return
            self._kept[fault.source] = []
        kept = self._kept[fault.source]
        if whole:
            self._unread.add(fault.source)
        if len(kept) < _KEPT_OF_A_FILE:
            kept.append(fault)
        elif whole:
            kept[-1] = fault

    @property
    def kept(self) -> list[Fault]:
        """The kept faults, by file, in the order in which the files were read."""
        return list(chain.from_iterable(self._kept.values()))

    @property
    def kept_counts(self) -> dict[str, int]:
        """The number of faults of each file in `kept`."""
        return {name: self.counts[name] for name in self._kept}


def by_file(faults: Iterable[Fault]) -> dict[str, list[Fault]]:
    """The faults by file, those about the whole file first."""
    files: dict[str, list[Fault]] = {}
    for fault in faults:
        files.setdefault(fault.source, []).append(fault)
    return {name: sorted(own, key=lambda fault: fault.line is not None) for name, own in files.items()}


def spread(faults: Iterable[Fault], most: int) -> list[Fault]:
    """The first faults of as many files as there is room for, then their second ones; by file."""
    files = by_file(faults)
    ranked = sorted((rank, place) for place, own in enumerate(files.values()) for rank in range(len(own)))
    chosen = Counter(place for _, place in ranked[:most])
    return [fault for place, own in enumerate(files.values()) for fault in own[: chosen[place]]]
