"""Writing a file so that it is there whole or not at all.

Written to a temporary name, flushed, synchronised, read back and compared, renamed, and the folder
synchronised. FAISS's own `write_index(path)` writes in place and does not see a full disk, so nothing is ever
written by it. https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from nearsay.data.errors import DiskFullError, NearsayError

__all__ = [
    "FULL",
    "TEMPORARY_PREFIX",
    "file_sha256",
    "new_folder",
    "replacing",
    "synchronise",
    "write_by_hash",
]

TEMPORARY_PREFIX = ".writing-"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # what a disk without room says


def file_sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal; OSError if it cannot be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_by_hash(folder: Path, parts: Sequence[bytes | memoryview], suffix: str) -> Path:
    """Write `parts` after each other to `folder/<sha256><suffix>` and return that path.

    A file of that name that is whole already is kept. DiskFullError or NearsayError on failure; then only
    what was there before is there.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    path = folder / f"{digest.hexdigest()}{suffix}"
    if path.exists() and file_sha256(path) == digest.hexdigest():
        synchronise(folder)  # who wrote it may have been killed before doing so
        return path
    with replacing(path) as stream:
        for part in parts:
            stream.write(part)
    if file_sha256(path) != digest.hexdigest():
        path.unlink()
        raise NearsayError(
            f"{path} does not read back as it was written: check the disk, then run the command again"
        )
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a stream to a temporary file that takes the place of `path` when the block ends well."""
    temporary = path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        with _writing(path):
            _make_parent(path)
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
            synchronise(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes `path`, which must not be there yet, when the block ends well."""
    temporary = path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        with _writing(path):
            _make_parent(path)
            temporary.mkdir()
            yield temporary
            rights = stat.S_IMODE(temporary.stat().st_mode) & 0o666
            for place in (*temporary.rglob("*"), temporary):
                if place.is_file():
                    place.chmod(rights)  # some libraries write files that nobody else may read
                synchronise(place)
            temporary.rename(path)
            synchronise(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn what the disk says into an error that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        if error.errno in FULL:
            raise DiskFullError(
                f"no room left to write {path} ({reason}); nothing half-written was kept. "
                "Free some space and run the same command again"
            ) from error
        if isinstance(error, PermissionError):
            raise NearsayError(f"{path} may not be written ({reason}). Check the folder's rights") from error
        raise NearsayError(f"{path} cannot be written ({reason}). Name another place") from error


def _make_parent(path: Path) -> None:
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        synchronise(path.parent.parent)


def synchronise(place: Path) -> None:
    """Make a file or folder survive a loss of power."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
