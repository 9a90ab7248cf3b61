"""How a generation is searched: exactly, or by an index that was measured first."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from nearsay.indexer.plans.contract import RecallContract
from nearsay.indexer.plans.gpu_report import GpuReport
from nearsay.indexer.vectors.errors import CatalogueError

__all__ = [
    "EXACT_UP_TO",
    "GIVEN_QUERIES",
    "KEPT",
    "REBUILD_AT",
    "RETUNE_AT",
    "TAIL",
    "TAIL_SHARE",
    "Check",
    "ContractChange",
    "Measured",
    "Plan",
    "PlanKind",
]

EXACT_UP_TO = 50_000  # passages: below, exact search answers in milliseconds and needs no index
GIVEN_QUERIES = "given queries"  # how `Plan.queries` ends where the user gave them
REBUILD_AT = 1.25  # exact search, where it was measured, and an index that is missing: measured anew then
TAIL = 16_384  # passages newer than the indexes, at least, that get an index of their own
TAIL_SHARE = 0.2  # and of what is indexed already, so that there are few indexes
RETUNE_AT = 2.0  # `optimize` measures anew when the passages have outgrown the last measuring by this factor


class PlanKind(StrEnum):
    """The kinds of search."""

    EXACT = "exact"
    IVF = "ivf"  # FAISS inverted lists of half-precision vectors, the candidates scored again exactly
    IVF_SQ8 = "ivf-sq8"  # inverted lists of vectors in a byte a number
    IVF_PQ = "ivf-pq"  # inverted lists of product-quantised vectors, scanned in registers (fast scan)
    HNSW = "hnsw"  # a graph over half-precision vectors
    HNSW_SQ8 = "hnsw-sq8"  # a graph over vectors in a byte a number
    FLAT_FP16 = "flat-fp16"  # every vector in half precision


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate as it was measured against exact search, or why it was not; None where it was not."""

    kind: PlanKind
    shape: Mapping[str, int] = field(default_factory=dict)  # how it was built
    parameters: Mapping[str, int] = field(default_factory=dict)  # how it was searched
    mapped: bool = False  # left in its file and read as needed, instead of held in memory
    recall: float | None = None  # mean over the queries
    recall_at_least: float | None = None  # the lower end of its one-sided 95 % interval: this decides
    milliseconds_a_query: float | None = None  # one query at a time, median: this decides
    queries_a_second: float | None = None  # many at once
    bytes: int | None = None  # that a search holds in memory
    build_seconds: float | None = None
    verdict: str = ""  # "taken", or why it was not

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Measured":
        """From a kept row, an old one included."""
        known = {name.name: kept[name.name] for name in fields(cls) if name.name in kept}
        known.setdefault("recall", kept.get("recall_at_10"))
        return cls(**known | {"kind": PlanKind(kept["kind"])})


@dataclass(frozen=True, slots=True)
class Check:
    """The contract looked at again after passages came and went."""

    recall: float  # mean over the queries
    queries: int
    passages: int  # that could be found then
    churn: float  # passages newer than the index and gone from it, as a share of the index
    kept: bool  # whether the contract still holds


@dataclass(frozen=True, slots=True)
class Plan:
    """The kind of search, its parameters, what it promises, and the report that chose it."""

    kind: PlanKind = PlanKind.EXACT
    shape: Mapping[str, int] = field(default_factory=dict)  # how the index was built
    parameters: Mapping[str, int] = field(default_factory=dict)  # how it is searched
    mapped: bool = False  # the index stays in its file, read as needed
    contract: RecallContract = field(default_factory=RecallContract)
    report: tuple[Measured, ...] = ()
    measured_at: int = 0  # passages there were when the report was made
    queries: str = ""  # what it was measured with
    check: Check | None = None  # the last look since then
    note: str = ""  # what has to be said of the choice
    gpu: GpuReport | None = None  # what was measured on GPUs; None: nothing was asked of any

    def to_json(self) -> dict[str, Any]:
        """As the catalogue keeps it."""
        return asdict(self) | {
            "estimated_on_passages": self.estimated,
            "contract": self.contract.to_json(),
            "report": [asdict(row) for row in self.report],
            "check": None if self.check is None else asdict(self.check),
            "gpu": None if self.gpu is None else self.gpu.to_json(),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Plan":
        """From what `to_json` gave, now or in an older nearsay.

        CatalogueError for a kind that only a newer nearsay knows, and for what no nearsay wrote.
        """
        try:
            return cls._from_json(kept)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise CatalogueError(
                f"the plan of a generation cannot be read ({type(error).__name__}: {error}). "
                "Choose it anew: nearsay index rebuild COLLECTION --encoder ENCODER, then promote it"
            ) from error

    @classmethod
    def _from_json(cls, kept: Mapping[str, Any]) -> "Plan":
        unknown = {str(row.get("kind")) for row in (kept, *kept.get("report", ()))} - {*PlanKind, "None"}
        if unknown:
            raise CatalogueError(
                f"a generation is searched by '{min(unknown)}', which this nearsay does not know. "
                "Upgrade: pip install -U nearsay"
            )
        simple = ("shape", "parameters", "mapped", "measured_at", "queries", "note")
        known = {name: kept[name] for name in simple if name in kept}
        if kept.get("lists"):  # as they were kept when inverted lists were the only kind
            known |= {"shape": {"lists": kept["lists"]}, "parameters": {"probes": kept["probes"]}}
        contract = RecallContract(recall=min(1.0, kept.get("recall_target", RecallContract().recall)))
        if "contract" in kept:
            contract = RecallContract.from_json(kept["contract"])
        check = kept.get("check")
        return cls(
            kind=PlanKind(kept.get("kind", PlanKind.EXACT)),
            contract=contract,
            report=tuple(Measured.from_json(row) for row in kept.get("report", ())),
            check=None if check is None else Check(**check),
            gpu=GpuReport.from_json(kept["gpu"]) if kept.get("gpu") else None,
            **known,
        )

    def chosen(self, kind: PlanKind, **changes: Any) -> "Plan":  # noqa: ANN401 - dataclasses.replace takes any
        """This plan with another choice."""
        return replace(self, kind=kind, **changes)

    @property
    def estimated(self) -> bool:
        """Whether its recall was measured with stored vectors, not with queries of the user's own.

        Passages stand close to others of their kind; people's queries do not, and may find fewer.
        """
        return bool(self.report) and not self.queries.endswith(GIVEN_QUERIES)

    @property
    def evidence(self) -> str:
        """What its recall was measured with, in words."""
        said = self.queries or "stored vectors"
        return f"{said} (recall is estimated on passages)" if self.estimated else said

    def warning(self, collection: str) -> str | None:
        """What has to be said while the contract does not hold; None while it does."""
        check = self.check
        if check is None or check.kept:
            return None
        return (
            f"{self.contract} no longer holds: {check.recall:.3f} of the {self.contract.at} nearest were "
            f"found at {check.passages:,} passages, estimated on passages. "
            f"Choose the index anew: nearsay index tune {collection}"
        )


@dataclass(frozen=True, slots=True)
class ContractChange:
    """What a caller wants a collection's contract to be, where it wants anything."""

    recall: str | float | None = None  # as "0.95@10"; None: as it is
    memory: str | int | None = None  # as "2GB"; None: as it is

    def __post_init__(self) -> None:
        """BadInputError for what is no contract."""
        RecallContract.parse(self.recall, self.memory)

    def of(self, plan: Mapping[str, Any]) -> RecallContract:
        """The contract of a kept plan with the change made."""
        return Plan.from_json(plan).contract.changed(self.recall, self.memory)


KEPT = ContractChange()  # everything as it is
