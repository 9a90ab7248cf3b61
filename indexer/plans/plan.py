"""How a generation is searched: the recall contract, the plan that keeps it, and what was measured for it."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, cast

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.report import Report, as_json
from nearsay.indexer.vectors.errors import CatalogueError

EXACT_UP_TO = 50_000  # passages: below, exact search answers in milliseconds and needs no index
GIVEN_QUERIES = "given queries"  # how `Plan.queries` ends where the user gave them
REBUILD_AT = 1.25  # exact search that was measured is measured again with more passages by this factor
TAIL = 16_384  # passages newer than the indexes, at least, that are indexed
TAIL_SHARE = 0.05  # and of what is indexed already, for the index that they join is written again
GROUP_SHARE = 0.1  # on a cluster, where they get an index of their own: so that there are few
RETUNE_AT = 2.0  # an index: measured anew when the passages have outgrown the last measuring by this factor
_RECALL: Final = re.compile(r"(\d*\.?\d+)\s*(%?)(?:\s*@\s*(\d{1,9}))?")
_MEMORY: Final = re.compile(r"(\d{,15}\.?\d{1,15})\s*([kmgt]?i?b?)", re.IGNORECASE)
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
        if count >= 999.5 * 1000 ** (power - 1):  # three digits round it up
            return f"{count / 1000**power:.3g} {_POWERS[power].upper()}B"
    return f"{count} bytes"


def milliseconds_text(figure: float | None) -> str:
    """12.34, and three digits below one, where a tenth decides too; "" where none was measured."""
    return "" if figure is None else f"{figure:.2f}" if figure >= 1 else f"{figure:.3g}"


class PlanKind(StrEnum):
    """The kinds of search."""

    EXACT = "exact"
    IVF = "ivf"  # FAISS inverted lists of half-precision vectors, the candidates scored again exactly
    IVF_SQ8 = "ivf-sq8"  # inverted lists of vectors in a byte a number
    IVF_PQ = "ivf-pq"  # inverted lists of product-quantised vectors, scanned in registers (fast scan)
    FLAT_FP16 = "flat-fp16"  # every vector in half precision


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate as it was measured against exact search, or why it was not; None where it was not."""

    kind: PlanKind
    shape: Mapping[str, int] = field(default_factory=dict)  # how it was built
    parameters: Mapping[str, int] = field(default_factory=dict)  # how it was searched
    recall: float | None = None  # mean over the queries
    recall_at_least: float | None = None  # the lower end of its one-sided 95 % interval: this decides
    milliseconds_a_query: float | None = None  # one query at a time, median, at the last pace: this decides
    queries_a_second: float | None = None  # many at once, at the last pace of the machine
    bytes: int | None = None  # that a search holds in memory
    build_seconds: float | None = None
    verdict: str = ""  # "taken", or why it was not

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Measured":
        """From a kept row, an old one included."""
        known = {name.name: kept[name.name] for name in fields(cls) if name.name in kept}
        known.setdefault("recall", kept.get("recall_at_10"))
        return cls(**known | {"kind": PlanKind(kept["kind"])})


class GpuKind(StrEnum):
    """The kinds of GPU index."""

    FLAT_FP16 = "gpu-flat-fp16"  # every vector in half precision, all compared
    IVF_FLAT = "gpu-ivf-flat"  # inverted lists of float32 vectors
    IVF_FP16 = "gpu-ivf-fp16"  # inverted lists of half-precision vectors, or a copy of the CPU's lists
    IVF_PQ = "gpu-ivf-pq"  # inverted lists of product-quantised vectors, float16 look-up tables


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """How a generation is searched on GPUs: the kind, and how far a search looks."""

    kind: GpuKind
    lists: int = 0  # IVF: inverted lists
    probes: int = 0  # IVF: lists that a query looks into
    code_bytes: int = 0  # IVF-PQ: bytes a vector
    factor: int = 4  # candidates scored again by the stored vectors, as a multiple of k

    @property
    def parameters(self) -> Mapping[str, int]:
        """Everything but the kind that is not nought, as a report shows it."""
        return {name: value for name, value in asdict(self).items() if name != "kind" and value}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "GpuPlan":
        """From what `asdict` gave."""
        return cls(**{**kept, "kind": GpuKind(kept["kind"])})


@dataclass(frozen=True, slots=True)
class GpuMeasured:
    """One GPU plan as it was measured against exact search, or why it was not; None where it was not."""

    plan: GpuPlan
    device: str = ""  # where it really answered; empty when it was not built
    recall: float | None = None  # as in `Measured`, and so are the next three
    recall_at_least: float | None = None
    milliseconds_a_query: float | None = None
    queries_a_second: float | None = None
    bytes: int | None = None  # of GPU memory taken, with FAISS's working memory; None: torch cannot say
    build_seconds: float | None = None
    verdict: str = ""  # "taken", or why it was not


@dataclass(frozen=True, slots=True)
class GpuReport:
    """What was measured on the GPUs, and what was taken."""

    taken: GpuPlan | None  # None: none keeps the contract
    rows: tuple[GpuMeasured, ...]
    reason: str = ""  # why nothing was measured

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "GpuReport":
        """From what `asdict` gave."""
        rows = tuple(GpuMeasured(**{**row, "plan": GpuPlan.from_json(row["plan"])}) for row in kept["rows"])
        taken = None if kept["taken"] is None else GpuPlan.from_json(kept["taken"])
        return cls(taken, rows, str(kept.get("reason", "")))


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
    """The kind of index, its search parameters, its recall contract, and the measurements that chose it."""

    kind: PlanKind = PlanKind.EXACT
    shape: Mapping[str, int] = field(default_factory=dict)  # how the index was built
    parameters: Mapping[str, int] = field(default_factory=dict)  # how it is searched
    contract: RecallContract = field(default_factory=RecallContract)
    report: tuple[Measured, ...] = ()
    measured_at: int = 0  # passages when it was measured
    queries: str = ""  # the queries that it was measured with
    check: Check | None = None  # the latest check of the contract
    note: str = ""  # a note on the choice
    gpu: GpuReport | None = None  # GPU measurements; None: none were made

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON for the catalogue."""
        return asdict(self) | {"estimated_on_passages": self.estimated}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Plan":
        """Restore what `to_json` returned, also by earlier versions.

        Raises CatalogueError for a kind that only a newer version knows, and for invalid data.
        """
        try:
            return cls._from_json(kept)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise CatalogueError(
                f"the plan of a generation cannot be read ({type(error).__name__}: {error}). "
                "Rebuild it: nearsay index rebuild COLLECTION --encoder ENCODER, then promote it"
            ) from error

    @classmethod
    def _from_json(cls, kept: Mapping[str, Any]) -> "Plan":
        unknown = {str(row.get("kind")) for row in (kept, *kept.get("report", ()))} - {*PlanKind, "None"}
        if unknown:
            raise CatalogueError(
                f"a generation is searched by '{min(unknown)}', which this nearsay does not know. "
                "Upgrade: pip install -U nearsay"
            )
        simple = ("shape", "parameters", "measured_at", "queries", "note")
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
        """Whether recall was measured with stored vectors instead of your own queries.

        Stored vectors are close to similar ones, so real queries may have a lower recall.
        """
        return bool(self.report) and not self.queries.endswith(GIVEN_QUERIES)

    @property
    def evidence(self) -> str:
        """What recall was measured with, in words."""
        said = self.queries or "stored vectors"
        return f"{said} (recall is estimated on passages)" if self.estimated else said

    def warning(self, collection: str) -> str | None:
        """The warning if the contract is not met; None if it is."""
        check = self.check
        if check is None or check.kept:
            return None
        return (
            f"{self.contract} no longer holds: {check.recall:.3f} of the {self.contract.at} nearest were "
            f"found at {check.passages:,} passages, estimated on passages. "
            f"Choose a new index: nearsay index tune {collection}"
        )


@dataclass(frozen=True, slots=True)
class TunedPlan(Report):
    """What was chosen for a collection; its JSON has each field of the plan under its own name.

    What was measured is under "candidates", since "report" is the kind, as in every report.
    """

    REPORT: ClassVar = "tuned plan"

    collection: str
    plan: Plan

    def to_json(self) -> dict[str, JsonValue]:
        """See `Report`."""
        kept = cast("dict[str, JsonValue]", as_json(self.plan.to_json()))
        candidates = kept.pop("report")
        return {"report": self.REPORT, "collection": self.collection, **kept, "candidates": candidates}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "TunedPlan":
        """See `Report`."""
        try:
            return cls(row["collection"], Plan.from_json({**row, "report": row["candidates"]}))
        except CatalogueError as error:  # a kind of index that another version knows
            raise ValueError(str(error)) from error


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
