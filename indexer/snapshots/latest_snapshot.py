"""The newest snapshot of a collection, opened again only when something was committed."""

import threading
from collections.abc import Callable, Iterable

import sqlalchemy as sa

from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.snapshots.snapshot import Snapshot, StaleSnapshotError, take
from nearsay.indexer.vectors.errors import BusyError, UnknownCollectionError, UnknownGenerationError

__all__ = ["LatestSnapshot"]

Opener = Callable[[sa.Connection, Store, CollectionRow, Snapshot | None, GenerationRow], Snapshot | None]
_TRIES = 3  # compactions that may go by while a snapshot is being opened
_KEPT = 3  # snapshots of different generations


class LatestSnapshot:
    """Keeps the last snapshots of a collection; safe to share between threads."""

    def __init__(self, record: CollectionRecord, opener: Opener = take) -> None:
        """Nothing is opened yet; opener: what opens one, as `take` does."""
        self._record = record
        self._opener = opener
        self._last: dict[int | None, Snapshot] = {}  # by the generation's number; None: the live one
        self._lock = threading.Lock()  # of `_last`; nothing is opened while it is held
        self._opening: dict[int, threading.Lock] = {}  # held while a generation's files are opened and hashed

    def take(self, generation: int | None = None) -> Snapshot:
        """The newest snapshot; the last one again if nothing was committed since.

        What was committed before the call is in it. Who needs files that another is opening waits for them;
        nobody waits for those of another generation, nor where nothing was committed.

        generation: the number of another than the live one

        BadInputError while the collection is empty; UnknownGenerationError for a generation that is not
        there or still being built; BusyError if compactions keep replacing its files.
        """
        for _ in range(_TRIES):
            found = self._current(generation)
            if found is None:
                with self._opening_of(generation):
                    found = self._current(generation)  # opened by another meanwhile?
                    if found is None:
                        try:
                            found = self._opened(generation)
                        except StaleSnapshotError:
                            continue
            return found
        raise BusyError(
            f"collection '{self._record.name}' is being compacted again and again. Try again in a moment"
        )

    def forget(self) -> None:
        """Let go of the files of the last ones."""
        with self._lock:
            self._last.clear()

    def _current(self, generation: int | None) -> Snapshot | None:
        """The last snapshot if nothing was committed since."""
        try:
            row = self._record.row()
        except UnknownCollectionError:  # deleted: its files need not be held open any longer
            self.forget()
            raise
        with self._lock:
            last = self._last.get(generation)
            if last is None or last.collection != row:
                return None
            self._last[generation] = self._last.pop(generation)  # stands last
            return last

    def _opening_of(self, generation: int | None) -> threading.Lock:
        number = generation
        if number is None:
            number = next(
                (row.number for row in self._record.generations() if row.state is GenerationState.LIVE), 0
            )
        with self._lock:
            return self._opening.setdefault(number, threading.Lock())

    def _opened(self, generation: int | None) -> Snapshot:
        with self._lock:
            before = self._last.pop(generation, None)
            others = list(self._last.values())
        with self._record.store.database.reading() as connection:
            row = collections.find(connection, self._record.name) or self._record.row()
            found = self._taken(connection, row, generation, before, others)
        if found is None:
            raise self._record.empty()
        with self._lock:
            self._keep(generation, found)
        return found

    def _taken(
        self,
        connection: sa.Connection,
        row: CollectionRow,
        number: int | None,
        before: Snapshot | None,
        others: Iterable[Snapshot],
    ) -> Snapshot | None:
        if number is None:
            chosen = generations.live(connection, row.id)
            if chosen is None:
                return None
        else:
            chosen = _searched(generations.all_of(connection, row.id), number, row.name)
        for one in others:  # what was opened by its number may be live by now, and the reverse
            if one.generation == chosen and one.collection == row:
                return one
            if one.generation.number == chosen.number != (before and before.generation.number):
                before = one
        return self._opener(connection, self._record.store, row, before, chosen)

    def _keep(self, generation: int | None, snapshot: Snapshot) -> None:
        """The one that was asked for last stands last; of too many the oldest goes, but the live one.

        So do those of before a compaction: they hold files open that it removed.
        """
        now = snapshot.collection
        moment = now.id, now.compactions
        if any((one.collection.id, one.collection.compactions) > moment for one in self._last.values()):
            return  # another saw a compaction while this one was opened
        for number, one in list(self._last.items()):
            if (one.collection.id, one.collection.compactions) != moment:
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
