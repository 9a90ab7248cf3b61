"""The kinds of index that FAISS has for GPUs, what they can do, and how much room they take.

Limits: Faiss on the GPU, https://github.com/facebookresearch/faiss/wiki/Faiss-on-the-GPU, and FAISS 1.15's
`gpu/GpuIndexIVFPQ.cu`. The room is an estimate, made from the formats; it has not been compared with a GPU.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from nearsay.data.errors import BadInputError

__all__ = ["MAX_CANDIDATES", "MAX_PROBES", "GpuKind", "GpuPlan", "code_bytes", "expected_bytes", "gpu_plans"]

MAX_CANDIDATES = 2048  # a query's, in one search: FAISS's GPU_MAX_SELECTION_K
MAX_PROBES = 2048  # likewise
_CAGRA_CANDIDATES = 512  # wider searches leave CAGRA's fast path
_CODES = (96, 64, 56, 48, 40, 32, 28, 24, 20, 16, 12, 8, 4)  # bytes a vector that the GPU's IVF-PQ takes
_LISTS_AT_MOST = 65_536
_LIST_SLACK = 1.25  # inverted lists grow in steps and are cut back when all is added
_NUMBER_BYTES = 8  # a passage's number in an inverted list
_GRAPH_DEGREE = 64  # CAGRA: neighbours of a passage; twice as many while the graph is made


class GpuKind(StrEnum):
    """The kinds of GPU index."""

    FLAT_FP16 = "gpu-flat-fp16"  # every vector in half precision, all compared
    IVF_FLAT = "gpu-ivf-flat"  # inverted lists of float32 vectors
    IVF_FP16 = "gpu-ivf-fp16"  # inverted lists of half-precision vectors, or a copy of the CPU's lists
    IVF_PQ = "gpu-ivf-pq"  # inverted lists of product-quantised vectors, float16 look-up tables
    CAGRA = "gpu-cagra"  # NVIDIA's graph, where FAISS was built with cuVS; one GPU only


_IVF = (GpuKind.IVF_FLAT, GpuKind.IVF_FP16, GpuKind.IVF_PQ)
_FACTORS = {GpuKind.FLAT_FP16: 2, GpuKind.IVF_PQ: 16}  # of the others: 4


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """How a generation is searched on GPUs: the kind, and how far a search looks."""

    kind: GpuKind
    lists: int = 0  # IVF: inverted lists
    probes: int = 0  # IVF: lists that a query looks into
    code_bytes: int = 0  # IVF-PQ: bytes a vector
    width: int = 0  # CAGRA: candidates that a search keeps in hand (itopk)
    factor: int = 4  # candidates scored again by the stored vectors, as a multiple of k

    def __post_init__(self) -> None:
        """BadInputError for what FAISS refuses on a GPU."""
        if self.kind in _IVF and not 0 < self.probes <= min(self.lists, MAX_PROBES):
            raise BadInputError(
                f"{self.kind} looks into {self.probes} of {self.lists} lists; on a GPU from 1 to "
                f"{min(self.lists, MAX_PROBES)} can be looked into. Give a number between"
            )
        if self.kind is GpuKind.IVF_PQ and self.code_bytes not in _CODES:
            raise BadInputError(
                f"{self.kind} cannot keep a vector in {self.code_bytes} bytes. Take one of: "
                + ", ".join(map(str, reversed(_CODES)))
            )
        if self.kind is GpuKind.CAGRA and not 0 < self.width <= _CAGRA_CANDIDATES:
            raise BadInputError(f"{self.kind} takes a width from 1 to {_CAGRA_CANDIDATES}, not {self.width}")
        if self.factor < 1:
            raise BadInputError(f"{self.kind} takes a factor of at least 1, not {self.factor}")

    @property
    def most_candidates(self) -> int:
        """The most that one search can be asked for."""
        return self.width if self.kind is GpuKind.CAGRA else MAX_CANDIDATES

    @property
    def parameters(self) -> Mapping[str, int]:
        """Everything but the kind that is not nought, as a report shows it."""
        return {name: value for name, value in asdict(self).items() if name != "kind" and value}

    def ladder(self) -> tuple["GpuPlan", ...]:
        """This plan at every step worth measuring, by rising cost and recall."""
        if self.kind in _IVF:
            ends = min(self.lists, MAX_PROBES)
            steps = [2**power for power in range(2, ends.bit_length()) if 2**power <= ends] or [ends]
            return tuple(replace(self, probes=probes) for probes in steps)
        if self.kind is GpuKind.CAGRA:
            return tuple(replace(self, width=width) for width in (64, 128, 256, 512))
        return (self,)

    def to_json(self) -> dict[str, Any]:
        """As the catalogue keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "GpuPlan":
        """From what `to_json` gave."""
        numbers = ("lists", "probes", "code_bytes", "width", "factor")
        return cls(GpuKind(kept["kind"]), **{name: int(kept[name]) for name in numbers if name in kept})


def code_bytes(dimension: int) -> int:
    """The finest IVF-PQ code that a GPU takes for vectors this wide; 0 if no code divides them."""
    return next((size for size in _CODES if dimension % size == 0), 0)


def expected_bytes(plan: GpuPlan, count: int, dimension: int) -> int:
    """Bytes of GPU memory that the index takes over `count` vectors, all GPUs together, without scratch.

    CAGRA's is its need while it is built, which is its largest.
    """
    centroids = plan.lists * dimension * 4
    match plan.kind:
        case GpuKind.FLAT_FP16:
            return count * dimension * 2
        case GpuKind.IVF_FLAT:
            return centroids + int(_LIST_SLACK * count * (dimension * 4 + _NUMBER_BYTES))
        case GpuKind.IVF_FP16:
            return centroids + int(_LIST_SLACK * count * (dimension * 2 + _NUMBER_BYTES))
        case GpuKind.IVF_PQ:
            codebooks = dimension * 256 * 4
            return centroids + codebooks + int(_LIST_SLACK * count * (plan.code_bytes + _NUMBER_BYTES))
        case GpuKind.CAGRA:
            return count * (dimension * 4 + 3 * _GRAPH_DEGREE * 4)


def gpu_plans(count: int, dimension: int, *, cagra: bool = False) -> tuple[GpuPlan, ...]:
    """The plans worth measuring over so many vectors, the surest first; each one's `ladder` says how.

    cagra: whether this FAISS has it (`FaissGpus.cagra`)
    """
    lists = min(_LISTS_AT_MOST, max(16, 2 ** int(np.log2(4.0 * np.sqrt(max(1, count))))))
    first = min(lists, 16)
    plans = [
        GpuPlan(GpuKind.FLAT_FP16, factor=_FACTORS[GpuKind.FLAT_FP16]),
        GpuPlan(GpuKind.IVF_FLAT, lists, first),
        GpuPlan(GpuKind.IVF_FP16, lists, first),
    ]
    if size := code_bytes(dimension):
        plans.append(GpuPlan(GpuKind.IVF_PQ, lists, first, code_bytes=size, factor=_FACTORS[GpuKind.IVF_PQ]))
    if cagra:
        plans.append(GpuPlan(GpuKind.CAGRA, width=128))
    return tuple(plans)
