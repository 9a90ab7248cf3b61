"""Write-once arrays in memory-mapped files, for data that need not fit in memory."""

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
    """An append-only array on disk that can be memory-mapped once it is complete.

    The file is unnamed from the beginning, or unlinked at once on file systems without unnamed files: however
    the process ends, nothing is left, and the space is freed as soon as nothing maps it. Use it in a `with`
    block, which closes it; mappings stay valid. Raises DiskFullError or NearsayError if it cannot be written.
    """

    def __init__(self, dtype: type[Scalar], folder: Path | None = None) -> None:
        """`folder`: on whose file system the file is; None = the system's temporary folder."""
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
        """Close the file; mappings stay valid."""
        with contextlib.suppress(OSError):  # a full disk, which was told already
            self._file.close()

    def append(self, values: NDArray[Scalar] | bytes) -> None:
        """Append values."""
        data = values if isinstance(values, bytes) else np.ascontiguousarray(values, self._dtype).data
        try:
            self._bytes += self._file.write(data)
        except OSError as error:
            raise write_refusal(self._folder, error) from error

    def mapped(self, *, at_random: bool = False) -> NDArray[Scalar]:
        """Map the array, (values,), read-only; nothing can be appended afterwards.

        at_random: expect random access, so that the system does not read ahead
        """
        return np.frombuffer(self.mapped_bytes(at_random=at_random), dtype=self._dtype)

    def mapped_bytes(self, *, at_random: bool = False) -> mmap.mmap | bytes:
        """Map the array as bytes; slices of it are `bytes`."""
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
    """The folder itself, or its nearest existing parent, for temporary files."""
    place = Path(path).expanduser().absolute()
    return next((folder for folder in (place, *place.parents) if folder.is_dir()), Path.cwd())


_SORTED = 2**21  # rows that are compared at a time
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: the product's high bits mix all


def first_equal(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """For each row, the index of the first equal row, or its own if there is none before.

    columns: (rows,) or (rows, columns), at least one, without NaN; may be mapped
    returns: (rows,)

    Rows are partitioned by a hash and sorted a few million at a time, so that memory is the result plus a
    byte per row.
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
    """Fill `first` for some of the rows, or for all."""
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
    """Number the distinct rows in order of their first occurrence.

    columns: as for `first_equal`
    returns: (distinct rows,) index of the first occurrence; (rows,) the number of each row
    """
    first = first_equal(*columns)
    new = first == np.arange(len(first))
    numbers = np.cumsum(new, dtype=numbers_below(len(first)))[first]
    numbers -= 1
    return np.flatnonzero(new), numbers


def numbers_below(count: int) -> DTypeLike:
    """The smallest integer type for the numbers from 0 to `count` - 1."""
    return np.int32 if count <= np.iinfo(np.int32).max else np.int64
