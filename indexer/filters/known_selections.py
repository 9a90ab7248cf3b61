"""What was worked out of filters, kept for as long as nothing is committed."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.tables import collections
from nearsay.indexer.snapshots.snapshot import Passages

__all__ = [
    "CollectionState",
    "Key",
    "by_number",
    "known_counts",
    "known_selections",
    "state_of",
]


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


_COUNTS_OF: "weakref.WeakKeyDictionary[sa.Engine, KnownCounts]" = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def known_counts(connection: sa.Connection) -> KnownCounts:
    """What is known of the catalogue that the connection is to."""
    with _LOCK:
        return _COUNTS_OF.setdefault(connection.engine, KnownCounts())


_BYTES = 64 * 2**20  # of passage numbers that are kept for a catalogue
_FILTERS = 1000


def by_number(found: Passages) -> TypeGuard[NDArray[np.bool_]]:
    """Whether it says of each passage number whether it passes, rather than which pass."""
    return found.dtype == np.bool_


@dataclass(frozen=True, slots=True)
class CollectionState:
    """A collection as a transaction sees it; anything that is committed to it makes another."""

    collection_id: int
    version: int  # grows with every committed change
    compactions: int  # grows when removed passages are forgotten


@dataclass(frozen=True, slots=True)
class Key:
    """A filter in one state of a collection."""

    state: CollectionState
    filter: str  # tells true from 1, so not the expression itself


@dataclass(slots=True)
class KnownSelections:
    """The passages that the latest filters let through; safe to share between threads.

    Few are kept as rising numbers, many as a bit for each passage.
    """

    _kept: OrderedDict[Key, tuple[NDArray[Any] | None, int]] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Key) -> tuple[bool, Passages | None]:
        """Whether it is known, and what is known: numbers, which pass, or None for too many to list."""
        with self._lock:
            if key not in self._kept:
                return False, None
            self._kept.move_to_end(key)
            kept, size = self._kept[key]
        if kept is not None and kept.dtype == np.uint8:
            return True, np.unpackbits(kept, count=size).view(np.bool_)
        return True, kept

    def put(self, key: Key, found: Passages | None) -> None:
        """Keep what was worked out, unless it would drive out half of the others; it must not be changed.

        found: rising numbers, or bool by passage number; None for too many to list
        """
        kept = np.packbits(found) if found is not None and by_number(found) else found
        if kept is not None and 2 * kept.nbytes > _BYTES:
            return
        with self._lock:
            self._forget(key)
            self._kept[key] = kept, 0 if found is None else found.size
            self._bytes += 0 if kept is None else kept.nbytes
            while self._kept and (self._bytes > _BYTES or len(self._kept) > _FILTERS):
                self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        kept, _ = self._kept.pop(key, (None, 0))
        self._bytes -= 0 if kept is None else kept.nbytes


_SELECTIONS_OF: "weakref.WeakKeyDictionary[sa.Engine, KnownSelections]" = weakref.WeakKeyDictionary()
_KNOWN_LOCK = threading.Lock()


def known_selections(connection: sa.Connection) -> KnownSelections:
    """What is known of the catalogue that the connection is to."""
    with _KNOWN_LOCK:
        return _SELECTIONS_OF.setdefault(connection.engine, KnownSelections())


def state_of(connection: sa.Connection, collection_id: int) -> CollectionState:
    """The state of a collection that the transaction sees."""
    columns = (collections.c.version, collections.c.compactions)
    found = connection.execute(sa.select(*columns).where(collections.c.id == collection_id)).one_or_none()
    return CollectionState(collection_id, *((0, 0) if found is None else found))
