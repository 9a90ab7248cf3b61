"""A lock that a parent takes and its child inherits, released when the child ends.

The lock belongs to the open file (flock), not to the process, so a child that inherits the descriptor holds
it from the start, without a gap. The system closes the file however the process ends. A process id would be
less reliable, since ids are reused. https://man7.org/linux/man-pages/man2/flock.2.html
"""

import os
from pathlib import Path

from nearsay.data.errors import NearsayError


def take(path: Path) -> int | None:
    """Lock a file, creating it if needed; returns its descriptor, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        taken = _lock(descriptor, wait=False, shared=False)
    except BaseException:
        os.close(descriptor)
        raise
    if taken:
        return descriptor
    os.close(descriptor)
    return None


def keep(descriptor: int) -> None:
    """Take over an inherited lock, which children of this process do not inherit."""
    os.set_inheritable(descriptor, False)
    # On NFS, locks belong to processes, so the parent may still hold it for a moment.
    _lock(descriptor, wait=True, shared=False)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock; a missing file is free."""
    return not _is_free(path, wait=False)


def wait_until_free(path: Path) -> None:
    """Wait until no process holds the lock."""
    _is_free(path, wait=True)


def _is_free(path: Path, *, wait: bool) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return _lock(descriptor, wait=wait, shared=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool, shared: bool) -> bool:
    """Readers share the lock, so that two checks at once do not mistake each other for the holder."""
    try:
        import fcntl
    except ImportError as error:
        raise NearsayError(
            "background jobs need Linux or macOS. Here, run the command itself in a terminal"
        ) from error
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    return True
