"""What an exploration works on: a collection, the moment it sees, and the passages under a filter."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.filters.where import passages_where
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["Explored"]


@dataclass(frozen=True, slots=True)
class Explored:
    """A collection as explorations see it."""

    name: str
    store: Store
    snapshot: Callable[[], Snapshot]  # the newest
    # For writing; why: "cluster". It gives the store as the holder of the lock may write it.
    locked: Callable[[CollectionRow, str], AbstractContextManager[Store]]
    encoder: Callable[[GenerationRow], TextEncoder]  # that made a generation's vectors, loaded

    def points(self, snapshot: Snapshot, where: Where | None = None) -> Points:
        """The passages of a snapshot that a filter lets through, with their vectors."""
        return Points.of(snapshot, self.allowed(snapshot, where))

    def allowed(self, snapshot: Snapshot, where: Where | None) -> NDArray[np.int64] | None:
        """The rising numbers of the passages that a filter lets through; None without one."""
        if where is None:
            return None
        with self.store.database.reading() as connection:
            chosen = passages_where(connection, snapshot.collection.id, where)
            return passages.passage_numbers(connection, snapshot.collection.id, chosen)
