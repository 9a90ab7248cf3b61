"""Files that were uploaded: whether each is what its name says, told by its bytes, and where it is kept."""

import hashlib
import re
import secrets
import shutil
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO, Final

from nearsay.app.runs import Run, RunState
from nearsay.data.durable import TEMPORARY_PREFIX, replacing
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.read_options import Format, format_of, readable_suffixes

__all__ = ["UPLOAD_TYPES", "TrainingFiles", "Upload", "Uploads", "check_content", "safe_name"]


_UNUSED_SECONDS: Final = 24 * 3600  # after which files that nobody indexed are removed
_FAILED_SECONDS: Final = 14 * 24 * 3600  # those of a run that failed or was stopped: it can be resumed
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_LONGEST: Final = 120  # characters of a name
_BLOCK: Final = 2**20


@dataclass(frozen=True, slots=True)
class Upload:
    """One file as the browser sent it."""

    name: str  # as the visitor's machine calls it: not to be trusted
    content: BinaryIO


class Uploads:
    """`LIBRARY/uploads`, with a folder for each time that somebody uploaded."""

    def __init__(self, library: Path) -> None:
        """Nothing is made yet."""
        self.folder = library / "uploads"

    def keep(self, files: Sequence[Upload]) -> Path:
        """Write the files to a folder of their own, each whole or not at all; the folder.

        DiskFullError, NearsayError if they cannot be written: then none is kept.
        """
        place = self.folder / secrets.token_hex(8)
        try:
            taken: set[str] = set()
            for file in files:
                name = _free(safe_name(file.name), taken)
                taken.add(name.casefold())
                file.content.seek(0)
                with replacing(place / name) as stream:
                    shutil.copyfileobj(file.content, stream, _BLOCK)
        except NearsayError:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return place

    def remove(self, place: Path) -> None:
        """Remove one of the folders; anything else is left alone."""
        if place.parent == self.folder and _TOKEN.fullmatch(place.name):
            shutil.rmtree(place, ignore_errors=True)

    def clear(self, runs: Iterable[Run], now: float | None = None) -> int:
        """Remove what was indexed, and what was forgotten; how many folders.

        runs: every run of the library. Those that failed or were stopped keep their files for two weeks, so
              that they can be resumed; files that no run was started for stay a day.
        """
        if not self.folder.is_dir():
            return 0
        moment = time.time() if now is None else now
        using: dict[str, list[RunState]] = {}
        for run in runs:
            for argument in run.arguments:
                path = Path(argument)
                if path.parent == self.folder:
                    using.setdefault(path.name, []).append(run.state)
        removed = 0
        for place in self.folder.iterdir():
            if _TOKEN.fullmatch(place.name) and _is_over(place, using.get(place.name, []), moment):
                self.remove(place)
                removed += 1
        return removed


def safe_name(name: str) -> str:
    """A file's name without its folders and without anything that a path could be made of; its suffix stays.

    Files without an id of their own are known by it, so the same name always gives the same.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    kept = "".join(each if each.isprintable() and each not in '<>:"|?*' else "_" for each in last)
    kept = kept.strip().lstrip(".-").strip()  # hidden files are passed over, and '-' begins an option
    suffixes = "".join(Path(kept).suffixes[-2:]) if kept.lower().endswith(".gz") else Path(kept).suffix
    stem = kept[: len(kept) - len(suffixes)] if suffixes else kept
    while len(stem) > 1 and len((stem + suffixes).encode()) > _LONGEST:
        stem = stem[:-1]
    return (stem or "file") + suffixes


def _free(name: str, taken: set[str]) -> str:
    stem, dot, suffix = name.partition(".")
    count, found = 2, name
    while found.casefold() in taken:
        found = f"{stem}-{count}{dot}{suffix}"
        count += 1
    return found


def _is_over(place: Path, states: Sequence[RunState], now: float) -> bool:
    if any(not state.ended for state in states):
        return False
    if RunState.DONE in states:
        return True
    try:
        age = now - place.stat().st_mtime
    except FileNotFoundError:  # another visit cleared it
        return False
    return age > (_FAILED_SECONDS if states else _UNUSED_SECONDS)


# What the chooser of files offers; the server's own check is by content.
UPLOAD_TYPES: Final = (
    *("txt", "log", "md", "markdown", "html", "htm", "pdf", "docx"),
    *("csv", "tsv", "jsonl", "ndjson", "json", "parquet", "gz"),
)
UNPACKED_FACTOR: Final = 10  # a .gz may unpack to as many times the largest upload
_RATIO: Final = 150  # and to as many times its own size: text packs to a third or a tenth
_FREE: Final = 16 * 2**20  # bytes that any .gz may unpack to, whatever its ratio
_HEAD: Final = 64 * 2**10
_STEP: Final = 256 * 2**10
_GZIP: Final = b"\x1f\x8b"
_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-8, UTF-16, UTF-32
_CONTROLS: Final = frozenset(range(32)) - {9, 10, 11, 12, 13, 27}
_MOST_CONTROLS: Final = 0.05  # of the bytes at the beginning
_KINDS: Final = (  # https://en.wikipedia.org/wiki/List_of_file_signatures
    (b"%PDF-", "a PDF file"),
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
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
)


def check_content(name: str, stream: BinaryIO, *, largest: int) -> None:
    """BadInputError, in a sentence that names the file, unless its bytes are what its name says.

    stream:  can be sought; it is left at its beginning
    largest: bytes that a file may have; a .gz may unpack to UNPACKED_FACTOR times as many, and to 150 times
             its own size, so that a small one cannot fill the disk
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
            f"{name} has {size / 1e6:,.0f} MB, and {largest / 1e6:,.0f} MB are taken. Add the folder that it "
            "is in, or start the page with a larger --max-upload"
        )
    head = stream.read(_HEAD)
    try:
        if kind is Format.PDF:
            _check_pdf(name, head)
        elif kind is Format.PARQUET:
            _check_parquet(name, head, stream)
        elif kind is Format.WORD:
            _check_word(name, head)
        elif head.startswith(_GZIP) or name.lower().endswith(".gz"):
            _check_text(name, _unpacked_head(name, stream, size, largest))
        else:
            _check_text(name, head)
    finally:
        stream.seek(0)


def _check_pdf(name: str, head: bytes) -> None:
    if b"%PDF-" not in head[:1024]:  # a few bytes may come before it
        raise BadInputError(f"{name} is called a PDF file, but is {_kind_of(head)}. Choose the PDF itself")


def _check_parquet(name: str, head: bytes, stream: BinaryIO) -> None:
    stream.seek(-4, 2)
    if not head.startswith(b"PAR1") or stream.read(4) != b"PAR1":
        said = "is cut off" if head.startswith(b"PAR1") else f"is {_kind_of(head)}"
        raise BadInputError(f"{name} is called a Parquet file, but {said}. Write it again")


def _check_word(name: str, head: bytes) -> None:
    if not head.startswith(b"PK\x03\x04"):  # whether it is Word's archive or another is seen when it is read
        said = "an old or encrypted Office document" if head.startswith(b"\xd0\xcf") else _kind_of(head)
        raise BadInputError(
            f"{name} is called a Word file, but is {said}. Save it as .docx without a password"
        )


def _check_text(name: str, head: bytes) -> None:
    for mark, kind in _KINDS:
        if head.startswith(mark):
            raise BadInputError(f"{name} is {kind}, whatever it is called. Save what it says as text or PDF")
    if head.startswith(_MARKS):
        return
    if _is_binary(head):
        said = "is not text" if b"\0" in head else "is hardly text"
        raise BadInputError(
            f"{name} {said}: it holds bytes that stand for no letter. Save it as text in UTF-8"
        )


def _unpacked_head(name: str, stream: BinaryIO, size: int, largest: int) -> bytes:
    """The first bytes of what a .gz unpacks to, once all of it was seen to unpack to no more than it may."""
    stream.seek(0)
    if stream.read(2) != _GZIP:
        raise BadInputError(f"{name} is called .gz, but is not gzip data. Pack it again: gzip FILE")
    stream.seek(0)
    head, total, read = b"", 0, 0
    unpacking = zlib.decompressobj(wbits=31)
    try:
        while packed := stream.read(_STEP):
            read += len(packed)
            while packed:
                piece = unpacking.decompress(packed, 4 * _STEP)
                head += piece[: _HEAD - len(head)] if len(head) < _HEAD else b""
                total += len(piece)
                if total > UNPACKED_FACTOR * largest or total > _FREE + _RATIO * read:
                    raise BadInputError(
                        f"{name} has {size / 1e6:,.1f} MB and unpacks to more than {total / 1e6:,.0f} MB. "
                        "Unpack it, look at it, and add its folder"
                    )
                packed = unpacking.unconsumed_tail
                if unpacking.eof:  # another member may follow
                    packed, unpacking = unpacking.unused_data, zlib.decompressobj(wbits=31)
                    packed = packed.lstrip(b"\0")
    except zlib.error as error:
        raise BadInputError(f"{name} is damaged gzip data ({error}). Pack it again: gzip FILE") from error
    if not head:
        raise BadInputError(f"{name} unpacks to nothing. Choose a file with text in it")
    return head


def _kind_of(head: bytes) -> str:
    for mark, kind in _KINDS:
        if head.startswith(mark):
            return kind
    if head.startswith(_GZIP):
        return "gzip data"
    if head.lstrip()[:1] == b"<":
        return "a web page"
    return "something else" if _is_binary(head) else "text"


def _is_binary(head: bytes) -> bool:
    return b"\0" in head or sum(byte in _CONTROLS for byte in head) > _MOST_CONTROLS * len(head)


# Files to learn from that were uploaded, or written out of judgements: they stay until they are removed.
#
# A training that is resumed, or made again with other settings, needs them still.


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """One of them."""

    name: str
    path: Path
    size: int  # bytes


class TrainingFiles:
    """`LIBRARY/uploads/training`, a folder for each different content."""

    def __init__(self, library: Path) -> None:
        """Nothing is made yet."""
        self.folder = library / "uploads" / "training"

    def keep(self, name: str, content: BinaryIO) -> Path:
        """Write a file, unless the same is there already; its place.

        name: as the visitor's machine calls it, not to be trusted. DiskFullError, NearsayError if it cannot
        be written: then nothing is.
        """
        content.seek(0)
        digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
        path = self.folder / digest[:16] / safe_name(name)
        if not path.is_file():
            content.seek(0)
            with replacing(path) as stream:
                shutil.copyfileobj(content, stream, _BLOCK)
        return path

    def written(self, name: str, write: Callable[[Path], object]) -> Path:
        """Let `write` make a file or folder of its own; its place, the same for the same content."""
        begun = self.folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(4)}"
        begun.mkdir(parents=True)
        try:
            write(begun / name)
            place = self.folder / _digest(begun)
            if not place.exists():
                begun.rename(place)
        finally:
            shutil.rmtree(begun, ignore_errors=True)
        return place / name

    def list(self) -> list[TrainingFile]:
        """The files, the newest first."""
        files = (
            file
            for place in (self.folder.iterdir() if self.folder.is_dir() else ())
            if place.is_dir() and not place.name.startswith(TEMPORARY_PREFIX)
            for file in place.iterdir()
            if file.is_file() and not file.name.startswith(TEMPORARY_PREFIX)
        )
        newest = sorted(files, key=lambda file: (file.stat().st_mtime, file.name), reverse=True)
        return [TrainingFile(file.name, file, file.stat().st_size) for file in newest]

    def remove(self, path: Path) -> None:
        """Remove one; BadInputError for what is none of them."""
        if path.parent.parent != self.folder:
            raise BadInputError(f"{path} was not uploaded here. Remove it where it is")
        shutil.rmtree(path.parent, ignore_errors=True)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
