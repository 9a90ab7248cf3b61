"""Matrix products of many vectors with many, as quick as the machine makes them, with a bound of their error.

They propose; float32 sums decide. What a product can hide is bounded, so that nothing that belongs to the
answer is missed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.neighbours.points import Vectors

if TYPE_CHECKING:
    import torch

__all__ = ["Products", "cosines_of"]

_BLOCK = 16_384
_GATHER = 4096  # pairs scored at a time: twice 6 MB at 384 dimensions
_ROUNDING = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-12}  # a GPU may take TF32 for float32


@dataclass(frozen=True, slots=True)
class Products:
    """The vectors at some places in the format that is multiplied in, on the device that multiplies."""

    points: Vectors
    places: NDArray[np.int64]  # (m,) place of each row
    rows: "torch.Tensor"  # (m, d)
    error: float  # by how much a product of two rows can be off the cosine that float32 gives

    @classmethod
    def of(cls, points: Vectors, places: NDArray[np.int64], device: str | None = None) -> "Products":
        """device: "cpu", "cuda", None = the best there is; two bytes a number where it multiplies those."""
        import torch

        from nearsay.training.sentence.device import choose_device
        from nearsay.training.sentence.precision import Precision, product_format, resolve_precision
        from nearsay.training.sentence.processor import Processor

        device = choose_device(device)
        dtype = product_format(resolve_precision(Precision.AUTO, device, Processor.detect()))
        rows = torch.empty((places.size, points.dimension), dtype=dtype, device=device)
        off = 0.0
        for begin in range(0, places.size, _BLOCK):
            exact = torch.from_numpy(points.rows(places[begin : begin + _BLOCK]))
            narrow = exact.to(dtype)
            off = max(off, float((exact - narrow.float()).norm(dim=1).max()))
            rows[begin : begin + len(narrow)] = narrow.to(device)
        name = str(dtype).removeprefix("torch.")
        return cls(points, places, rows, _error(off, points.dimension, name, device))

    def __len__(self) -> int:
        return int(self.places.size)

    def between(self, first: "slice | NDArray[np.int64]", second: slice) -> "torch.Tensor":
        """The products (q, r) of the rows named first with those named second, in the narrow format."""
        import torch

        with torch.inference_mode():
            queries = self.rows[first if isinstance(first, slice) else torch.from_numpy(first)]
            return queries @ self.rows[second].T

    def again(self, first: "slice | NDArray[np.int64]", second: slice) -> tuple["torch.Tensor", float]:
        """The same in float32 on the CPU, and by how much those can be off: for where all lies close."""
        import torch

        with torch.inference_mode():
            queries = torch.from_numpy(self.points.rows(self.places[first]))
            found = queries @ torch.from_numpy(self.points.rows(self.places[second])).T
        return found, _error(0.0, self.points.dimension, "exact", "cpu")


def cosines_of(points: Vectors, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float32]:
    """The cosines (m,) of the vectors at the first places with those at the second.

    In float32 by numpy's einsum, whose sum for two vectors depends on nothing but them.
    """
    order = np.lexsort((second, first))
    cosines = np.empty(first.size, dtype=np.float32)
    for begin in range(0, first.size, _GATHER):
        some = order[begin : begin + _GATHER]
        cosines[some] = np.einsum("ij,ij->i", points.rows(first[some]), points.rows(second[some]))
    return cosines


def _error(off: float, dimension: int, name: str, device: str) -> float:
    """Bound |product - cosine| for unit vectors whose rounded forms lie `off` from them at most.

    Rounding the vectors: 2 off + off^2 (Cauchy-Schwarz). Summing in float32, here and in what decides: 2 d u
    each (Higham 2002, section 3.1). Rounding the product: half a unit in its last place, at 1 at most.
    """
    summing = 4.04 * 2.0**-24 * dimension
    rounding = 0.0 if name == "exact" or (name == "float32" and device == "cpu") else _ROUNDING[name]
    if name == "float32" and device != "cpu":
        return summing + 4.0 * rounding
    return 2.0 * off + off * off + summing + 1.01 * rounding * (1.0 + 2.0 * off)
