"""Threads that each run whole batches, one core each."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

__all__ = ["Workers"]

_Item = TypeVar("_Item")


class Workers:
    """As many threads as torch would divide one product among.

    Small products gain little from being divided: every one of them waits for its slowest part, and all
    processors wait while one is taken by another program. Whole batches side by side wait only at the end.
    """

    def __init__(self) -> None:
        """No thread is started before the first `run`."""
        self.count = torch.get_num_threads()
        self._pool: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[_Item], None], items: Iterable[_Item]) -> None:
        """Do the work on every item; raises what the first failing one raised."""
        if self._pool is None:
            self._pool = _single_core_threads(self.count)
        for done in [self._pool.submit(work, item) for item in items]:
            done.result()


def _single_core_threads(count: int) -> ThreadPoolExecutor:
    """Start all threads; the calling thread's and later threads' share of processors stays as it was."""
    whole = torch.get_num_threads()
    ready = Barrier(count + 1)

    def prepare() -> None:
        torch.get_num_threads()  # torch sets a new thread's number once, at its first use: have that behind
        torch.set_num_threads(1)
        ready.wait()

    pool = ThreadPoolExecutor(count, thread_name_prefix="nearsay-encoder", initializer=prepare)
    for _ in range(count):
        pool.submit(_nothing)
    ready.wait()
    torch.set_num_threads(whole)  # else threads that begin later would have one processor each
    return pool


def _nothing() -> None:
    """A task that makes the pool start one more thread."""
