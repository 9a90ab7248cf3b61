"""Threads that each run whole batches, one core each."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import TypeVar

import torch

logger = logging.getLogger("nearsay")

_Item = TypeVar("_Item")


class Workers:
    """A pool of as many threads as torch would use for one product; one caller at a time.

    Small products gain little from being split: each waits for its slowest part, and all cores wait while one
    is busy with another program. Processing whole batches in parallel waits only at the end.
    """

    def __init__(self) -> None:
        """No thread is started before the first `run`."""
        self._pool: ThreadPoolExecutor | None = None
        self._made_for = 0  # threads asked for when it was made; the system may have refused them

    @property
    def count(self) -> int:
        """The number of threads that torch may use now; a program can change it at any time."""
        return _allowed()

    def run(self, work: Callable[[_Item], None], items: Iterable[_Item]) -> None:
        """Process every item; raises the exception of the first one that fails.

        Runs on the calling thread, one item after another, if torch has one thread or no more can be started.
        """
        count = self.count
        if count != self._made_for:
            self.close()
            self._pool = _single_core_threads(count) if count > 1 else None
            self._made_for = count
        if self._pool is None:
            for item in items:
                work(item)
            return
        for done in [self._pool.submit(work, item) for item in items]:
            done.result()

    def close(self) -> None:
        """End the threads; a later `run` starts new ones."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool, self._made_for = None, 0


def _allowed() -> int:
    return torch.get_num_threads()


def _single_core_threads(count: int) -> ThreadPoolExecutor | None:
    """Start all threads, or none if the system refuses one.

    The calling thread's and later threads' share of processors stays as it was.
    """
    whole = torch.get_num_threads()
    ready = Barrier(count + 1)

    def prepare() -> None:
        torch.get_num_threads()  # torch sets a new thread's number once, at its first use: have that behind
        torch.set_num_threads(1)
        try:
            ready.wait()
        except BrokenBarrierError:
            return  # another thread could not be started: this one is about to be ended

    pool = ThreadPoolExecutor(count, thread_name_prefix="nearsay-encoder", initializer=prepare)
    try:
        for _ in range(count):
            pool.submit(_nothing)
        ready.wait()
    except RuntimeError as error:  # "can't start new thread", and BrokenBarrierError is one too
        ready.abort()
        pool.shutdown(cancel_futures=True)
        logger.warning("%s (%d wanted): texts are encoded on one", error, count)
        return None
    finally:
        torch.set_num_threads(whole)  # else threads that begin later would have one processor each
    return pool


def _nothing() -> None:
    """A task that makes the pool start one more thread."""
