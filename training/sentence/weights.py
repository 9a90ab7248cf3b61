"""An encoder's weight files: their hashes, and whether they are complete."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from nearsay.data.errors import NearsayError
from nearsay.training.sentence.folder import EncoderFolder

__all__ = ["combined_sha256", "file_sha256", "require_complete", "weight_hashes"]


def weight_hashes(folder: EncoderFolder) -> dict[str, str]:
    """Give the hex sha256 of each weight file, by its path inside the folder."""
    return {file.relative_to(folder.path).as_posix(): file_sha256(file) for file in folder.weight_files()}


def combined_sha256(hashes: Mapping[str, str]) -> str:
    """Give one hash for all weights: the file's own when there is one, else that of the sorted list."""
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(listing.encode()).hexdigest()


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
            stored.update(_modern(name) for name in tensors.keys())  # noqa: SIM118 - a reader, not a dict
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


def _modern(name: str) -> str:
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _endings(name: str) -> list[str]:
    """The name, and the name without its first parts, while more than its last two are left."""
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(max(len(parts) - 1, 1))]


def file_sha256(file: Path) -> str:
    """Give the hex sha256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
