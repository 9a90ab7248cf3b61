"""What was worked out of a catalogue, kept for as long as nothing is committed to its collection."""

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import collections

__all__ = ["CollectionState", "Known", "counts", "known_of", "state_of"]


class Known:
    """The latest findings, by what was asked in which state; safe to share between threads."""

    def __init__(self, most: int, most_bytes: int = sys.maxsize) -> None:
        """most, most_bytes: findings, and bytes of them in all; the last one stays whatever it takes."""
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - whatever was put
        """What was found; None if it is not known."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key, (None, 0))[0]

    def put(self, key: Hashable, found: object, nbytes: int = 0) -> None:
        """Keep what was found; what was asked longest ago gives way."""
        with self._lock:
            self._bytes += nbytes - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = found, nbytes
            while len(self._kept) > 1 and (len(self._kept) > self._most or self._bytes > self._most_bytes):
                self._bytes -= self._kept.popitem(last=False)[1][1]


_KNOWN: "weakref.WeakKeyDictionary[sa.Engine, dict[Callable[[], Any], Any]]" = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()
T = TypeVar("T")


def known_of(connection: sa.Connection, make: Callable[[], T]) -> T:
    """What `make` made for the catalogue that the connection is to, when it was first asked for."""
    with _LOCK:
        known = _KNOWN.setdefault(connection.engine, {})
        if make not in known:
            known[make] = make()
        found: T = known[make]
        return found


def counts() -> Known:
    """Counts of a catalogue: of 10,000 values each, they take some 300 MB at the very worst."""
    return Known(256)


@dataclass(frozen=True, slots=True)
class CollectionState:
    """A collection as a transaction sees it; anything that is committed to it makes another."""

    collection_id: int
    version: int  # grows with every committed change
    compactions: int  # grows when removed passages are forgotten


def state_of(connection: sa.Connection, collection_id: int) -> CollectionState:
    """The state of a collection that the transaction sees."""
    columns = (collections.c.version, collections.c.compactions)
    found = connection.execute(sa.select(*columns).where(collections.c.id == collection_id)).one_or_none()
    return CollectionState(collection_id, *((0, 0) if found is None else found))
