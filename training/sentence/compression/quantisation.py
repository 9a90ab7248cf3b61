"""Vectors with fewer bits a number: int8 and binary."""

import os
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError

_LEVELS = 255  # steps between the lowest and the highest of 256 levels


class Numbers(StrEnum):
    """The number format of stored vectors."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"
    BINARY = "binary"  # its sign


def int8_ranges(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The minimum and maximum of each dimension, (2, dimension), of (n, dimension) vectors.

    They define the 256 levels, and are needed for every vector and query.
    """
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)])


def int8_step(ranges: NDArray[np.float32]) -> NDArray[np.float32]:
    """The width of a level, (dimension,); 1 for a constant dimension."""
    step = (ranges[1] - ranges[0]) / np.float32(_LEVELS)
    return np.where(step == 0, np.float32(1), step)


def int8_codes(vectors: NDArray[np.float32], ranges: NDArray[np.float32]) -> NDArray[np.int8]:
    """Quantise to levels, (n, dimension) int8: floor((x - low) / step), clipped to 0…255, minus 128.

    Equal to sentence_transformers.util.quantization.quantize_embeddings(vectors, "int8", ranges).
    """
    levels = np.clip(np.floor((vectors - ranges[0]) / int8_step(ranges)), 0, _LEVELS)
    codes: NDArray[np.int8] = (levels - 128).astype(np.int8)
    return codes


def int8_restored(codes: NDArray[np.int8], ranges: NDArray[np.float32]) -> NDArray[np.float32]:
    """The centre of each number's level, (n, dimension) float32, at most half a step off."""
    levels = codes.astype(np.float32) + np.float32(128.5)
    restored: NDArray[np.float32] = levels * int8_step(ranges) + ranges[0]
    return restored


def binary_codes(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The signs as bits, 1 for positive: (n, ceil(dimension / 8)) uint8, most significant bit first.

    Equal to sentence_transformers.util.quantization.quantize_embeddings(vectors, "ubinary"). Yamada et al.
    2021, https://arxiv.org/abs/2106.00882
    """
    return np.packbits(vectors > 0, axis=-1)


def signs(codes: NDArray[np.uint8], dimension: int) -> NDArray[np.float32]:
    """Convert bits to -1 and 1, (n, dimension) float32; their cosine is 1 - 2 distance / dimension."""
    return np.unpackbits(codes, axis=-1, count=dimension).astype(np.float32) * 2 - 1


def ranges_file(vectors_file: Path) -> Path:
    """The file of the int8 ranges for a file of vectors: `v.ranges.npy` for `v.npy`."""
    return vectors_file.with_name(f"{vectors_file.name.removesuffix('.npy')}.ranges.npy")


def write_vectors(
    out: Path, vectors: NDArray[np.float32], *, numbers: str = "float32", ranges: Path | None = None
) -> tuple[str, ...]:
    """Write (n, dimension) vectors as float32, float16, int8 or binary. Returns notes on what was lost.

    ranges: with int8, a file of `ranges_file` with the ranges to use; None = those of these vectors

    Int8 ranges are replaced after the codes are written, so that a full disk leaves both files unchanged.
    Raises BadInputError for ranges of another dimension or type, and like `replacing`.
    """
    wanted = Numbers(numbers)
    if ranges is not None and wanted is not Numbers.INT8:
        raise BadInputError(f"{wanted} vectors have no ranges. Leave --ranges out, or take --dtype int8")
    stored: NDArray[np.generic]
    taken: NDArray[np.float32] | None = None
    notes: tuple[str, ...] = ()
    if wanted is Numbers.INT8:
        taken = int8_ranges(vectors) if ranges is None else read_ranges(ranges, vectors.shape[1])
        beyond = int(((vectors < taken[0]) | (vectors > taken[1])).any(axis=1).sum())
        stored = int8_codes(vectors, taken)
        if beyond:
            notes = (f"{beyond:,} of {len(vectors):,} vectors reach beyond the ranges and are cut there",)
    elif wanted is Numbers.BINARY:
        stored = binary_codes(vectors)
    else:
        stored = vectors.astype(np.float16 if wanted is Numbers.FLOAT16 else np.float32, copy=False)
    stored = np.ascontiguousarray(stored)
    with replacing(out) as stream:  # np.save asks it for its place, which a pipe has not
        npy.write_array_header_1_0(stream, npy.header_data_from_array_1_0(stored))
        stream.write(stored.data)
        if taken is not None:
            stream.flush()
            os.fsync(stream.fileno())
            with replacing(ranges_file(out)) as beside:
                np.save(beside, taken)
    return notes


def read_ranges(file: Path, dimension: int) -> NDArray[np.float32]:
    """Read int8 ranges, (2, dimension); BadInputError unless the file has them for this dimension."""
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise BadInputError(
            f"{file} cannot be read ({reason}). Name the .ranges.npy of int8 vectors"
        ) from error
    if not isinstance(array, np.ndarray) or array.shape != (2, dimension) or array.dtype != np.float32:
        shape = getattr(array, "shape", "several arrays")
        raise BadInputError(
            f"{file} holds {shape}, not the float32 ranges (2, {dimension}) of vectors like these. "
            "Name the .ranges.npy that was written with vectors of the same encoder"
        )
    if not (np.isfinite(array).all() and (array[0] <= array[1]).all()):
        raise BadInputError(
            f"{file} does not hold a finite lowest and highest number for each dimension. Write the vectors "
            "that it belongs to again"
        )
    return array
