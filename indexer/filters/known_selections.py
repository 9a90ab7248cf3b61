"""What was worked out of filters, kept for as long as nothing is committed."""

import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.tables import collections

__all__ = ["CollectionState", "Key", "KnownSelections", "known_selections", "state_of"]

_BYTES = 64 * 2**20  # of passage numbers that are kept for a catalogue
_FILTERS = 1000


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
    """The passages that the latest filters let through, by number; safe to share between threads."""

    _kept: OrderedDict[Key, NDArray[np.int64] | None] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Key) -> tuple[bool, NDArray[np.int64] | None]:
        """Whether it is known, and what is known: the numbers, or None for too many to list."""
        with self._lock:
            if key not in self._kept:
                return False, None
            self._kept.move_to_end(key)
            return True, self._kept[key]

    def put(self, key: Key, numbers: NDArray[np.int64] | None) -> None:
        """Keep what was worked out, unless it would drive out half of the others; it must not be changed."""
        if numbers is not None and 2 * numbers.nbytes > _BYTES:
            return
        with self._lock:
            self._forget(key)
            self._kept[key] = numbers
            self._bytes += 0 if numbers is None else numbers.nbytes
            while self._kept and (self._bytes > _BYTES or len(self._kept) > _FILTERS):
                self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        numbers = self._kept.pop(key, None)
        self._bytes -= 0 if numbers is None else numbers.nbytes


_KNOWN: "weakref.WeakKeyDictionary[sa.Engine, KnownSelections]" = weakref.WeakKeyDictionary()
_KNOWN_LOCK = threading.Lock()


def known_selections(connection: sa.Connection) -> KnownSelections:
    """What is known of the catalogue that the connection is to."""
    with _KNOWN_LOCK:
        return _KNOWN.setdefault(connection.engine, KnownSelections())


def state_of(connection: sa.Connection, collection_id: int) -> CollectionState:
    """The state of a collection that the transaction sees."""
    columns = (collections.c.version, collections.c.compactions)
    found = connection.execute(sa.select(*columns).where(collections.c.id == collection_id)).one_or_none()
    return CollectionState(collection_id, *((0, 0) if found is None else found))
