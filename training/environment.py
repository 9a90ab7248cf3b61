"""What is installed, what the machine has, and what an encoder computes with here."""

import importlib.metadata
import platform
import sqlite3
import sys

import torch

from nearsay.data.report import Finding
from nearsay.training.encoder.hardware import Precision, Processor, choose_device, resolve_precision

_PACKAGES = ("nearsay", "torch", "transformers", "sentence-transformers", "tokenizers", "sqlalchemy", "numpy")
_FAISS = ("faiss-cpu", "faiss-gpu")


def environment(device: str | None = None, precision: str = "auto") -> list[Finding]:
    """Versions, processor, devices and the precision in use; BadInputError if the device is not there."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    faiss = [f"{name} {version}" for name in _FAISS if (version := _version(name))]
    processor = Processor.detect()
    chosen = choose_device(device)
    resolved = resolve_precision(Precision(precision), chosen, processor)
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [
        Finding("versions", f"Python {platform.python_version()}, " + ", ".join(versions), sound=True),
        Finding("SQLite", sqlite3.sqlite_version, sound=sqlite3.sqlite_version_info >= (3, 38)),
        Finding(
            "FAISS",
            ", ".join(faiss) or "not installed: search is exact at any size (pip install 'nearsay[cpu]')",
            sound=True,
        ),
        Finding(
            "processor",
            f"{processor.name}, {torch.get_num_threads()} threads, "
            f"{', '.join(processor.instruction_sets) or 'no vector units known'}, {sys.platform}",
            sound=True,
        ),
        Finding("GPUs", ", ".join(gpus) or "none", sound=True),
        Finding("encoders run on", f"{chosen} in {resolved}", sound=True),
    ]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
