"""What a search promises: how much of the truth it finds, and in how much memory."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from nearsay.data.errors import BadInputError

__all__ = ["RecallContract", "memory_bytes", "memory_text"]

_RECALL: Final = re.compile(r"(\d*\.?\d+)\s*(%?)(?:\s*@\s*(\d+))?")
_MEMORY: Final = re.compile(r"(\d*\.?\d+)\s*([kmgt]?i?b?)", re.IGNORECASE)
_POWERS: Final = ("", "k", "m", "g", "t")
_MOST_AT: Final = 100


@dataclass(frozen=True, slots=True)
class RecallContract:
    """At least `recall` of the `at` nearest passages are found, by an index of at most `memory_bytes`.

    The memory is the index's own: what a search has to hold. The stored vectors are mapped files, of which
    the system keeps as much as it has room for, and each passage takes nine bytes more under every plan.
    """

    recall: float = 0.95  # share of the truly nearest passages that come back, on average over queries
    at: int = 10  # how many of the nearest passages count
    memory_bytes: int | None = None  # the most that an index may hold in memory; None: no limit

    def __post_init__(self) -> None:
        if not 0.0 < self.recall <= 1.0:
            raise BadInputError(f"a recall of {self.recall} is no share. Give one up to 1, as in 0.95@10")
        if not 1 <= self.at <= _MOST_AT:
            raise BadInputError(
                f"recall is measured at {self.at} passages. Name 1 to {_MOST_AT}, as in 0.95@10"
            )
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise BadInputError(f"a memory limit of {self.memory_bytes} bytes holds nothing. Name one as 2GB")

    @classmethod
    def parse(cls, recall: str | float | None = None, memory: str | int | None = None) -> "RecallContract":
        """From "0.95@10" (or "95%@10", or 0.95) and "2GB" (or "512MB", "1GiB", bytes); None = as usual.

        BadInputError for anything else.
        """
        return cls().changed(recall, memory)

    def changed(self, recall: str | float | None = None, memory: str | int | None = None) -> "RecallContract":
        """This contract with what is not None in its place; memory "none" lifts the limit."""
        share, at = (self.recall, self.at) if recall is None else _recall(recall, self.at)
        limit = self.memory_bytes if memory is None else memory_bytes(memory)
        return RecallContract(share, at, limit)

    def to_json(self) -> dict[str, Any]:
        """As a plan keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "RecallContract":
        """From what `to_json` gave."""
        return cls(float(kept["recall"]), int(kept["at"]), kept.get("memory_bytes"))

    def __str__(self) -> str:
        """As it is given: "recall 0.95@10 within 2 GB"."""
        limit = "" if self.memory_bytes is None else f" within {memory_text(self.memory_bytes)}"
        return f"recall {self.recall:g}@{self.at}{limit}"


def _recall(given: str | float, at: int) -> tuple[float, int]:
    found = _RECALL.fullmatch(str(given).strip())
    if found is None:
        raise BadInputError(f"'{given}' is no recall. Give the share and at how many passages, as in 0.95@10")
    share, percent, places = found.groups()
    return float(share) / (100.0 if percent else 1.0), int(places) if places else at


def memory_bytes(given: str | int) -> int | None:
    """Bytes of "2GB" (1000s), "2GiB" (1024s), "512 MB" or a number; None for "none". BadInputError else."""
    text = str(given).strip()
    if text.lower() == "none":
        return None
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise BadInputError(f"'{given}' is no amount of memory. Give it as 2GB, 512MB, 1GiB or in bytes")
    number, unit = found.groups()
    unit = unit.lower().removesuffix("b")
    thousand = 1024 if unit.endswith("i") else 1000
    return int(float(number) * thousand ** _POWERS.index(unit.removesuffix("i")))


def memory_text(count: int) -> str:
    """Bytes as a person writes them: "2 GB", "1.5 MB", "900 bytes"."""
    for power in (4, 3, 2, 1):
        if count >= 1000**power:
            return f"{count / 1000**power:.3g} {_POWERS[power].upper()}B"
    return f"{count} bytes"
