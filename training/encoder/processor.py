"""What this machine's processor can compute."""

import platform
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Processor"]


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
    probe = getattr(torch.cpu, name, None)
    return bool(probe()) if probe is not None else False
