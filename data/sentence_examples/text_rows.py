"""Rows of texts in a memory-mapped file, each text by its number: what a set of any size is learned from."""

import hashlib
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self, overload

import numpy as np
from numpy.typing import NDArray

from nearsay.data.mapped import MappedArray, first_equal, numbers_below

_BLOCK: Final = 4096  # rows or texts that are decoded at a time
_PENDING_TEXTS: Final = 8192
_PENDING_BYTES: Final = 2**22
_DIGEST: Final = 16  # bytes: so many texts that two of them would share one there are not
_ENCODING: Final = ("utf-8", "surrogatepass")  # halves of characters that Python's own texts may hold


class Texts:
    """Texts by number, in a mapped file."""

    def __init__(
        self, content: mmap.mmap | bytes, bounds: NDArray[np.int64], folder: Path | None = None
    ) -> None:
        """Take what `TextWriter` wrote.

        content: UTF-8, one text after another
        bounds:  (texts + 1,) the byte where each text begins, then the number of bytes
        folder:  where the file is, and where what is made of it may be
        """
        self._content, self._bounds, self.folder = content, bounds, folder

    def __len__(self) -> int:
        """One more than the highest number of a text."""
        return len(self._bounds) - 1

    def of(self, numbers: NDArray[np.integer[Any]]) -> list[str]:
        """Return the texts of some numbers, (numbers,)."""
        content, places = self._content, np.asarray(numbers, np.int64)
        begins, ends = self._bounds[places].tolist(), self._bounds[places + 1].tolist()
        return [content[begin:end].decode(*_ENCODING) for begin, end in zip(begins, ends, strict=True)]

    def each(self, numbers: NDArray[np.integer[Any]]) -> Iterator[str]:
        """Iterate over the texts of numbers, (numbers,)."""
        for start in range(0, len(numbers), _BLOCK):
            yield from self.of(numbers[start : start + _BLOCK])


class TextWriter:
    """Writes texts to a file without a name and numbers them; as `MappedArray`, for a `with` block."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: on whose file system the file is; None = the system's folder for temporary files."""
        self._folder = folder
        self._content = MappedArray(np.uint8, folder)
        self._bounds = MappedArray(np.int64, folder)
        self._digests = MappedArray(np.uint64, folder)
        self._bounds.append(np.zeros(1, np.int64))
        self._pending: list[bytes] = []
        self._pending_bytes = self._written = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files; what was mapped stays."""
        for one in (self._content, self._bounds, self._digests):
            one.__exit__()

    def add(self, texts: Iterable[str]) -> None:
        """Write texts."""
        for text in texts:
            data = text.encode(*_ENCODING)
            self._pending.append(data)
            self._pending_bytes += len(data)
        if len(self._pending) >= _PENDING_TEXTS or self._pending_bytes >= _PENDING_BYTES:
            self._flush()

    def _flush(self) -> None:
        lengths = np.fromiter(map(len, self._pending), np.int64, len(self._pending))
        blake2b = hashlib.blake2b
        self._content.append(b"".join(self._pending))
        self._bounds.append(self._written + np.cumsum(lengths))
        self._digests.append(b"".join([blake2b(one, digest_size=_DIGEST).digest() for one in self._pending]))
        self._written += self._pending_bytes
        self._pending, self._pending_bytes = [], 0

    def finish(self) -> tuple[Texts, NDArray[np.integer[Any]]]:
        """Return what was written, and the number of each text, (texts written,); one text has one number."""
        if self._pending:
            self._flush()
        texts = Texts(self._content.mapped_bytes(), self._bounds.mapped(), self._folder)
        digests = self._digests.mapped().reshape(-1, _DIGEST // 8)
        return texts, first_equal(digests).astype(numbers_below(len(texts)), copy=False)


class TextRows(Sequence[tuple[str, ...]]):
    """The rows of a set as a sequence of tuples, whose texts stay in a mapped file until they are asked for.

    In memory are 4 bytes a text: its number, which equal texts have in common.
    """

    def __init__(self, texts: Texts, numbers: NDArray[np.integer[Any]]) -> None:
        """`numbers`: (rows, texts of a row)."""
        self.texts = texts
        self.numbers = numbers

    @classmethod
    def of(cls, rows: Iterable[tuple[str, ...]], width: int, folder: Path | None = None) -> "TextRows":
        """Write rows of `width` texts to a file; rows that are in one are given back."""
        if isinstance(rows, TextRows):
            return rows
        with TextWriter(folder) as writer:
            for row in rows:
                writer.add(row)
            texts, numbers = writer.finish()
        return cls(texts, numbers.reshape(-1, width))

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> "TextRows": ...
    def __getitem__(self, place: int | slice) -> "tuple[str, ...] | TextRows":
        """Return a row, or several without reading them."""
        if isinstance(place, slice):
            return TextRows(self.texts, self.numbers[place])
        return tuple(self.texts.of(self.numbers[place]))

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Read all rows, some thousands at a time."""
        for start in range(0, len(self), _BLOCK):
            yield from self._read(self.numbers[start : start + _BLOCK])

    def __eq__(self, other: object) -> bool:
        """Whether the other is as many rows of the same texts; a tuple or list of tuples may be."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == two for one, two in zip(self, other, strict=True))

    # It would have to be the hash of the tuples.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the first rows."""
        shown = ", ".join(map(repr, self[:3]))
        return f"TextRows({shown}{', …' if len(self) > 3 else ''} {len(self)} rows)"

    def many(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> list[tuple[str, ...]]:
        """Read rows of some numbers."""
        return self._read(self.numbers[np.asarray(rows, np.int64)])

    def take(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> "TextRows":
        """Return the rows of some numbers, in that order, without reading them."""
        return TextRows(self.texts, self.numbers[np.asarray(rows, np.int64)])

    def columns(self, chosen: Sequence[int]) -> "TextRows":
        """Return some texts of every row, in that order, without reading them."""
        return TextRows(self.texts, self.numbers[:, list(chosen)])

    def _read(self, numbers: NDArray[np.integer[Any]]) -> list[tuple[str, ...]]:
        texts = iter(self.texts.of(numbers.ravel()))
        return list(zip(*[texts] * numbers.shape[1], strict=True))
