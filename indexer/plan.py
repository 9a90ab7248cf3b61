"""How a generation is searched: exactly, or by an index that was measured first."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from nearsay.indexer.errors import CatalogueError

__all__ = ["EXACT_UP_TO", "Measured", "Plan", "PlanKind"]

EXACT_UP_TO = 50_000  # passages: below, exact search answers in milliseconds and needs no index
REBUILD_AT = 1.25  # an index is built anew when the passages outgrow it by this factor


class PlanKind(StrEnum):
    """The kinds of search."""

    EXACT = "exact"
    IVF = "ivf"  # FAISS inverted lists of half-precision vectors, the candidates scored again exactly


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate as it was measured on held-out stored vectors against exact search."""

    kind: PlanKind
    parameters: Mapping[str, int]
    recall_at_10: float
    milliseconds_a_query: float  # one query at a time, median


@dataclass(frozen=True, slots=True)
class Plan:
    """The kind of search, its parameters, and the report that chose it."""

    kind: PlanKind = PlanKind.EXACT
    lists: int = 0  # IVF: inverted lists
    probes: int = 0  # IVF: lists that a query looks into
    recall_target: float = 0.95  # at 10
    report: tuple[Measured, ...] = ()
    measured_at: int = 0  # passages there were when the report was made
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the catalogue keeps it."""
        return asdict(self) | {"report": [asdict(row) for row in self.report]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Plan":
        """From what `to_json` gave; CatalogueError for a kind that only a newer nearsay knows."""
        unknown = {str(row.get("kind")) for row in (kept, *kept.get("report", ()))} - {*PlanKind, "None"}
        if unknown:
            raise CatalogueError(
                f"a generation is searched by '{min(unknown)}', which this nearsay does not know. "
                "Upgrade: pip install -U nearsay"
            )
        known = {
            name: kept[name]
            for name in ("lists", "probes", "recall_target", "measured_at", "note")
            if name in kept
        }
        report = tuple(
            Measured(
                PlanKind(row["kind"]), row["parameters"], row["recall_at_10"], row["milliseconds_a_query"]
            )
            for row in kept.get("report", ())
        )
        return cls(kind=PlanKind(kept.get("kind", PlanKind.EXACT)), report=report, **known)

    def chosen(self, kind: PlanKind, **changes: Any) -> "Plan":  # noqa: ANN401 - dataclasses.replace takes any
        """This plan with another choice."""
        return replace(self, kind=kind, **changes)
