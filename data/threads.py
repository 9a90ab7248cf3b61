"""The number of threads to use, and locks that are free after a fork."""

import os
import threading
import weakref


def usable_threads() -> int:
    """Number of cores that this process may use, or OMP_NUM_THREADS if that is smaller."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wished)) if wished.isdecimal() and int(wished) else cores


class ThreadLock:
    """A lock for the threads of one process, used in a `with` block.

    After a fork it is free in the new process: the thread that held it exists only in the parent, so it would
    never be released.
    """

    def __init__(self) -> None:
        """Create a free lock."""
        self._lock = self._held = threading.Lock()
        _LOCKS.add(self)

    def acquire(self, *, wait: bool = True) -> bool:
        """Acquire the lock; without `wait`, only if it is free. Returns whether it was acquired."""
        lock = self._lock
        if not lock.acquire(blocking=wait):
            return False
        self._held = lock
        return True

    def release(self) -> None:
        """Release it; the thread that forked can release what it held before."""
        self._held.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def renew(self) -> None:
        """Reset it to free."""
        self._lock = threading.Lock()


_LOCKS: "weakref.WeakSet[ThreadLock]" = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
