"""What a run computes with: device, precision, versions. An exact resume needs them to be the same."""

import importlib.metadata
import logging
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision, Processor, resolve_precision

logger = logging.getLogger("nearsay")

_PACKAGES: Final = ("nearsay", "torch", "transformers", "sentence-transformers", "tokenizers", "numpy")
# These change a result in its last digits, and so often that to refuse a resume for them would be no help.
_MINOR: Final = ("hardware", "threads", "versions.python")


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """Where a run computes, in which format and with which versions."""

    device: str  # its kind: "cpu", "cuda", "mps"
    precision: Precision  # of matrix products; never AUTO
    processes: int  # that share each step
    hardware: str  # the name of the processor or GPU
    threads: int  # that torch divides a product among on the CPU
    versions: Mapping[str, str]  # of Python and of the packages that compute

    @classmethod
    def here(cls, device: str, precision: Precision, *, processes: int = 1) -> Self:
        """Return that of this process; `precision`: as it was asked for, AUTO is resolved for a training.

        BadInputError for a precision that the device does not have.
        """
        import torch

        kind = torch.device(device).type
        found = {"python": platform.python_version()}
        for name in _PACKAGES:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return cls(
            device=kind,
            precision=training_precision(precision, device),
            processes=processes,
            hardware=torch.cuda.get_device_name(device) if kind == "cuda" else Processor.detect().name,
            threads=torch.get_num_threads(),
            versions=found,
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for a run's config.json."""
        return asdict(self)

    def settings(self) -> dict[str, JsonValue]:
        """Return what a model card shows of it."""
        return {"device": self.device, "precision": str(self.precision), "torch": self.versions["torch"]}

    def require_same(self, recorded: Mapping[str, JsonValue], out: Path, *, exact: bool) -> None:
        """Raise BadInputError, or warn where not `exact`, when a run would not be resumed as it began.

        recorded: what `to_json` gave when the run in `out` began; what it lacks is not compared

        Another name of processor or GPU, number of threads or version of Python is only warned of.
        """
        told, now = flat(recorded), flat(self.to_json())
        different = [name for name in now if name in told and told[name] != now[name]]
        if not different:
            return
        changes = "; ".join(f"{name}: {told[name]} there, {now[name]} now" for name in different)
        if exact and not set(different) <= set(_MINOR):
            raise BadInputError(
                f"the run in {out} cannot be resumed exactly here ({changes}). Resume it as it began, "
                "accept a result that is not quite that of an uninterrupted run (--inexact-resume, or "
                "exact_resume=False), or name a new folder"
            )
        logger.warning(
            "the run in %s is resumed, but not exactly as it would have gone on (%s)", out, changes
        )


def training_precision(asked: Precision, device: str) -> Precision:
    """Resolve a precision as encoders do, but to float16 where a CUDA GPU has no units for bfloat16."""
    resolved = resolve_precision(asked, device, Processor.detect())
    if asked is Precision.AUTO and resolved is Precision.FLOAT32 and device.startswith("cuda"):
        return Precision.FLOAT16
    return resolved


def flat(config: Mapping[str, JsonValue], within: str = "") -> dict[str, JsonValue]:
    """A nested setting as `optimisation.steps` or `sets.1.rows`, so that only what differs is told."""
    found: dict[str, JsonValue] = {}
    for name, value in config.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            value = {str(place): one for place, one in enumerate(value, 1)}  # noqa: PLW2901
        found |= flat(value, f"{within}{name}.") if isinstance(value, dict) else {f"{within}{name}": value}
    return found
