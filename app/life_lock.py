"""A lock that lives as long as a process: taken by who starts it, handed over, and gone with it.

The lock belongs to the open file (flock), not to the process, so a child that inherits the descriptor holds
it from its first moment on, and there is no time between at which nobody does. However a process ends, the
system closes its files. A process number says less: it is given again.
https://man7.org/linux/man-pages/man2/flock.2.html
"""

import os
from pathlib import Path

from nearsay.data.errors import NearsayError


def take(path: Path) -> int | None:
    """Lock a file, which is made if need be; its descriptor, or None if another process holds it."""
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
    """Make an inherited lock this process's own, which no child of it inherits."""
    os.set_inheritable(descriptor, False)
    # On a disk where locks belong to processes (NFS) it is still the parent's for a moment.
    _lock(descriptor, wait=True, shared=False)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock; a file that is not there is free."""
    return not _is_free(path, wait=False)


def wait_until_free(path: Path) -> None:
    """Return when no process holds the lock."""
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
    """Those who only look share the lock: two that look at once do not take each other for the holder."""
    try:
        import fcntl
    except ImportError as error:
        raise NearsayError(
            "jobs in the background need Linux or macOS. Here, give the command itself in a terminal"
        ) from error
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    return True
