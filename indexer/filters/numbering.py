"""Which passages a document has, for all documents of a collection, so that long lists need no join."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.number_lists import number_lists
from nearsay.indexer.catalogue.tables import collections, passages, removed_passages
from nearsay.indexer.filters.known_selections import CollectionState

__all__ = ["KnownNumberings", "Numbering", "known_numberings", "numbering", "rising"]

_BYTES = 256 * 2**20  # of numberings that are kept for a catalogue: some sixteen million passages


@dataclass(frozen=True, slots=True)
class Numbering:
    """A collection's passages by document, in one state; 16 bytes a passage."""

    state: CollectionState
    starts: NDArray[np.int64]  # by document number: where its passages begin; those of the next end them
    passages: NDArray[np.int64]  # their numbers, by document
    through: int  # the last passage number that was read
    last_removal: int  # the last removal that was read

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.starts.nbytes + self.passages.nbytes

    def passages_of(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the documents' passages, rising; documents in any order, some of them twice."""
        wanted = rising(documents)
        wanted = wanted[wanted < self.starts.size - 1]
        first = self.starts[wanted]
        counts = self.starts[wanted + 1] - first
        begin = np.repeat(first - (np.cumsum(counts) - counts), counts)
        found: NDArray[np.int64] = np.sort(self.passages[begin + np.arange(begin.size)])
        return found


def rising(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers in order, each once; lists that come from an index are so already."""
    if (numbers[1:] > numbers[:-1]).all():
        return numbers
    ordered = np.sort(numbers)
    different: NDArray[np.int64] = ordered[np.concatenate([[True], ordered[1:] > ordered[:-1]])]
    return different


@dataclass(slots=True)
class KnownNumberings:
    """The numberings of the collections that were filtered last; safe to share between threads."""

    _kept: OrderedDict[int, Numbering] = field(default_factory=OrderedDict)
    _made_by: dict[int, threading.Lock] = field(default_factory=dict)  # held while one collection is read
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, collection_id: int) -> Numbering | None:
        """The latest that is known of a collection."""
        with self._lock:
            if collection_id in self._kept:
                self._kept.move_to_end(collection_id)
            return self._kept.get(collection_id)

    def put(self, found: Numbering) -> None:
        """Keep it in place of the collection's last; those that were not asked for longest give way."""
        with self._lock:
            self._kept[found.state.collection_id] = found
            self._kept.move_to_end(found.state.collection_id)
            while sum(each.nbytes for each in self._kept.values()) > _BYTES:
                self._kept.popitem(last=False)

    def keep_only(self, there: Iterable[int]) -> None:
        """Forget the collections that are no more."""
        with self._lock:
            for gone in {*self._kept, *self._made_by} - {*there}:
                self._kept.pop(gone, None)
                self._made_by.pop(gone, None)

    def lock_of(self, collection_id: int) -> threading.Lock:
        """Held by the thread that works out the collection's numbering."""
        with self._lock:
            return self._made_by.setdefault(collection_id, threading.Lock())


_KNOWN: "weakref.WeakKeyDictionary[sa.Engine, KnownNumberings]" = weakref.WeakKeyDictionary()
_KNOWN_LOCK = threading.Lock()


def known_numberings(connection: sa.Connection) -> KnownNumberings:
    """What is known of the catalogue that the connection is to."""
    with _KNOWN_LOCK:
        return _KNOWN.setdefault(connection.engine, KnownNumberings())


def numbering(connection: sa.Connection, state: CollectionState) -> Numbering | None:
    """The collection's passages as the transaction sees them; None if a later state is known already.

    The first time all of them are read, a second for four million; then what was added and removed.
    """
    known = known_numberings(connection)
    last = known.get(state.collection_id)
    if last is not None and last.state == state:
        return last
    known.keep_only([*connection.execute(sa.select(collections.c.id)).scalars(), state.collection_id])
    with known.lock_of(state.collection_id):
        last = known.get(state.collection_id)
        if last is not None and last.state == state:
            return last
        if last is not None and last.state.version >= state.version:
            return None
        if last is None or last.state.compactions != state.compactions:
            last = Numbering(state, np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), 0, 0)
        found = _brought_up(connection, state, last)
        known.put(found)
        return found


def _brought_up(connection: sa.Connection, state: CollectionState, before: Numbering) -> Numbering:
    there = sa.select(passages.c.document, passages.c.number).where(
        passages.c.collection_id == state.collection_id, passages.c.number > before.through
    )
    removals = sa.select(removed_passages.c.passage, removed_passages.c.sequence).where(
        removed_passages.c.collection_id == state.collection_id,
        removed_passages.c.sequence > before.last_removal,
    )
    documents, numbers = number_lists(connection, there)
    removed, sequences = number_lists(connection, removals)
    through = int(numbers.max(initial=before.through))
    last_removal = int(sequences.max(initial=before.last_removal))
    old_numbers = before.passages
    old_documents = np.repeat(np.arange(before.starts.size - 1), np.diff(before.starts))
    if removed.size and old_numbers.size:
        kept = ~np.isin(old_numbers, removed)
        old_documents, old_numbers = old_documents[kept], old_numbers[kept]
    documents = np.concatenate([old_documents, documents])
    numbers = np.concatenate([old_numbers, numbers])
    if documents.size and (np.diff(documents) < 0).any():
        order = np.argsort(documents, kind="stable")
        documents, numbers = documents[order], numbers[order]
    starts = np.concatenate([[0], np.cumsum(np.bincount(documents))])
    return Numbering(state, starts, numbers, through, last_removal)
