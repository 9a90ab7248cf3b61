"""Durable, atomic file writes.

A file is written under a temporary name, flushed, synchronised, read back and compared, renamed, and the
folder is synchronised. FAISS's own `write_index(path)` is never used, because it writes in place and does not
notice a full disk. https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from nearsay.data.errors import BadInputError, DiskFullError, NearsayError, StorageError

TEMPORARY_PREFIX = ".writing-"
_ABANDONED = 86_400  # seconds after which the writer of a temporary folder was killed
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # what a disk without room says
_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_RIGHTS = frozenset({errno.EACCES, errno.EPERM})
_AWAY = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR, errno.ENODEV, errno.ENXIO})


def file_sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal; OSError if it cannot be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_by_hash(folder: Path, parts: Sequence[bytes | memoryview], suffix: str) -> Path:
    """Write `parts` to `folder/<sha256><suffix>` and return that path.

    An intact file of that name is kept. Raises DiskFullError, StorageError or NearsayError; then nothing has
    changed.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    path = folder / f"{digest.hexdigest()}{suffix}"
    with _writing(path):
        if path.exists() and file_sha256(path) == digest.hexdigest():
            synchronise(folder)  # who wrote it may have been killed before doing so
            return path
    with replacing(path, sha256=digest.hexdigest()) as stream:
        for part in parts:
            stream.write(part)
    return path


@contextlib.contextmanager
def replacing(path: Path, *, sha256: str | None = None) -> Iterator[BinaryIO]:
    """Yield a stream to a temporary file that replaces `path` if the block succeeds.

    sha256: expected hash of the file when it is read back, otherwise NearsayError; None = do not read it back

    If `path` is a link, the file that it points to is replaced. Group and mode are kept, owner and access
    control list are not; if the writer cannot set the group, group and others get only the permissions that
    both had. Devices and pipes, such as /dev/stdout, are written to directly.
    """
    with _writing(path):
        special = path.exists() and not (path.is_file() or path.is_dir())
        path = path.resolve() if path.is_symlink() and not special else path
    if special:
        with _writing(path), path.open("wb") as stream:
            yield stream
        return
    temporary = path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        with _writing(path):
            make_folder(path.parent)
            with temporary.open("xb") as stream:
                with contextlib.suppress(OSError):  # there was none, or the file system has no such rights
                    _keep_rights(path.stat(), temporary)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if sha256 is not None and file_sha256(temporary) != sha256:
                raise NearsayError(
                    f"{path} does not read back as it was written: check the disk, then run the command again"
                )
            temporary.replace(path)
            synchronise(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _keep_rights(before: os.stat_result, path: Path) -> None:
    """Copy group and mode of a file; if the group cannot be set, its permissions are given to nobody else."""
    with contextlib.suppress(OSError, AttributeError):  # a group that is not the writer's, or Windows
        os.chown(path, -1, before.st_gid)
    mode = stat.S_IMODE(before.st_mode)
    if path.stat().st_gid != before.st_gid:  # whose members are among the others now
        mode = mode & 0o700 | (mode >> 3 & mode & 0o7) * 0o11
    path.chmod(mode)


def require_new(out: Path) -> None:
    """Raise BadInputError if `out` exists. Call it before the work, not after."""
    if out.exists():
        raise BadInputError(f"{out} already exists and is not replaced. Name a new folder, or remove it")


def ending_of(path: Path, *known: str) -> str:
    """The file extension, without its dot; BadInputError for an unknown one."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in known:
        raise BadInputError(
            f"the ending of '{path.name}' names no format that can be written. Give {path.stem or 'it'} "
            f"one of the endings {', '.join(f'.{each}' for each in known)}"
        )
    return ending


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path`, which must not exist yet, if the block succeeds."""
    temporary = path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        with _writing(path):
            make_folder(path.parent)
            for left in path.parent.glob(f"{TEMPORARY_PREFIX}*"):
                with contextlib.suppress(OSError):  # another process may remove it, too
                    changed = max(each.stat().st_mtime for each in (left, *left.rglob("*")))
                    if left.is_dir() and time.time() - changed > _ABANDONED:
                        shutil.rmtree(left)
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
    if "\0" in str(path):
        raise BadInputError(f"{str(path)!r} holds a zero byte, which no file's name may. Name another place")
    try:
        yield
    except OSError as error:
        raise write_refusal(path, error) from error


def write_refusal(path: Path, error: OSError) -> NearsayError:
    """Convert an OSError on writing to an error that names `path` and a remedy."""
    reason = error.strerror or error
    if error.errno in FULL:
        return DiskFullError(
            f"no room left to write {path} ({reason}); nothing half-written was kept. "
            "Free some space and run the same command again"
        )
    if error.errno in _RIGHTS:
        return NearsayError(f"{path} may not be written ({reason}). Check the folder's rights")
    if error.errno == errno.EROFS:
        return StorageError(
            f"{path} may not be written ({reason}). Name another place, or make that file system writable"
        )
    if error.errno in (errno.EIO, errno.ESTALE, *_LIMITS):
        return StorageError(f"{path} cannot be written ({reason}). {_remedy(error.errno)}")
    return NearsayError(f"{path} cannot be written ({reason}). Name another place")


def read_refusal(path: Path, error: OSError | MemoryError) -> StorageError:
    """Convert an OSError on opening or reading to an error that names `path` and a remedy."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    reason = getattr(error, "strerror", None) or os.strerror(number or errno.EIO)
    return StorageError(f"{path} cannot be read ({reason}). {_remedy(number)}")


@contextlib.contextmanager
def refusals_within(folder: Path) -> Iterator[None]:
    """Convert OSErrors about the folder and its content to errors with a remedy."""
    try:
        yield
    except OSError as error:
        if not Path(str(error.filename)).is_relative_to(folder):
            raise
        refusal = write_refusal if error.errno in FULL else read_refusal
        raise refusal(Path(error.filename), error) from error


def _remedy(number: int | None) -> str:
    if number in (errno.EMFILE, errno.ENFILE):
        return "Close other programs or raise the limit (ulimit -n), then try again"
    if number == errno.ENOMEM:
        return "Free some memory, then try again"
    if number in _RIGHTS:
        return "Check the rights of the file and its folders, then try again"
    if number in _AWAY:
        return "Check that its folder is there (a share may not be mounted), then try again"
    return "Check the disk, then try again"


def make_folder(path: Path) -> None:
    """Create a folder and its parents durably, so that they survive a power loss."""
    missing = []
    place = path
    while not place.is_dir():
        missing.append(place)
        if place == place.parent:
            break
        place = place.parent
    path.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        synchronise(made.parent)


def synchronise(place: Path) -> None:
    """Flush a file or folder to disk, so that it survives a power loss."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
