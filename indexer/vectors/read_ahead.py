"""Doing the next piece of work while the caller is busy with this one."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

Item = TypeVar("Item")


def read_ahead(items: Iterable[Item], depth: int = 2) -> Generator[Item]:
    """Yield the items in order, up to `depth` of them made ahead in a background thread.

    What making them raises comes out where the item would have come. Closing the generator ends the thread
    after the item it is at, and closes `items`.
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1, thread_name_prefix="nearsay-read-ahead") as thread:
        made = deque(thread.submit(next, source, end) for _ in range(depth + 1))  # one of them in the making
        try:
            while (item := made.popleft().result()) is not end:
                made.append(thread.submit(next, source, end))
                yield cast("Item", item)
        finally:
            for future in made:
                future.cancel()
            if hasattr(items, "close"):
                thread.submit(items.close).result()
