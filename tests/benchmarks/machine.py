"""What a benchmark's figures depend on, for the JSON that they are kept in."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

from nearsay.training.encoder.hardware import Processor

__all__ = ["commit", "machine"]

_PACKAGES = ("torch", "sentence-transformers", "transformers", "numpy")


def machine() -> dict[str, object]:
    """The processor, its threads, and the versions of what computes."""
    processor = Processor.detect()
    return {
        "processor": processor.name,
        "instruction_sets": processor.instruction_sets,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
    }


def commit() -> str:
    """The commit that is measured; "+changes" after it where files other than results were not committed."""

    def said(*command: str) -> str:
        here = Path(__file__).parent  # wherever the script was started
        found = subprocess.run(["git", *command], cwd=here, capture_output=True, text=True, check=False)
        return found.stdout.strip()

    other = (":/", ":(top,exclude)tests/benchmarks/results")
    changes = "+changes" if said("status", "--porcelain", "--untracked-files=no", "--", *other) else ""
    return said("rev-parse", "HEAD") + changes or "unknown"
