"""How many operations a second the hardware can do."""

import re
import time

import torch

from nearsay.training.encoder.precision import Precision

__all__ = ["hardware_peak"]

# Dense bfloat16 and float16 products of the makers' data sheets, operations a second.
_PUBLISHED = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "4090": 165e12,
}
_FORMATS = {Precision.BFLOAT16: torch.bfloat16, Precision.FLOAT16: torch.float16}
# Of the square product that is timed where nothing is published; short on a CPU, where others may cut in.
_SIDE = {"cpu": 1024}
_GPU_SIDE = 4096
_SECONDS = 0.2


def hardware_peak(device: str, precision: Precision) -> float:
    """Give the peak of matrix products, operations a second.

    A data sheet's figure for the GPUs that are known and narrow precisions; else the best of some timed
    products, which takes a fifth of a second.
    """
    narrow = precision is not Precision.FLOAT32
    if device.startswith("cuda") and narrow:
        name = torch.cuda.get_device_name(device)
        for part, peak in _PUBLISHED.items():
            if re.search(rf"{part}(?![0-9A-Z])", name):  # an L40 is no L4
                return peak
    dtype = _FORMATS.get(precision, torch.float32)
    side = _SIDE.get(device, _GPU_SIDE)
    left = torch.ones(side, side, dtype=dtype, device=device)
    right = torch.ones(side, side, dtype=dtype, device=device)
    best, begun = float("inf"), time.perf_counter()
    while time.perf_counter() - begun < _SECONDS or best == float("inf"):
        start = time.perf_counter()
        torch.mm(left, right)[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return 2.0 * side**3 / best
