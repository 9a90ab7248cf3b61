"""How large an encoder is, by its files."""

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearsay.data.errors import NearsayError
from nearsay.training.sentence.source import find_encoder

__all__ = ["EncoderSize", "encoder_size"]

_WHOLE_NUMBERS: Final = frozenset({"I64", "U64", "BOOL"})  # positions and masks that are saved beside weights


@dataclass(frozen=True, slots=True)
class EncoderSize:
    """How large an encoder is."""

    parameters: int  # numbers in its weights
    megabytes: float  # of its weight files, 10⁶ bytes


def encoder_size(name_or_folder: str | Path) -> EncoderSize:
    """Count the parameters of an encoder in the headers of its safetensors files; nothing is loaded.

    Raises NearsayError when there is no such encoder, or a file is damaged.
    https://huggingface.co/docs/safetensors (format)
    """
    files = find_encoder(name_or_folder).folder.weight_files()
    return EncoderSize(
        parameters=sum(_parameters(file) for file in files),
        megabytes=sum(file.stat().st_size for file in files) / 1e6,
    )


def _parameters(file: Path) -> int:
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            tensors = json.loads(stream.read(min(length, file.stat().st_size)))
        return sum(
            math.prod(tensor["shape"])
            for name, tensor in tensors.items()
            if name != "__metadata__" and tensor["dtype"] not in _WHOLE_NUMBERS
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise NearsayError(f"{file} is damaged ({error}). Copy or save the encoder again") from error
