"""An encoder's weight files: their hashes, their tensors, and whether they are complete."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.data.known_hashes import known_sha256
from nearsay.training.encoder.folder import EncoderFolder, UnsupportedEncoderError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

_LANGUAGE_MODEL_HEADS = ("cls.", "lm_head.")  # they come after the last layer, and change none of its numbers


def weight_hashes(folder: EncoderFolder) -> dict[str, str]:
    """Return the hex sha256 of each weight file, by its path inside the folder (see `known_sha256`)."""
    return {file.relative_to(folder.path).as_posix(): known_sha256(file) for file in folder.weight_files()}


def combined_sha256(hashes: Mapping[str, str]) -> str:
    """Return one hash for all weights: the file's own when there is one, else that of the sorted list."""
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(listing.encode()).hexdigest()


_FORMATS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a safetensors file holds a tensor; https://github.com/huggingface/safetensors#format."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int  # bytes from the file's beginning

    @property
    def nbytes(self) -> int:
        """How many the file holds of it; raises UnsupportedEncoderError for a format that is not known."""
        return math.prod(self.shape) * self._format.itemsize

    @property
    def _format(self) -> np.dtype[Any]:
        if self.dtype not in _FORMATS:
            raise UnsupportedEncoderError(f"its weights are stored as {self.dtype}")
        return np.dtype(_FORMATS[self.dtype])

    def read(self) -> NDArray[np.float32]:
        """The tensor as float32. It is read and not mapped: a file written again would end the process."""
        array = np.fromfile(self.file, self._format, math.prod(self.shape), offset=self.start)
        array = array.reshape(self.shape)
        if self.dtype == "BF16":  # the upper half of a float32
            return (array.astype("<u4") << 16).view("<f4")
        return array.astype(np.float32, copy=False)


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """The tensors of the weights that sentence-transformers would load: of one file, or of its parts."""
    found: dict[str, StoredTensor] = {}
    files = [folder / "model.safetensors"]
    if not files[0].is_file():  # parts that its index does not name are left from other weights
        listed = EncoderFolder(folder).read_settings("model.safetensors.index.json").get("weight_map")
        files = sorted({folder / str(name) for name in listed.values()}) if isinstance(listed, dict) else []
    for file in files:
        if not file.is_file():
            raise UnsupportedEncoderError(f"its part {file.name} is missing")
        with file.open("rb") as stream:
            length, size = int.from_bytes(stream.read(8), "little"), file.stat().st_size
            try:
                header: dict[str, Any] = json.loads(stream.read(min(length, size)))
                header.pop("__metadata__", None)
                for name, entry in header.items():
                    begin, end = map(index, entry["data_offsets"])
                    shape, start = tuple(map(index, entry["shape"])), 8 + length + begin
                    found[name] = tensor = StoredTensor(file, entry["dtype"], shape, start)
                    if begin < 0 or 8 + length + end > size:
                        raise UnsupportedEncoderError(f"{file.name} ends too early")
                    if tensor.dtype in _FORMATS and tensor.nbytes != end - begin:
                        raise UnsupportedEncoderError(
                            f"{name} in {file.name} has another size than its shape"
                        )
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                raise UnsupportedEncoderError(f"{file.name} is no safetensors file") from error
    return found


def require_complete(
    folder: EncoderFolder, model: "PreTrainedModel", *, exactly: bool = False, pooler: bool = False
) -> None:
    """Raise NearsayError when the transformer has parameters that its weight files do not give.

    transformers fills those with random numbers and says so in a log line alone, which gives other vectors on
    each loading.

    model:   as it was loaded from the folder. Files may hold its parameters under a prefix ("bert."), old
             names, or, where transformers converts a kind's weights, several in one tensor: where the names
             do not match, transformers itself is asked what it found, which takes a second loading
    exactly: the files must hold nothing that the model lacks, either, but for a language model's head
    pooler:  BERT's pooler is wanted too, which a cross-encoder's score comes out of and pooling does not use
    """
    from safetensors import safe_open

    stored: set[str] = set()
    for file in folder.transformer_folder().glob("*.safetensors"):
        with safe_open(file, framework="numpy") as tensors:
            stored.update(modern_name(name) for name in tensors.keys())  # noqa: SIM118 - a reader, not a dict
    endings = {ending for name in stored for ending in _endings(name)}
    missing = [
        name
        for name, _ in model.named_parameters()
        if name not in endings and not any(end in stored for end in _endings(name))
    ]
    unexpected: list[str] = []
    if not pooler:
        missing = [name for name in missing if "pooler." not in name]
    if missing or exactly:
        missing, unexpected = _loading_report(folder, type(model))
    if not pooler:
        missing = [name for name in missing if "pooler." not in name]
    place = folder.transformer_folder()
    if missing:
        raise NearsayError(
            f"the weights in {place} lack {len(missing)} of the encoder's parameters, "
            f"{missing[0]!r} first. Save the encoder again, or copy its folder again"
        )
    if unexpected and exactly:
        raise NearsayError(
            f"the weights in {place} hold {len(unexpected)} tensors, {unexpected[0]!r} first, that "
            f"transformers' own {type(model).__name__} has no place for, so it would compute other vectors "
            "than the code that config.json names. Take an encoder that transformers runs by itself"
        )


def _loading_report(folder: EncoderFolder, model: type["PreTrainedModel"]) -> tuple[list[str], list[str]]:
    """What transformers misses in the weight files, and what it has no place for."""
    import torch

    # transformers' annotation knows of the model alone
    loaded: tuple[object, dict[str, Any]] = model.from_pretrained(  # type: ignore[assignment]
        folder.transformer_folder(),
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
    report = loaded[1]
    unexpected = sorted(map(str, report["unexpected_keys"]))
    return (
        sorted(map(str, report["missing_keys"])),
        [name for name in unexpected if not name.startswith(_LANGUAGE_MODEL_HEADS)],
    )


def take_pairs(model: "nn.Module") -> None:
    """Let a model with one number for segments read pairs, in place: the second text gets the first's.

    Tokenizers number the segments of a pair 0 and 1 all the same, and the 1 is no row of its embeddings.
    """
    for name, module in model.named_modules():
        if name.endswith("token_type_embeddings") and getattr(module, "num_embeddings", 0) == 1:
            module.register_forward_pre_hook(lambda _, numbers: (numbers[0] * 0,))


def modern_name(name: str) -> str:
    """Return the name that transformers has for a parameter today."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _endings(name: str) -> list[str]:
    """The name, and the name without its first parts, while more than its last two are left."""
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(max(len(parts) - 1, 1))]
