"""What was measured on GPUs, as a generation's plan keeps it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nearsay.indexer.plans.gpu_plan import GpuPlan

__all__ = ["GpuMeasured", "GpuReport"]


@dataclass(frozen=True, slots=True)
class GpuMeasured:
    """One GPU plan as it was measured against exact search, or why it was not; None where it was not."""

    plan: GpuPlan
    device: str = ""  # where it really answered; empty when it was not built
    recall: float | None = None  # mean over the queries
    recall_at_least: float | None = None  # the lower end of its one-sided 95 % interval: this decides
    milliseconds_a_query: float | None = None  # one query at a time, median: this decides
    queries_a_second: float | None = None  # many at once
    bytes: int = 0  # of GPU memory, estimated
    build_seconds: float | None = None
    verdict: str = ""  # "taken", or why it was not


@dataclass(frozen=True, slots=True)
class GpuReport:
    """What was measured on the GPUs, and what was taken."""

    taken: GpuPlan | None  # None: none keeps the contract
    rows: tuple[GpuMeasured, ...]
    reason: str = ""  # why nothing was measured

    def to_json(self) -> dict[str, Any]:
        """As a plan keeps it."""
        return {
            "taken": None if self.taken is None else self.taken.to_json(),
            "rows": [asdict(row) for row in self.rows],
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "GpuReport":
        """From what `to_json` gave."""
        rows = tuple(GpuMeasured(**{**row, "plan": GpuPlan.from_json(row["plan"])}) for row in kept["rows"])
        taken = None if kept["taken"] is None else GpuPlan.from_json(kept["taken"])
        return cls(taken, rows, str(kept.get("reason", "")))
