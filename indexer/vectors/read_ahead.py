"""Doing the next piece of work while the caller is busy with this one."""

import queue
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["read_ahead"]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Made(Generic[Item]):
    item: Item


@dataclass(frozen=True, slots=True)
class _Ended:
    error: BaseException | None


def read_ahead(items: Iterable[Item], depth: int = 2) -> Generator[Item]:
    """Give the items in order, up to `depth` of them made ahead in a background thread.

    What making them raises comes out where the item would have come. Closing the generator ends the thread
    after the item it is at, and closes `items`.
    """
    made: queue.Queue[_Made[Item] | _Ended] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(item: _Made[Item] | _Ended) -> bool:
        while not stop.is_set():
            try:
                made.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(_Made(item)):
                    break
            put(_Ended(None))
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread and raised there
            put(_Ended(error))
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=work, name="nearsay-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            got = made.get()
            if isinstance(got, _Made):
                yield got.item
            elif got.error is not None:
                raise got.error
            else:
                return
    finally:
        stop.set()
        thread.join()
