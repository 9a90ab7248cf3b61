"""A NumPy array file, written a block of rows at a time."""

from collections.abc import Iterable
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

__all__ = ["write_array"]


def write_array(stream: IO[bytes], shape: tuple[int, int], blocks: Iterable[NDArray[np.float32]]) -> None:
    """Write an .npy file of float32 rows, a block at a time.

    Raises ValueError when the blocks have not `shape[0]` rows of `shape[1]` numbers together.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    rows = 0
    for block in blocks:
        if block.shape[1:] != shape[1:]:
            raise ValueError(f"a block of shape {block.shape} does not fit into an array of shape {shape}")
        stream.write(np.ascontiguousarray(block, dtype="<f4").data)
        rows += len(block)
    if rows != shape[0]:
        raise ValueError(f"{rows} rows were given for an array of {shape[0]}")
