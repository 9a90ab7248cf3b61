"""The newest snapshot of a collection, opened again only when something was committed."""

import threading

import sqlalchemy as sa

from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.collection_record import CollectionRecord
from nearsay.indexer.errors import BusyError, UnknownCollectionError, UnknownGenerationError
from nearsay.indexer.snapshot import Snapshot, StaleSnapshotError, take

__all__ = ["LatestSnapshot"]

_TRIES = 3  # compactions that may go by while a snapshot is being opened
_KEPT = 3  # snapshots of different generations


class LatestSnapshot:
    """Keeps the last snapshots of a collection; safe to share between threads."""

    def __init__(self, record: CollectionRecord) -> None:
        """Nothing is opened yet."""
        self._record = record
        self._last: dict[int | None, Snapshot] = {}  # by the generation's number; None: the live one
        self._lock = threading.Lock()

    def take(self, generation: int | None = None) -> Snapshot:
        """The newest snapshot; the last one again if nothing was committed since.

        generation: the number of another than the live one

        BadInputError while the collection is empty; UnknownGenerationError for a generation that is not
        there or still being built; BusyError if compactions keep replacing its files.
        """
        store = self._record.store
        with self._lock:
            for _ in range(_TRIES):
                try:
                    row = self._record.row()
                except UnknownCollectionError:  # deleted: its files need not be held open any longer
                    self._last.clear()
                    raise
                before = self._last.pop(generation, None)
                if before is None or before.collection != row:
                    try:
                        with store.database.reading() as connection:
                            current = collections.find(connection, self._record.name) or row
                            before = self._taken(connection, current, generation, before)
                    except StaleSnapshotError:
                        continue
                if before is None:
                    raise self._record.empty()
                self._keep(generation, before)
                return before
        raise BusyError(
            f"collection '{self._record.name}' is being compacted again and again. Try again in a moment"
        )

    def forget(self) -> None:
        """Let go of the files of the last ones."""
        with self._lock:
            self._last.clear()

    def _taken(
        self, connection: sa.Connection, row: CollectionRow, number: int | None, before: Snapshot | None
    ) -> Snapshot | None:
        if number is None:
            chosen = generations.live(connection, row.id)
            if chosen is None:
                return None
        else:
            chosen = _searched(generations.all_of(connection, row.id), number, row.name)
        for one in self._last.values():  # what was opened by its number may be live by now, and the reverse
            if one.generation == chosen and one.collection == row:
                return one
            if one.generation.number == chosen.number != (before and before.generation.number):
                before = one
        return take(connection, self._record.store, row, before, chosen)

    def _keep(self, generation: int | None, snapshot: Snapshot) -> None:
        """The one that was asked for last stands last; of too many the oldest goes, but the live one.

        So do those of before a compaction: they hold files open that it removed.
        """
        now = snapshot.collection
        for number, one in list(self._last.items()):
            if (one.collection.id, one.collection.compactions) != (now.id, now.compactions):
                del self._last[number]
        self._last[generation] = snapshot
        others = [number for number in self._last if number is not None]
        for number in others[: max(len(self._last) - _KEPT, 0)]:
            del self._last[number]


def _searched(every: list[GenerationRow], number: int, collection: str) -> GenerationRow:
    """The generation of that number, to search in; UnknownGenerationError if it is not there or not ready."""
    found = generations.numbered(every, number, collection)
    if found.state is GenerationState.BUILDING:
        raise UnknownGenerationError(
            f"generation {number} of '{collection}' is still being built. Wait until it is ready"
        )
    return found
