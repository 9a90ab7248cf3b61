"""What an exploration works on: a collection, the moment it sees, and the passages under a filter."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.filters.sql import condition
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.snapshot import Snapshot
from nearsay.indexer.store import Store

__all__ = ["Explored"]


@dataclass(frozen=True, slots=True)
class Explored:
    """A collection as explorations see it."""

    name: str
    store: Store
    snapshot: Callable[[], Snapshot]  # the newest
    locked: Callable[[CollectionRow, str], AbstractContextManager[None]]  # for writing; why: "cluster"

    def points(self, snapshot: Snapshot, where: Where | None = None) -> Points:
        """The passages of a snapshot that a filter lets through, with their vectors."""
        return Points.of(snapshot, self.allowed(snapshot, where))

    def allowed(self, snapshot: Snapshot, where: Where | None) -> NDArray[np.int64] | None:
        """The rising numbers of the passages whose documents a filter lets through; None without one."""
        if where is None:
            return None
        chosen = condition(parse(where), self.store.database.dialect)
        with self.store.database.reading() as connection:
            return passages.passage_numbers(connection, snapshot.collection.id, chosen)
