"""The current snapshot of a collection, reopened only after a commit.

Files committed by other processes are opened in a separate thread. A search waits at most .1 s for it, and
not at all if only an index is new; then the previous snapshot is used. If opening fails, the search that
waited, or the next one, raises the error. What this process wrote is opened before the writing call returns,
so that its caller sees the result, and no search waits for it.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from nearsay.data.errors import NearsayError
from nearsay.data.threads import ThreadLock
from nearsay.indexer.catalogue import collections, generations, refinements
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.snapshots.snapshot import Snapshot, take
from nearsay.indexer.vectors.errors import BusyError, UnknownCollectionError, UnknownGenerationError
from nearsay.indexer.vectors.segment import SegmentKind

Opener = Callable[[sa.Connection, Store, CollectionRow, Snapshot | None, GenerationRow], Snapshot | None]
Found = TypeVar("Found")
_TRIES = 3  # compactions that may go by while a snapshot is being opened
_COMMITS = 5  # that may go by during one search
_KEPT = 3  # snapshots of different generations
_PATIENCE = 0.1  # seconds that searches wait for files being opened before the former snapshot serves
# The version that this process wrote last, by the library's folder and the collection's id.
_written: dict[tuple[Path, int], int] = {}
_writing = ThreadLock()  # of `_written`


@dataclass(frozen=True, slots=True)
class _Opening:
    """A snapshot that a separate thread is opening."""

    until: float  # by time.monotonic(): searches wait for it until then
    snapshot: Future[Snapshot] = field(default_factory=Future)


class LatestSnapshot:
    """Caches the latest snapshots of a collection. Thread-safe."""

    def __init__(self, record: CollectionRecord, opener: Opener = take) -> None:
        """Nothing is opened yet; opener: opens a snapshot, like `take`."""
        self._record = record
        self._opener = opener
        self._last: dict[int | None, Snapshot] = {}  # by the generation's number; None: the live one
        self._lock = ThreadLock()  # of `_last`; nothing is opened while it is held
        self._opening: dict[int, ThreadLock] = {}  # held while a generation's files are opened and hashed
        # What threads of their own are opening, or failed to open, which no search has said yet; after a fork
        # they are the parent's.
        self._begun: dict[tuple[int, int | None], _Opening] = {}

    def take(self, generation: int | None = None) -> Snapshot:
        """The current snapshot; the cached one if nothing has been committed since.

        It contains everything committed before the call. Waits for files that another thread is opening, but
        not for those of another generation, or if nothing was committed.

        generation: None = the live one

        Raises BadInputError if the collection is empty; UnknownGenerationError if the generation does not
        exist or is still being built; BusyError if compactions keep replacing its files.
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

    def serving(self, generation: int | None = None) -> Snapshot:
        """Like `take`, but the previous snapshot if another thread's opening takes longer than .1 s.

        If only an index is new, the previous one finds the same, and nobody waits. It always contains what
        this process wrote before the call.
        """
        until = time.monotonic() + _PATIENCE
        while (found := self._current(generation)) is None:
            former = self._former(generation)
            if former is None:
                return self.take(generation)
            opening = self._opened_aside(generation, former)
            done, _ = wait([opening.snapshot], max(0.0, min(until, opening.until) - time.monotonic()))
            if not done:
                return former
            try:
                opening.snapshot.result()
            except BaseException:
                self._leave(generation, opening)
                raise
        return found

    def searched(
        self, search: Callable[[Snapshot], Found], generation: int | None = None, *, newest: bool = False
    ) -> Found:
        """Run a search in the serving snapshot, and again in the newest if others saw a later commit.

        newest: start with the newest, for searches that read from the catalogue which passages exist

        Raises BusyError if the collection keeps changing; otherwise like `serving`.
        """
        current = self.take if newest else self.serving
        for _ in range(_COMMITS):
            snapshot = current(generation).for_one_search()
            with contextlib.suppress(StaleSnapshotError):  # shards searched a later commit already
                return search(snapshot)
            current = self.take  # the former one, which may be served, would be stale again
        raise BusyError(f"collection '{self._record.name}' is written again and again. Try again in a moment")

    def settle(self) -> None:
        """After a write of this process: open the result if anybody searches, and serve nothing older.

        If it cannot be opened, the next search reports it.
        """
        with self._lock:
            searched = None in self._last
        if searched:
            with contextlib.suppress(NearsayError):
                self.take()
        with contextlib.suppress(UnknownCollectionError):  # it was deleted
            row = self._record.row()
            key = self._record.store.folder, row.id
            with _writing:  # another thread may have written, and settled, since the row was read
                _written[key] = max(_written.get(key, 0), row.version)

    def _former(self, generation: int | None) -> Snapshot | None:
        """The previous snapshot, if it contains everything that this process wrote."""
        row = self._record.row()
        with self._lock:
            last = self._last.get(generation)
        if last is None or last.collection.id != row.id:  # deleted, and recreated
            return None
        least = _written.get((self._record.store.folder, row.id), 0)
        return last if last.collection.version >= least else None

    def _opened_aside(self, generation: int | None, former: Snapshot) -> _Opening:
        """The current snapshot, opened by a separate thread; one at a time."""
        key = os.getpid(), generation
        with self._lock:
            begun = self._begun.get(key)
        if begun is not None:
            return begun
        patience = 0.0 if self._only_indexed(generation, former) else _PATIENCE
        with self._lock:
            begun = self._begun.get(key)
            if begun is not None:
                return begun
            begun = self._begun[key] = _Opening(time.monotonic() + patience)

        def opening() -> None:
            try:
                found = self.take(generation)
            except BaseException as error:  # noqa: BLE001 - who waits raises it, or the next search
                begun.snapshot.set_exception(error)
            else:
                self._leave(generation, begun)  # it would keep its files open
                begun.snapshot.set_result(found)

        try:
            threading.Thread(target=opening, name=f"opening {self._record.name}", daemon=True).start()
        except RuntimeError as error:  # no thread can be had just now: the next search tries again
            begun.snapshot.set_exception(error)
        return begun

    def _leave(self, generation: int | None, opening: _Opening) -> None:
        """Finish an opening, unless another one has begun since."""
        key = os.getpid(), generation
        with self._lock:
            if self._begun.get(key) is opening:
                del self._begun[key]

    def _only_indexed(self, generation: int | None, former: Snapshot) -> bool:
        """Whether the previous snapshot lacks only indexes: no vectors, removals or refinement."""
        with self._record.store.database.reading() as connection:
            now = former.collection.id
            live = generations.live(connection, now) if generation is None else former.generation
            if live is None or live.identity != former.generation.identity:
                return False
            rows = generations.segments_of(connection, now, live.number)
            refined = refinements.live_of(connection, now, live.number, former.refinement)
            last = sa.select(sa.func.max(removed_passages.c.sequence))
            last = last.where(removed_passages.c.collection_id == now)
            removed = connection.execute(last).scalar_one() or 0
        vectors = {row.id for row in rows if row.kind is SegmentKind.VECTORS and row.count}
        indexes = {row.id for row in rows if row.kind is SegmentKind.INDEX}
        sound = all(row.state is SegmentState.CURRENT for row in rows) and refined is former.refinement
        same = sound and vectors == set(former.opened) and removed == former.removals.last
        return same and indexes != former.indexes

    def of_this_process(self) -> "LatestSnapshot":
        """What gives snapshots that this process searches, not shards: itself, or one of its own."""
        return self if self._opener is take else LatestSnapshot(self._record)

    def forget(self) -> None:
        """Close the files of the cached snapshots."""
        with self._lock:
            self._last.clear()
            self._begun.clear()

    def _current(self, generation: int | None) -> Snapshot | None:
        """The cached snapshot if nothing has been committed since."""
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

    def _opening_of(self, generation: int | None) -> ThreadLock:
        number = generation
        if number is None:
            number = next(
                (row.number for row in self._record.generations() if row.state is GenerationState.LIVE), 0
            )
        with self._lock:
            return self._opening.setdefault(number, ThreadLock())

    def _opened(self, generation: int | None) -> Snapshot:
        with self._lock:
            before = self._last.get(generation)
            others = list(self._last.values())
        with self._record.store.database.reading() as connection:
            row = collections.find(connection, self._record.name) or self._record.row()
            found = self._taken(connection, row, generation, before, others)
        if found is None:
            raise self._record.empty()
        with self._lock:
            self._keep(generation, found)
            self._begun.pop((os.getpid(), generation), None)  # what failed before is over
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
        """Make it the most recently used; drop the oldest ones if there are too many, but not the live one.

        Snapshots from before a compaction are dropped as well, because they keep deleted files open.
        """
        now = snapshot.collection
        moment = now.id, now.compactions
        if any((one.collection.id, one.collection.compactions) > moment for one in self._last.values()):
            return  # another saw a compaction while this one was opened
        for number, one in list(self._last.items()):
            if (one.collection.id, one.collection.compactions) != moment:
                del self._last[number]
        self._last.pop(generation, None)
        self._last[generation] = snapshot  # stands last
        others = [number for number in self._last if number is not None]
        for number in others[: max(len(self._last) - _KEPT, 0)]:
            del self._last[number]


def _searched(every: list[GenerationRow], number: int, collection: str) -> GenerationRow:
    """The generation of that number, to search; UnknownGenerationError if there is none, or not ready."""
    found = generations.numbered(every, number, collection)
    if found.state is GenerationState.BUILDING:
        raise UnknownGenerationError(
            f"generation {number} of '{collection}' is still being built. Wait until it is ready"
        )
    return found
