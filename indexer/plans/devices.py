"""Which GPUs FAISS can really use, and the reason in one sentence when it can use none.

That CUDA is there says little: faiss-cpu may be installed instead of faiss-gpu, CUDA's libraries may be
missing, the driver may be, or the GPU may not run the build's kernels. Each is found out and said.
Of this, a GPU that works has never been met; the refusals have (faiss-cpu, faiss-gpu without CUDA's
libraries, faiss-gpu without a driver).
"""

import ctypes
import functools
import importlib
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass

from nearsay.data.errors import first_line

__all__ = [
    "NO_ROOM",
    "FaissGpus",
    "Gpu",
    "find_gpus",
    "free_bytes",
    "plain_reason",
    "requested_gpus",
    "wants_gpu",
]

NO_ROOM = "the GPU has no room for it"
_INSTALL = "Install it: pip uninstall faiss-cpu, then pip install 'nearsay[gpu]'"
_PROBE_SECONDS = 120  # CUDA's first start on a machine of many GPUs takes tens of seconds
_MESSAGE = re.compile(
    r"Error: (?:'.*?' failed: )?(.+)", re.DOTALL
)  # FAISS: Error in F at FILE:LINE: Error: …


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that FAISS computes on."""

    number: int  # as in cuda:NUMBER, within CUDA_VISIBLE_DEVICES
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
    chosen = tuple(gpu for gpu in there.gpus if device in ("cuda", gpu.device))
    if chosen:
        return chosen, ""
    known = ", ".join(gpu.device for gpu in there.gpus)
    return (), f"FAISS cannot use {device}, only {known}; the CPU searches"


def find_gpus() -> FaissGpus:
    """The GPUs that FAISS has computed on; each is tried once a process, its free memory asked every time."""
    try:
        faiss = importlib.import_module("faiss")
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: faiss-gpu without CUDA's libraries
        if isinstance(error, ModuleNotFoundError) and error.name == "faiss":
            return FaissGpus((), f"FAISS is not installed. {_INSTALL}")
        return FaissGpus((), f"FAISS cannot be imported ({first_line(error)})")
    if not hasattr(faiss, "StandardGpuResources"):
        return FaissGpus((), f"the FAISS that is installed is faiss-cpu, which knows no GPU. {_INSTALL}")
    try:
        count = int(faiss.get_num_gpus())
    except RuntimeError as error:
        return FaissGpus((), f"FAISS cannot ask for GPUs ({plain_reason(error)})")
    if not count:
        return FaissGpus((), f"FAISS finds no GPU: {_why_none()}")
    tried = {number: _tried(number) for number in range(count)}
    gpus = tuple(Gpu(number, free_bytes(number)) for number, said in tried.items() if not said)
    reasons = [f"cuda:{number} is there but does not work ({said})" for number, said in tried.items() if said]
    return FaissGpus(gpus, "" if gpus else "; ".join(reasons))


def free_bytes(number: int) -> int | None:
    """The memory that a GPU has left; None when torch cannot say, as a torch without CUDA cannot."""
    import torch

    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        return None
    return int(torch.cuda.mem_get_info(number)[0])


def plain_reason(error: BaseException) -> str:
    """What FAISS means by an error on a GPU, as a clause."""
    said = str(error)
    if isinstance(error, MemoryError) or "out of memory" in said or "alloc fail" in said:
        return NO_ROOM
    if "no kernel image" in said:
        return "this FAISS was built without code for this GPU"
    if "Invalid GPU device" in said:
        return "that GPU is not there"
    message = _MESSAGE.search(said)
    return first_line(RuntimeError(message.group(1))) if message else first_line(error)


def _why_none() -> str:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides every one"
    return "there is an NVIDIA driver, so look at nvidia-smi"


@functools.cache
def _tried(number: int) -> str:
    """What a search on the GPU ended with; "" = well.

    FAISS ends the whole process when a kernel cannot be started (a GPU that is too old or too new for the
    build, a driver that is broken), which no `except` catches: the first search has a process of its own.
    """
    program = f"{inspect.getsource(_probe)}\nprint(_probe({number}), end='')"
    try:
        ran = subprocess.run(  # noqa: S603 - our own function, an integer
            [sys.executable, "-P", "-c", program],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_PROBE_SECONDS} seconds"
    if ran.returncode == 0:
        return plain_reason(RuntimeError(ran.stdout)) if ran.stdout else ""
    return plain_reason(RuntimeError(ran.stderr.strip() or f"exit status {ran.returncode}"))


def _probe(number: int) -> str:
    """Search two vectors on one GPU; "" if the answer is right, else what went wrong. Stands alone."""
    import faiss
    import numpy as np

    try:
        settings = faiss.GpuIndexFlatConfig()
        settings.device = number
        settings.useFloat16 = True
        index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), 8, settings)
        vectors = np.eye(2, 8, dtype=np.float32)
        index.add(vectors)
        found = index.search(vectors, 1)[1].ravel().tolist()
    except Exception as error:  # noqa: BLE001 - FAISS raises what it likes; all of it is an answer here
        return str(error) or type(error).__name__
    return "" if found == [0, 1] else f"it answers wrongly: {found}"
