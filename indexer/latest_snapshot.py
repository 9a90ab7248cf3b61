"""The newest snapshot of a collection, opened again only when something was committed."""

import threading

from nearsay.indexer.catalogue import collections
from nearsay.indexer.collection_record import CollectionRecord
from nearsay.indexer.errors import BusyError
from nearsay.indexer.snapshot import Snapshot, StaleSnapshotError, take

__all__ = ["LatestSnapshot"]

_TRIES = 3  # compactions that may go by while a snapshot is being opened


class LatestSnapshot:
    """Keeps the last snapshot of a collection; safe to share between threads."""

    def __init__(self, record: CollectionRecord) -> None:
        """Nothing is opened yet."""
        self._record = record
        self._last: Snapshot | None = None
        self._lock = threading.Lock()

    def take(self) -> Snapshot:
        """The newest snapshot; the last one again if nothing was committed since.

        BadInputError while the collection is empty; BusyError if compactions keep replacing its files.
        """
        store = self._record.store
        with self._lock:
            for _ in range(_TRIES):
                row = self._record.row()
                before = self._last
                if before is not None and before.collection == row:
                    return before
                try:
                    with store.database.reading() as connection:
                        current = collections.find(connection, self._record.name) or row
                        self._last = take(connection, store, current, before)
                except StaleSnapshotError:
                    continue
                if self._last is None:
                    raise self._record.empty()
                return self._last
        raise BusyError(
            f"collection '{self._record.name}' is being compacted again and again. Try again in a moment"
        )

    def forget(self) -> None:
        """Let go of the files of the last one."""
        with self._lock:
            self._last = None
