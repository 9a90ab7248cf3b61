"""Segment files: immutable, self-describing, named by the hash of their content.

A segment is a safetensors file. A vectors segment has `ids` (int64, ascending) and `vectors`, one unit-length
row an id, in float32, or in float16 or int8 with `scales` (float32, one a row: what a row is multiplied by to
have length 1 again); an index segment holds `index` (uint8: FAISS's own serialisation); a tokens segment what
an encoder's layer makes of a sample's tokens. Its header says what made it, and each array's data type. Only
files whose hash the catalogue knows are opened, and only after it was checked: deserialising a stranger's
index is a memory-safety hole in FAISS.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import file_sha256, read_refusal, write_by_hash
from nearsay.data.errors import StorageError
from nearsay.data.known_hashes import known_sha256, remember_sha256
from nearsay.indexer.vectors.errors import DamagedSegmentError

SUFFIX = ".safetensors"
METRIC = "cosine"
_DTYPES: Mapping[str, np.dtype[Any]] = {
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_CONVERTED = 512  # rows at a time: 768 KB at 384 dimensions, which stay in the processor's cache
_HALF_STEP = 0.99 * 2.0**-12  # a change of any float16 by this share is rounded away


class SegmentKind(StrEnum):
    """What a segment holds."""

    VECTORS = "vectors"
    INDEX = "index"
    TOKENS = "tokens"


class VectorDtype(StrEnum):
    """How a generation's vectors are stored; all are searched and given as float32."""

    FLOAT32 = "float32"  # as the encoder gives them
    FLOAT16 = "float16"  # half the room
    INT8 = "int8"  # a quarter: each row by its own largest value


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment file says of itself."""

    kind: SegmentKind
    fingerprint: str  # of the encoder that made the vectors
    dimension: int
    count: int  # vectors in it
    metric: str = METRIC
    format: str = "nearsay-segment-1"


@dataclass(frozen=True, slots=True)
class VectorSegment:
    """An opened vectors segment; its arrays are views of the mapped file."""

    sha256: str
    ids: NDArray[np.int64]  # (count,), ascending
    stored: NDArray[Any]  # (count, dimension) float32 of unit length, or float16 or int8
    scales: NDArray[np.float32] | None = None  # (count,) what rows of another type than float32 are times

    @property
    def vectors(self) -> NDArray[np.float32]:
        """(count, dimension) of unit length: a view of the file if it holds float32, else converted."""
        return self.rows(slice(None))

    def rows(self, some: slice) -> NDArray[np.float32]:
        """Some of the vectors (n, d): a view of the file if it holds float32, else converted."""
        stored = self.stored[some]
        if self.scales is None:
            return np.asarray(stored, dtype=np.float32)  # the same array
        converted = np.empty(stored.shape, dtype=np.float32)
        widen(stored, self.scales[some], converted)
        return converted


def narrow(
    vectors: NDArray[np.float32], dtype: VectorDtype
) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """Vectors (n, d) of unit length rounded to a type, (n, d), and each row's scale (n,); None for float32.

    float16 keeps 11 bits of each value; int8 a 255th of twice the row's largest. The scale is what gives the
    rounded row length 1 again (float16 with most of it in few dimensions: 1 ± .00025), so that products are
    cosines. What `widen` gives is rounded to the same again: a vector that is written a second time, by a
    compaction, loses nothing more.
    """
    if dtype is VectorDtype.FLOAT32:
        return vectors, None
    stored = np.empty(vectors.shape, dtype=np.int8 if dtype is VectorDtype.INT8 else np.float16)
    scales = np.empty(len(vectors), dtype=np.float32)
    for begin in range(0, len(vectors), _CONVERTED):
        part = slice(begin, begin + _CONVERTED)
        rows, into = vectors[part], stored[part]
        if dtype is VectorDtype.INT8:
            into[:] = np.rint(rows * (np.float32(127.0) / np.abs(rows).max(axis=1, keepdims=True)))
        else:
            into[:] = rows
        scales[part] = _scales(into)
    if dtype is VectorDtype.FLOAT16:  # more, which few dimensions can need, would be rounded elsewhere again
        np.clip(scales, 1.0 - _HALF_STEP, 1.0 + _HALF_STEP, out=scales)
    return stored, scales


def _scales(rounded: NDArray[Any]) -> NDArray[np.float32]:
    wide = rounded.astype(np.float32)
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", wide, wide, dtype=np.float64)
    return (1.0 / np.sqrt(squares)).astype(np.float32)


def widen(stored: NDArray[Any], scales: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the vectors of rows of float16 or int8 (n, d), times their scales (n,), into `out` (n, d).

    One rounding a value: the same row gives the same numbers wherever it is read.
    """
    for begin in range(0, len(stored), _CONVERTED):
        part = slice(begin, begin + _CONVERTED)
        rows, times, into = stored[part], scales[part, None], out[part]
        if stored.dtype != np.float16:
            np.copyto(into, rows)
            np.multiply(into, times, out=into)
            continue
        # A sixth of numpy's own time: sign, exponent and fraction moved to their places of a float32, whose
        # exponent is then too low by 112.
        bits = into.view(np.int32)
        np.copyto(bits, rows.view(np.int16))
        np.left_shift(bits, 13, out=bits)
        np.bitwise_and(bits, np.int32(-0x70000001), out=bits)
        np.multiply(into, times * np.float32(2.0**112), out=into)


def write_vectors(
    folder: Path,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32],
    fingerprint: str,
    dtype: VectorDtype = VectorDtype.FLOAT32,
) -> Path:
    """Write a vectors segment durably; its path. `ids` (n,) ascending, `vectors` (n, d) of unit length."""
    header = SegmentHeader(SegmentKind.VECTORS, fingerprint, int(vectors.shape[1]), int(ids.size))
    stored, scales = narrow(np.asarray(vectors), dtype)
    arrays: dict[str, NDArray[Any]] = {"ids": ids} | ({} if scales is None else {"scales": scales})
    arrays["vectors"] = stored
    return write_segment(folder, arrays, header)


def write_index(folder: Path, index: NDArray[np.uint8], count: int, dimension: int, fingerprint: str) -> Path:
    """Write FAISS's serialisation of an index over `count` vectors durably and return its path."""
    header = SegmentHeader(SegmentKind.INDEX, fingerprint, dimension, count)
    return write_segment(folder, {"index": index}, header)


def write_segment(folder: Path, arrays: Mapping[str, NDArray[Any]], header: SegmentHeader) -> Path:
    """Write a segment of any kind durably; its path.

    Its hash was read back: whoever opens the file next need not read it through for it.
    """
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    path = write_by_hash(folder, _parts(whole, header), SUFFIX)
    remember_sha256(path, path.stem)
    return path


def open_tokens(path: Path, sha256: str, expected: SegmentHeader) -> dict[str, NDArray[Any]]:
    """The arrays of a tokens segment, mapped, after the same checks as `open_vectors` makes."""
    return _open(path, sha256, expected, seen=True)


def open_vectors(
    path: Path, sha256: str, expected: SegmentHeader, *, seen: bool = False, unread: bool = False
) -> VectorSegment:
    """Map a vectors segment after checking its hash, count, dimension, metric and encoder.

    seen:   a file that this machine has hashed before, and that is unchanged since, is not read through again
    unread: no file is: others check what they answer from

    DamagedSegmentError names the file and what does not agree, or that its folder lacks it. StorageError: it
    cannot be opened or read just now, which says nothing of what it holds.
    """
    arrays = _open(path, sha256, expected, seen=seen, unread=unread)
    ids, vectors = arrays["ids"], arrays["vectors"]
    scales = arrays.get("scales")
    fit = ids.shape == (expected.count,) and vectors.shape == (expected.count, expected.dimension)
    if vectors.dtype == np.float32:
        fit = fit and scales is None
    else:
        fit = fit and scales is not None and scales.shape == ids.shape and scales.dtype == np.float32
        fit = fit and vectors.dtype in (np.float16, np.int8)
    if not fit:
        described = ", ".join(f"{name} {array.shape} of {array.dtype}" for name, array in arrays.items())
        raise DamagedSegmentError(f"segment {path.name}: its arrays do not fit its header ({described})")
    # Plain arrays over the same memory: numpy runs Python code for each view of a memmap.
    return VectorSegment(sha256, ids, np.asarray(vectors), None if scales is None else np.asarray(scales))


def open_index_bytes(
    path: Path, sha256: str, expected: SegmentHeader, *, seen: bool = False, unread: bool = False
) -> NDArray[np.uint8]:
    """The serialised index in an index segment, mapped, after the same checks."""
    return _open(path, sha256, expected, seen=seen, unread=unread)["index"]


def _open(
    path: Path, sha256: str, expected: SegmentHeader, *, seen: bool, unread: bool = False
) -> dict[str, NDArray[Any]]:
    try:
        found = sha256 if unread else known_sha256(path) if seen else file_sha256(path)
        described, arrays = _map(path) if found == sha256 else ({}, {})
    except (FileNotFoundError, IsADirectoryError) as error:
        if not os.path.isdir(path.parent):  # noqa: PTH112 - Path.is_dir() raises where a share is away
            raise StorageError(
                f"segment {path.name} cannot be read: its folder {path.parent} does not exist. Restore it "
                "(a share may not be mounted), then try again; if it is lost, create it empty and "
                "rebuild the collection: nearsay index rebuild"
            ) from error
        if isinstance(error, IsADirectoryError):
            raise DamagedSegmentError(f"segment {path.name} is a folder, not a file") from error
        raise DamagedSegmentError(f"segment {path.name} is missing from {path.parent}") from None
    except (OSError, MemoryError) as error:
        raise read_refusal(path, error) from error
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedSegmentError(f"segment {path.name} is no segment file ({error})") from error
    if found != sha256:
        raise DamagedSegmentError(f"segment {path.name} is damaged: its content hashes to {found[:12]}…")
    wanted = _metadata(expected)
    wrong = [
        f"{key} is {described.get(key)}, not {value}"
        for key, value in wanted.items()
        if described.get(key) != value
    ]
    if wrong:
        raise DamagedSegmentError(f"segment {path.name} is not the catalogue's: {'; '.join(wrong)}")
    return arrays


def _parts(arrays: Mapping[str, NDArray[Any]], header: SegmentHeader) -> list[bytes | memoryview]:
    """The file in the order of its bytes; the same arrays give the same bytes.

    safetensors' own writer orders the metadata by chance, so that one content would have many hashes.
    """
    entries: dict[str, Any] = {"__metadata__": _metadata(header)}
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        entries[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
        begin = end
    described = json.dumps(entries).encode()
    described += b" " * (-len(described) % 8)
    data = [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    return [len(described).to_bytes(8, "little"), described, *data]


def _map(path: Path) -> tuple[Mapping[str, str], dict[str, NDArray[Any]]]:
    # safetensors' own reader copies; the layout is 8 bytes of length, a JSON header, then the arrays.
    # https://github.com/huggingface/safetensors#format
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    length = int.from_bytes(mapped[:8].tobytes(), "little")
    header = json.loads(mapped[8 : 8 + length].tobytes())
    described = header.pop("__metadata__", {})
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = mapped[8 + length + begin : 8 + length + end]
        arrays[name] = data.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return described, arrays


def _metadata(header: SegmentHeader) -> dict[str, str]:
    return {key: str(value) for key, value in asdict(header).items()}
