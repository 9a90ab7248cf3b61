"""Checks that an uploaded file's content is what its name says."""

from pathlib import PurePath
from typing import BinaryIO, Final

from nearsay.data.byte_streams import (
    BYTE_ORDER_MARKS,
    GZIP_MAGIC,
    DamagedStreamError,
    counted,
    uncompressed,
    unmarked_utf16,
)
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import Format, format_of, readable_suffixes

_UNPACKED_FACTOR: Final = 10  # a .gz may unpack to as many times the largest upload
_HEAD: Final = 64 * 2**10
_STEP: Final = 256 * 2**10
_MARKS: Final = tuple(mark for mark, _ in BYTE_ORDER_MARKS)
_CONTROLS: Final = frozenset(range(32)) - {9, 10, 11, 12, 13, 27}
_MOST_CONTROLS: Final = 0.05  # of the bytes at the beginning
_KINDS: Final = (  # https://en.wikipedia.org/wiki/List_of_file_signatures
    (b"%PDF-", "a PDF file"),
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old or encrypted Office document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"RIFF", "a sound, film or picture"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"SQLite format 3\0", "a database"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"{\\rtf", "a rich text document"),
    (GZIP_MAGIC, "gzip data"),
)
_BINARY: Final = {  # what a file is called, and what to do where it is something else
    Format.PDF: ("a PDF file", "Choose the PDF itself"),
    Format.PARQUET: ("a Parquet file", "Write it again"),
    Format.WORD: ("a Word file", "Save it as .docx without a password"),
}


def check_content(name: str, stream: BinaryIO, *, largest: int) -> None:
    """Raise BadInputError, naming the file, unless its content is of the type that its name says.

    stream:  seekable; it is left at its beginning
    largest: maximum size in bytes; a .gz may unpack to ten times as much, and only as far as `uncompressed`
             allows, so that a small file cannot fill the disk
    """
    kind = format_of(PurePath(name))
    if kind is None:
        raise BadInputError(f"{name} is of no kind that can be read. Save it as one of {readable_suffixes()}")
    size = stream.seek(0, 2)
    stream.seek(0)
    if size == 0:
        raise BadInputError(f"{name} is empty. Choose a file with text in it")
    if size > largest:
        raise BadInputError(
            f"{name} has {size / 1e6:,.0f} MB, and at most {largest / 1e6:,.0f} MB are allowed. Add the "
            "folder that it is in, or start the page with a larger --max-upload"
        )
    head = stream.read(_HEAD)
    try:
        if kind in _BINARY:
            if said := _otherwise(kind, head, stream):
                called, remedy = _BINARY[kind]
                raise BadInputError(f"{name} is called {called}, but {said}. {remedy}")
        elif head.startswith(GZIP_MAGIC) or name.lower().endswith(".gz"):
            _check_text(name, _unpacked_head(name, stream, size, largest))
        else:
            _check_text(name, head)
    finally:
        stream.seek(0)


def _otherwise(kind: Format, head: bytes, stream: BinaryIO) -> str | None:
    """What a file contains instead of the type that its name says; None if it is of that type."""
    if kind is Format.PDF:
        right = b"%PDF-" in head[:1024]  # a few bytes may come before it
    elif kind is Format.WORD:
        right = head.startswith(b"PK\x03\x04")  # Word's archive or another: seen when it is read
    else:
        right = head.startswith(b"PAR1")
        if right and (stream.seek(-4, 2) < 4 or stream.read(4) != b"PAR1"):
            return "is cut off"
    return None if right else f"is {_kind_of(head)}"


def _check_text(name: str, head: bytes) -> None:
    for mark, kind in _KINDS:
        if head.startswith(mark):
            raise BadInputError(f"{name} is {kind}, whatever it is called. Save what it says as text or PDF")
    if not head.startswith(_MARKS) and _is_binary(head) and unmarked_utf16(head) is None:
        said = "is not text" if b"\0" in head else "is hardly text"
        raise BadInputError(f"{name} {said}: it holds bytes that are not text. Save it as text in UTF-8")


def _unpacked_head(name: str, stream: BinaryIO, size: int, largest: int) -> bytes:
    """The first bytes of an unpacked .gz, after checking that it does not unpack to more than allowed."""
    stream.seek(0)
    try:
        unpacked = uncompressed(counted(stream, lambda _: None), expected=True)
        head = unpacked.read(_HEAD)
        total = len(head)
        while piece := unpacked.read(_STEP):
            total += len(piece)
            if total > _UNPACKED_FACTOR * largest:
                raise BadInputError(
                    f"{name} has {size / 1e6:,.1f} MB and unpacks to more than {total / 1e6:,.0f} MB. "
                    "Unpack it, look at it, and add its folder"
                )
    except DamagedStreamError as error:
        raise BadInputError(f"{name}: {error}. Pack it again: gzip FILE") from error
    if not head:
        raise BadInputError(f"{name} unpacks to nothing. Choose a file with text in it")
    return head


def _kind_of(head: bytes) -> str:
    for mark, kind in _KINDS:
        if head.startswith(mark):
            return kind
    if head.lstrip()[:1] == b"<":
        return "a web page"
    return "something else" if _is_binary(head) else "text"


def _is_binary(head: bytes) -> bool:
    return b"\0" in head or sum(byte in _CONTROLS for byte in head) > _MOST_CONTROLS * len(head)
