"""How many threads a computation may take, and locks between them that a fork does not leave locked."""

import os
import threading
import weakref


def usable_threads() -> int:
    """The cores that this process may use, or as many as OMP_NUM_THREADS says where that is fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wished)) if wished.isdecimal() and int(wished) else cores


class ThreadLock:
    """A lock between the threads of one process, to be held in a `with` block.

    After a fork, the new process begins with none of them held: the thread that held it in the parent is not
    there to let go, and whoever asked for it would wait for ever.
    """

    def __init__(self) -> None:
        """Nobody holds it."""
        self._lock = self._held = threading.Lock()
        _LOCKS.add(self)

    def acquire(self, *, wait: bool = True) -> bool:
        """Hold the lock; without `wait`, only if nobody else does. Whether it is held."""
        lock = self._lock
        if not lock.acquire(blocking=wait):
            return False
        self._held = lock
        return True

    def release(self) -> None:
        """Let go of it; the thread that forked lets go of what it held before."""
        self._held.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def renew(self) -> None:
        """Be held by nobody."""
        self._lock = threading.Lock()


_LOCKS: "weakref.WeakSet[ThreadLock]" = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
