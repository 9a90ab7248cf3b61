"""Vectors in a file of NumPy's, with as many bits as wanted."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.training.sentence.compression.quantisation import Int8Ranges, Numbers, binary_codes

__all__ = ["ranges_file", "read_ranges", "write_vectors"]


def ranges_file(vectors_file: Path) -> Path:
    """The file that the int8 ranges of a file of vectors are in: `v.ranges.npy` for `v.npy`."""
    return vectors_file.with_name(f"{vectors_file.name.removesuffix('.npy')}.ranges.npy")


def write_vectors(
    out: Path, vectors: NDArray[np.float32], *, numbers: str = "float32", ranges: Path | None = None
) -> tuple[str, ...]:
    """Write (n, dimension) vectors as float32, float16, int8 or binary; give notes on what was lost.

    ranges: with int8, a file of `ranges_file` to take ranges from; None measures the vectors' own

    Int8 ranges are written first, whole as every file, so that codes never stand without them. Raises
    BadInputError for ranges of another dimension or kind, and as `replacing` does.
    """
    wanted = Numbers(numbers)
    if ranges is not None and wanted is not Numbers.INT8:
        raise BadInputError(f"{wanted} vectors have no ranges. Leave --ranges out, or take --dtype int8")
    stored: NDArray[np.generic]
    notes: tuple[str, ...] = ()
    if wanted is Numbers.INT8:
        taken = Int8Ranges.of([vectors]) if ranges is None else read_ranges(ranges, vectors.shape[1])
        beyond = int(((vectors < taken.low) | (vectors > taken.high)).any(axis=1).sum())
        with replacing(ranges_file(out)) as stream:
            np.save(stream, np.stack([taken.low, taken.high]))
        stored = taken.codes(vectors)
        if beyond:
            notes = (f"{beyond:,} of {len(vectors):,} vectors reach beyond the ranges and are cut there",)
    elif wanted is Numbers.BINARY:
        stored = binary_codes(vectors)
    else:
        stored = vectors.astype(np.float16 if wanted is Numbers.FLOAT16 else np.float32, copy=False)
    with replacing(out) as stream:
        np.save(stream, stored)
    return notes


def read_ranges(file: Path, dimension: int) -> Int8Ranges:
    """Read int8 ranges; BadInputError unless the file holds them for this dimension."""
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
    return Int8Ranges(array[0], array[1])
