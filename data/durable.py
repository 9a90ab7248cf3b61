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
    """Write `parts` after each other to `folder/<sha256><suffix>` and return that path.

    A file of that name that is whole already is kept. DiskFullError, StorageError or NearsayError on failure;
    then only what was there before is there.
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
    """Give a stream to a temporary file that takes the place of `path` when the block ends well.

    sha256: what the file has to hash to when it is read back, or NearsayError; None = it is not read back

    A link stays, and the file that it names is replaced. Its group and mode stay, its owner and access
    control list do not; where the writer may not give it that group, all but the owner may do only what both
    the group and the others might. A device or a pipe, as /dev/stdout, is written into.
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
    """Give a file the group and the mode of another; where not the group, its rights to nobody else."""
    with contextlib.suppress(OSError, AttributeError):  # a group that is not the writer's, or Windows
        os.chown(path, -1, before.st_gid)
    mode = stat.S_IMODE(before.st_mode)
    if path.stat().st_gid != before.st_gid:  # whose members are among the others now
        mode = mode & 0o700 | (mode >> 3 & mode & 0o7) * 0o11
    path.chmod(mode)


def require_new(out: Path) -> None:
    """Raise BadInputError when there is something at `out`; to be called before the work, not after."""
    if out.exists():
        raise BadInputError(f"{out} is there already and is not replaced. Name a new folder, or remove it")


def ending_of(path: Path, *known: str) -> str:
    """The file's ending, without its dot; BadInputError for one that is not known."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in known:
        raise BadInputError(
            f"the ending of '{path.name}' names no format that can be written. Give {path.stem or 'it'} "
            f"one of the endings {', '.join(f'.{each}' for each in known)}"
        )
    return ending


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes `path`, which must not be there yet, when the block ends well."""
    temporary = path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
    try:
        with _writing(path):
            make_folder(path.parent)
            for left in path.parent.glob(f"{TEMPORARY_PREFIX}*"):
                with contextlib.suppress(OSError):  # another process may remove it, too
                    if left.is_dir() and time.time() - left.stat().st_mtime > _ABANDONED:
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
    """What the system says of writing a file, as an error that names `path` and the remedy."""
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
    """What the system says of opening or reading a file, as an error that names `path` and the remedy."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    reason = getattr(error, "strerror", None) or os.strerror(number or errno.EIO)
    return StorageError(f"{path} cannot be read ({reason}). {_remedy(number)}")


@contextlib.contextmanager
def refusals_within(folder: Path) -> Iterator[None]:
    """Let what the system refuses of the folder and of what is in it be an error that says what to do."""
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
    """Make a folder, and those above it that are not there, so that they survive a loss of power."""
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
    """Make a file or folder survive a loss of power."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
