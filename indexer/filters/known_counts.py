"""What was counted in a collection, kept for as long as nothing is committed to it."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import sqlalchemy as sa

__all__ = ["KnownCounts", "known_counts"]

_MOST = 256  # counts that are kept for a catalogue: of 10,000 values each, some 300 MB at the very worst


class KnownCounts:
    """The latest counts by what was asked, in which state; safe to share between threads."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - whatever was put
        """What was counted; None if it is not known."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: Hashable, found: object) -> None:
        """Keep what was counted; the oldest gives way."""
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)


_KNOWN: "weakref.WeakKeyDictionary[sa.Engine, KnownCounts]" = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def known_counts(connection: sa.Connection) -> KnownCounts:
    """What is known of the catalogue that the connection is to."""
    with _LOCK:
        return _KNOWN.setdefault(connection.engine, KnownCounts())
