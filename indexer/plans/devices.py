"""Which GPUs FAISS can really use, and the reason in one sentence when it can use none.

That CUDA is there says little: faiss-cpu may be installed instead of faiss-gpu, CUDA's libraries may be
missing, the driver may be, or the GPU may not run the build's kernels. Each is found out and said.
Of this, a GPU that works has never been met; the refusals have (faiss-cpu, faiss-gpu without CUDA's
libraries, faiss-gpu without a driver).
"""

import ctypes
import functools
import importlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsay.data.errors import first_line

__all__ = ["FaissGpus", "Gpu", "find_gpus", "plain_reason", "requested_gpus", "wants_gpu"]

_INSTALL = "Install it: pip uninstall faiss-cpu, then pip install 'nearsay[gpu]'"
_PROBE_SECONDS = 120  # CUDA's first start on a machine of many GPUs takes tens of seconds
_MESSAGE = re.compile(
    r"Error: (?:'.*?' failed: )?(.+)", re.DOTALL
)  # FAISS: Error in F at FILE:LINE: Error: …


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that FAISS computes on."""

    number: int  # as in cuda:NUMBER, within CUDA_VISIBLE_DEVICES
    name: str = ""  # the maker's; empty when torch cannot say
    free_bytes: int | None = None  # at the time of asking; None when torch cannot say

    @property
    def device(self) -> str:
        """As it is named on the command line."""
        return f"cuda:{self.number}"


@dataclass(frozen=True, slots=True)
class FaissGpus:
    """What FAISS can use."""

    gpus: tuple[Gpu, ...]
    reason: str  # why there is none, a sentence without its full stop; empty when there is one
    cagra: bool = False  # whether this FAISS has NVIDIA's cuVS, and so CAGRA


def wants_gpu(device: str | None) -> bool:
    """Whether a library opened on this device is to search on GPUs.

    None and "auto" do not: making a GPU index reads every vector, which pays for a process that stays.
    """
    return device is not None and device.split(":")[0] == "cuda"


def requested_gpus(device: str | None, there: FaissGpus) -> tuple[tuple[Gpu, ...], str]:
    """The GPUs that a device names ("cuda": all of them), and what has to be said if there are none.

    The sentence is empty when no GPU was asked for.
    """
    if device is None or not wants_gpu(device):
        return (), ""
    if not there.gpus:
        return (), f"{there.reason}; the CPU searches"
    _, _, number = device.partition(":")
    if not number:
        return there.gpus, ""
    chosen = tuple(gpu for gpu in there.gpus if str(gpu.number) == number)
    if chosen:
        return chosen, ""
    known = ", ".join(gpu.device for gpu in there.gpus)
    return (), f"FAISS cannot use {device}, only {known}; the CPU searches"


def find_gpus() -> FaissGpus:
    """The GPUs that FAISS has computed on; each is tried once a process, its free memory asked every time."""
    try:
        faiss = importlib.import_module("faiss")
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing == "faiss":
            return FaissGpus((), f"FAISS is not installed. {_INSTALL}")
        return FaissGpus((), f"FAISS cannot be imported ({first_line(error)})")
    except (ImportError, OSError, RuntimeError) as error:  # faiss-gpu without CUDA's libraries
        return FaissGpus((), f"FAISS cannot be imported ({first_line(error)})")
    if not hasattr(faiss, "StandardGpuResources"):
        return FaissGpus((), f"the FAISS that is installed is faiss-cpu, which knows no GPU. {_INSTALL}")
    count, said = _count(faiss)
    if not count:
        return FaissGpus((), said)
    tried = {number: _tried(number) for number in range(count)}
    gpus = tuple(_described(number) for number, said in tried.items() if not said)
    reasons = [f"cuda:{number} is there but does not work ({said})" for number, said in tried.items() if said]
    return FaissGpus(gpus, "" if gpus else "; ".join(reasons), hasattr(faiss, "GpuIndexCagra"))


def plain_reason(error: BaseException) -> str:
    """What FAISS means by an error on a GPU, as a clause."""
    said = str(error)
    if isinstance(error, MemoryError) or "out of memory" in said or "alloc fail" in said:
        return "the GPU has no room for it"
    if "no kernel image" in said:
        return "this FAISS was built without code for this GPU"
    if "Invalid GPU device" in said:
        return "that GPU is not there"
    message = _MESSAGE.search(said)
    return first_line(RuntimeError(message.group(1))) if message else first_line(error)


def _count(faiss: Any) -> tuple[int, str]:  # noqa: ANN401 - FAISS has no types
    try:
        count = int(faiss.get_num_gpus())
    except RuntimeError as error:
        return 0, f"FAISS cannot ask for GPUs ({plain_reason(error)})"
    if count:
        return count, ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not _driver_is_there():
        return 0, "FAISS finds no GPU: there is no NVIDIA driver"
    if visible is not None and visible.strip() in ("", "-1"):
        return 0, "FAISS finds no GPU: CUDA_VISIBLE_DEVICES hides every one"
    return 0, "FAISS finds no GPU, though there is an NVIDIA driver: look at nvidia-smi"


def _driver_is_there() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@functools.cache
def _tried(number: int) -> str:
    """What a search on the GPU ended with; "" = well."""
    probe = Path(__file__).with_name("gpu_probe.py")
    try:
        ran = subprocess.run(  # noqa: S603 - our own file, an integer
            [sys.executable, "-P", str(probe), str(number)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_PROBE_SECONDS} seconds"
    try:
        return plain_reason(RuntimeError(said)) if (said := str(json.loads(ran.stdout)["said"])) else ""
    except (ValueError, KeyError, TypeError):  # FAISS ended the process, as it does when a kernel fails
        return plain_reason(RuntimeError(ran.stderr.strip() or f"exit status {ran.returncode}"))


def _described(number: int) -> Gpu:
    import torch

    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        return Gpu(number)  # a torch without CUDA beside a FAISS with it
    free, _ = torch.cuda.mem_get_info(number)
    return Gpu(number, torch.cuda.get_device_name(number), int(free))
