"""Arrays that are written once to a file, memory-mapped, and read by number: what need not fit memory."""

import contextlib
import mmap
import tempfile
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearsay.data.durable import write_refusal

Scalar = TypeVar("Scalar", bound=np.generic)


class MappedArray(Generic[Scalar]):
    """An array that is written at its end, block after block, and mapped when it is whole.

    The file has no name from the beginning, or, where a file system has no such files, from a moment after
    it: whatever ends the process, a kill included, nothing is left of it, and its space is free as soon as
    nothing maps it any more. Used in a `with` block, after which it is closed and what was mapped stays.
    DiskFullError or NearsayError when it cannot be written.
    """

    def __init__(self, dtype: type[Scalar], folder: Path | None = None) -> None:
        """`folder`: on whose file system the file is; None = the system's folder for temporary files."""
        self._dtype = np.dtype(dtype)
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._bytes = 0
        try:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see __exit__
        except OSError as error:
            raise write_refusal(self._folder, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; what was mapped stays."""
        with contextlib.suppress(OSError):  # a full disk, which was told already
            self._file.close()

    def append(self, values: NDArray[Scalar] | bytes) -> None:
        """Write values at the end."""
        data = values if isinstance(values, bytes) else np.ascontiguousarray(values, self._dtype).data
        try:
            self._bytes += self._file.write(data)
        except OSError as error:
            raise write_refusal(self._folder, error) from error

    def mapped(self, *, at_random: bool = False) -> NDArray[Scalar]:
        """Give what was written, (values,), read-only; nothing can be appended after it.

        at_random: its values are read here and there, so that the system reads no more than is asked for.
        """
        return np.frombuffer(self.mapped_bytes(at_random=at_random), dtype=self._dtype)

    def mapped_bytes(self, *, at_random: bool = False) -> mmap.mmap | bytes:
        """Give the bytes of what was written, as `mapped` does; a slice of them is `bytes`."""
        try:
            self._file.flush()
            if not self._bytes:
                return b""  # nothing cannot be mapped
            found = mmap.mmap(self._file.fileno(), self._bytes, access=mmap.ACCESS_READ)
        except OSError as error:
            raise write_refusal(self._folder, error) from error
        if at_random:
            with contextlib.suppress(AttributeError):  # a system without such advice
                found.madvise(mmap.MADV_RANDOM)
        return found


def nearest_folder(path: str | Path) -> Path:
    """Give the folder itself, or the nearest above it that is there: where what is made for it may be."""
    place = Path(path).expanduser().absolute()
    return next((folder for folder in (place, *place.parents) if folder.is_dir()), Path.cwd())


_SORTED = 2**21  # rows that are compared at a time
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: the product's high bits mix all


def first_equal(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Give for each row the first row that equals it, itself if there is none before.

    columns: (rows,) or (rows, several) of numbers that are no NaN, at least one; they may be mapped
    returns: (rows,)

    Rows are dealt out by a mix of their numbers and sorted some millions at a time, so that beside the result
    a byte a row is in memory.
    """
    flat = [column[:, at] for column in columns if column.ndim == 2 for at in range(column.shape[1])]
    flat += [column for column in columns if column.ndim == 1]
    rows = len(columns[0])
    first = np.arange(rows)
    if rows <= _SORTED:
        _first_among(flat, None, first)
        return first
    bits = min(int(rows // _SORTED).bit_length(), 8)
    part = np.empty(rows, np.uint8)
    for start in range(0, rows, _SORTED):
        block = slice(start, start + _SORTED)
        part[block] = _mixed([column[block] for column in flat]) >> np.uint64(64 - bits)
    for number in range(1 << bits):
        _first_among(flat, np.flatnonzero(part == number), first)
    return first


def _mixed(columns: list[NDArray[Any]]) -> NDArray[np.uint64]:
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        # 0.0 and -0.0 are equal
        plain = (column + 0.0).view(np.uint64) if column.dtype.kind == "f" else column.astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ plain) * _MIX
    return mixed


def _first_among(
    columns: list[NDArray[Any]], members: NDArray[np.int64] | None, first: NDArray[np.int64]
) -> None:
    """Fill in `first` for some of the rows, or for all."""
    keys = columns if members is None else [column[members] for column in columns]
    order = np.lexsort(keys)  # stable: of equal rows the first stands first
    if not len(order):
        return
    begins = np.zeros(len(order), np.bool_)
    begins[0] = True
    for key in keys:
        ordered = key[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(order))
    if members is not None:
        order = members[order]
    first[order] = np.repeat(order[starts], lengths)


def numbered(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.integer[Any]]]:
    """Number the different rows in order of their first appearance.

    columns: as `first_equal` takes them
    returns: (different rows,) where each one appears first; (rows,) the number of each row
    """
    first = first_equal(*columns)
    new = first == np.arange(len(first))
    numbers = np.cumsum(new, dtype=numbers_below(len(first)))[first]
    numbers -= 1
    return np.flatnonzero(new), numbers


def numbers_below(count: int) -> DTypeLike:
    """Name the smaller integer type that holds the numbers from 0 to `count` - 1."""
    return np.int32 if count <= np.iinfo(np.int32).max else np.int64
