"""An encoder's weight files: their hashes, their tensors, and whether they are complete."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.data.known_hashes import known_sha256
from nearsay.training.encoder.folder import EncoderFolder, UnsupportedEncoderError

__all__ = [
    "StoredTensor",
    "combined_sha256",
    "modern_name",
    "require_complete",
    "stored_tensors",
    "weight_hashes",
]


def weight_hashes(folder: EncoderFolder) -> dict[str, str]:
    """Give the hex sha256 of each weight file, by its path inside the folder (see `known_sha256`)."""
    return {file.relative_to(folder.path).as_posix(): known_sha256(file) for file in folder.weight_files()}


def combined_sha256(hashes: Mapping[str, str]) -> str:
    """Give one hash for all weights: the file's own when there is one, else that of the sorted list."""
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(listing.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a safetensors file holds a tensor; https://github.com/huggingface/safetensors#format."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int  # bytes from the file's beginning

    def read(self) -> NDArray[np.float32]:
        """The tensor as float32. It is read and not mapped: a file written anew would end the process."""
        formats = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
        if self.dtype not in formats:
            raise UnsupportedEncoderError(f"its weights are stored as {self.dtype}")
        stored = np.dtype(formats[self.dtype])
        array = np.fromfile(self.file, stored, math.prod(self.shape), offset=self.start)
        if array.size != math.prod(self.shape):
            raise UnsupportedEncoderError(f"{self.file.name} ends too early")
        array = array.reshape(self.shape)
        if self.dtype == "BF16":  # the upper half of a float32
            return (array.astype("<u4") << 16).view("<f4")
        return array.astype(np.float32, copy=False)


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """The tensors of the weights that sentence-transformers would load: of one file, or of its parts."""
    found: dict[str, StoredTensor] = {}
    whole = folder / "model.safetensors"
    for file in [whole] if whole.is_file() else sorted(folder.glob("model-*-of-*.safetensors")):
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            try:
                header = json.loads(stream.read(min(length, file.stat().st_size)))
            except ValueError as error:
                raise UnsupportedEncoderError(f"{file.name} is no safetensors file") from error
        header.pop("__metadata__", None)
        for name, entry in header.items():
            start = 8 + length + entry["data_offsets"][0]
            found[name] = StoredTensor(file, entry["dtype"], tuple(entry["shape"]), start)
    return found


def require_complete(folder: EncoderFolder, parameters: Iterable[str]) -> None:
    """Raise NearsayError when the transformer has parameters that its weight files do not give.

    transformers fills those with random numbers and says so in a log line alone, which gives other vectors on
    each loading. BERT's pooler may be missing: pooling does not use it.

    parameters: the transformer's parameter names; files may hold them under a prefix ("bert.") or old names
    """
    from safetensors import safe_open

    stored: set[str] = set()
    for file in folder.transformer_folder().glob("*.safetensors"):
        with safe_open(file, framework="numpy") as tensors:
            stored.update(modern_name(name) for name in tensors.keys())  # noqa: SIM118 - a reader, not a dict
    endings = {ending for name in stored for ending in _endings(name)}
    missing = [
        name
        for name in parameters
        if "pooler." not in name and name not in endings and not any(end in stored for end in _endings(name))
    ]
    if missing:
        raise NearsayError(
            f"the weights in {folder.transformer_folder()} lack {len(missing)} of the encoder's parameters, "
            f"{missing[0]!r} first. Save the encoder again, or copy its folder again"
        )


def modern_name(name: str) -> str:
    """Give the name that transformers has for a parameter today."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _endings(name: str) -> list[str]:
    """The name, and the name without its first parts, while more than its last two are left."""
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(max(len(parts) - 1, 1))]
