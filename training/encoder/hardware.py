"""What a machine computes with: its device, its processor's units, the precision they are good for."""

import ctypes
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from nearsay.data.errors import BadInputError, first_line

if TYPE_CHECKING:  # it takes a second to import, and options that name a precision are checked without it
    import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's names in malloc.h
_LARGE_BLOCK = 32 * 2**20  # bytes, from which on a block is mapped on its own, and unmapped when it is freed


@dataclass(frozen=True, slots=True)
class Processor:
    """The instruction sets that decide how fast an encoder runs on the CPU."""

    name: str
    avx2: bool
    avx512: bool
    avx512_bf16: bool
    amx_bf16: bool

    @property
    def multiplies_bfloat16(self) -> bool:
        """Whether bfloat16 products run on units of their own; emulated ones are a hundred times slower."""
        return self.amx_bf16 or self.avx512_bf16

    @property
    def instruction_sets(self) -> tuple[str, ...]:
        """The names of what it has, for people."""
        present = {
            "AVX2": self.avx2,
            "AVX512": self.avx512,
            "AVX512-BF16": self.avx512_bf16,
            "AMX-BF16": self.amx_bf16,
        }
        return tuple(name for name, there in present.items() if there)

    @classmethod
    def detect(cls) -> "Processor":
        """Ask torch; where its version cannot say (2.10 to 2.12), ask the probes it had before."""
        import torch

        capabilities = getattr(torch.cpu, "get_capabilities", None)
        return _from_capabilities(capabilities()) if capabilities is not None else _from_probes()


def _from_capabilities(capabilities: dict[str, Any]) -> Processor:
    return Processor(
        name=str(capabilities.get("cpu_name") or platform.machine()),
        avx2=bool(capabilities.get("avx2")),
        avx512=bool(capabilities.get("avx512_f")),
        avx512_bf16=bool(capabilities.get("avx512_bf16")),
        amx_bf16=bool(capabilities.get("amx_bf16")),
    )


def _from_probes() -> Processor:
    import torch

    level = torch.backends.cpu.get_cpu_capability()  # "DEFAULT", "AVX2", "AVX512", or another family's name
    return Processor(
        name=platform.processor() or platform.machine(),
        avx2=level in {"AVX2", "AVX512"},
        avx512=level == "AVX512",
        avx512_bf16=_probe("_is_avx512_bf16_supported"),
        # Every processor with AMX tiles so far multiplies bfloat16 in them.
        amx_bf16=_probe("_is_amx_tile_supported"),
    )


def _probe(name: str) -> bool:
    import torch

    probe = getattr(torch.cpu, name, None)
    return bool(probe()) if probe is not None else False


logger = logging.getLogger("nearsay")


class Precision(StrEnum):
    """AUTO is bfloat16 where the device has units for it and float32, the exact one, elsewhere."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


def resolve_precision(requested: Precision, device: str, processor: Processor) -> Precision:
    """Turn AUTO into what the device is fast at, and check what was asked for by name.

    device: "cpu", "cuda", "cuda:1", "mps"
    Raises BadInputError for float16 on a CPU, which cannot multiply it.
    """
    import torch

    kind = torch.device(device).type
    fast_bfloat16 = {
        "cpu": processor.multiplies_bfloat16,
        "cuda": kind == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False),
    }.get(kind, False)
    if requested is Precision.AUTO:
        return Precision.BFLOAT16 if fast_bfloat16 else Precision.FLOAT32
    if requested is Precision.FLOAT16 and kind == "cpu":
        raise BadInputError("float16 needs a GPU. Take precision float32, bfloat16 or auto on the CPU")
    if requested is Precision.BFLOAT16 and not fast_bfloat16:
        logger.warning("%s has no bfloat16 units: this will be many times slower than float32", device)
    return requested


def choose_hardware(device: str | None, precision: Precision) -> tuple[str, Precision]:
    """Return the device to use and the precision resolved for it; BadInputError as the two raise it."""
    chosen = choose_device(device)
    return chosen, resolve_precision(Precision(precision), chosen, Processor.detect())


def product_format(precision: Precision) -> "torch.dtype":
    """Return the number format of a resolved precision's matrix products."""
    import torch

    narrow = {Precision.BFLOAT16: torch.bfloat16, Precision.FLOAT16: torch.float16}
    return narrow.get(precision, torch.float32)


def narrow_linear_weights(model: "torch.nn.Module", precision: Precision) -> None:
    """Store the linear layers' weights in the narrow format, in place; float32 changes nothing.

    The layer norms, the residual sums and the pooling stay float32. Converting once matters because autocast
    keeps no converted copy of weights that need no gradient: it would convert them again for every batch.
    """
    import torch

    if (narrow := product_format(precision)) is not torch.float32:
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.to(narrow)


@contextmanager
def computing_in(precision: Precision, device: str) -> Iterator[None]:
    """Run what is inside without gradients, its matrix products in the precision's format."""
    import torch

    with torch.inference_mode(), autocast(precision, device), attention_of_any_shape(device):
        yield


def autocast(precision: Precision, device: str) -> "torch.autocast":
    """Return the block in which matrix products are in the format of a resolved precision."""
    import torch

    narrow = None if (found := product_format(precision)) is torch.float32 else found
    return torch.autocast(torch.device(device).type, dtype=narrow, enabled=narrow is not None)


@contextmanager
def attention_of_any_shape(device: str) -> Iterator[None]:
    """Keep cuDNN out of attention on a CUDA GPU, for the whole process until the block ends.

    Where torch asks cuDNN first, as on Hopper, it plans again for each number of texts and tokens that it has
    not seen, forward and backward, while the GPU waits: batches of texts have another shape nearly each time.
    tests/benchmarks/results/gpu_cudnn.json
    """
    import torch

    if torch.device(device).type != "cuda":
        yield
        return
    before: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def choose_device(requested: str | None = None) -> str:
    """Return the device to use: the one asked for, else a working CUDA GPU, Apple's GPU, or the CPU.

    Raises BadInputError for a device that is not there or does not work. Where it is the CPU, the process
    keeps the memory that each batch frees for the next one.
    """
    import torch

    if requested is None or requested == "auto":
        if _cuda_works():
            return "cuda"
        chosen = "mps" if torch.backends.mps.is_available() else "cpu"
    else:
        _require(requested)
        chosen = requested
    if chosen == "cpu":
        _keep_freed_memory()
    return chosen


@cache
def _keep_freed_memory() -> None:
    """Have glibc keep up to 64 MB of freed memory a heap, instead of asking the system for it batch by batch.

    A forward pass in float32 spent a twelfth of its time on new pages. The limits are those that glibc goes
    to by itself once a block of 32 MB has been freed (mallopt(3)): a process may hold as much anyway.
    """
    adjust = getattr(ctypes.CDLL(None), "mallopt", None) if platform.libc_ver()[0] == "glibc" else None
    if adjust is None or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return  # whoever set these knows better
    adjust(_TRIM_THRESHOLD, 2 * _LARGE_BLOCK)
    adjust(_MMAP_THRESHOLD, _LARGE_BLOCK)


def _require(requested: str) -> None:
    import torch

    remedy = f"Available: {', '.join(_available())}. Name one of these, or none to have it chosen"
    try:
        device = torch.device(requested)
    except RuntimeError as error:
        raise BadInputError(f"there is no device {requested!r}. {remedy}") from error
    there = {
        "cpu": True,
        "mps": torch.backends.mps.is_available(),
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
    }
    if not there.get(device.type, False):
        raise BadInputError(f"there is no device {requested!r}, or torch was built without it. {remedy}")
    if device.type == "cuda" and (fault := _cuda_fault(requested)):
        raise BadInputError(f"{fault}. Or take the CPU: --device cpu")


def _available() -> list[str]:
    import torch

    cuda = (
        [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *cuda, *mps]


def _cuda_works() -> bool:
    """Whether a kernel really runs: a GPU that is too old, broken or full still counts as available."""
    import torch

    if not torch.cuda.is_available():
        return False
    if fault := _cuda_fault("cuda"):
        logger.warning("%s. The CPU is used meanwhile; --device cpu says that it is meant to be", fault)
    return not fault


def _cuda_fault(device: str) -> str:
    """Why a CUDA GPU that counts as available runs no kernel, and what to do; "" if it runs one."""
    import torch

    try:
        torch.ones(1, device=device).add_(1).item()
    except RuntimeError as error:
        said = first_line(error)
        if "out of memory" in said or "busy or unavailable" in said:  # busy: it serves one process alone
            another = ", or name another GPU, as in --device cuda:1" if torch.cuda.device_count() > 1 else ""
            return (
                f"the GPU's memory is taken by another program ({said}). See by which: nvidia-smi. "
                f"End that one{another}"
            )
        return f"a GPU is there but does not work ({said})"
    return ""
