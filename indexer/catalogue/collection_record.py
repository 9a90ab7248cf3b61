"""What the catalogue says of one named collection, and the errors of what is not there."""

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from nearsay.data.chunking import Chunking
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.vectors.errors import BusyError, UnknownCollectionError
from nearsay.indexer.vectors.segment import VectorDtype

__all__ = ["CollectionRecord"]


class CollectionRecord:
    """A collection by its name; every question is asked of the catalogue anew."""

    def __init__(
        self, store: Store, name: str, chunking: Chunking | None, dtype: VectorDtype | None = None
    ) -> None:
        """`chunking`: how a collection that is made is cut, and what one that is there has to be cut by.

        dtype: how the vectors of a generation that is made are stored
        """
        self.store = store
        self.name = name
        self.dtype = dtype
        self._chunking = chunking

    def row(self) -> CollectionRow:
        """The collection; UnknownCollectionError, which names those that are there, if there is none."""
        with self.store.database.reading() as connection:
            row = collections.find(connection, self.name)
            there = collections.names(connection) if row is None else []
        if row is None:
            raise UnknownCollectionError(
                f"there is no collection '{self.name}' in {self.store.folder.name}; "
                f"there are: {', '.join(there) or 'none yet'}. "
                f"Make it: nearsay documents add {self.name} FILE"
            )
        return row

    def exists(self) -> bool:
        """Whether the collection was made already."""
        with self.store.database.reading() as connection:
            return collections.find(connection, self.name) is not None

    def made(self) -> CollectionRow:
        """The collection, made if it is not there; BadInputError if it is cut otherwise than asked."""
        with self.store.database.reading() as connection:
            row = collections.find(connection, self.name)
        if row is None:
            chunking = str(self._chunking or Chunking())
            try:
                with self.store.database.writing() as connection:
                    return collections.create(connection, self.name, chunking, now())
            except IntegrityError:  # made by another process in between
                row = self.row()
        if self._chunking is not None and str(self._chunking) != row.chunking:
            raise BadInputError(
                f"collection '{self.name}' is cut by '{row.chunking}', not '{self._chunking}'. "
                "Leave --chunking away, or add to a new collection"
            )
        return row

    def require(self, connection: sa.Connection, row: CollectionRow) -> None:
        """BusyError if the collection is no longer the one that `row` told of."""
        found = collections.find(connection, self.name)
        if found is None or found.id != row.id:
            raise BusyError(f"collection '{self.name}' was removed by another process. Run the command again")

    def forget_empty(self, store: Store, row: CollectionRow) -> None:
        """Remove the collection if nothing came into it; store: as the holder of the writer lock has it."""
        with store.database.writing() as connection:
            if collections.size(connection, row.id) == (0, 0):
                collections.delete(connection, row.id)

    def generations(self) -> list[GenerationRow]:
        """The collection's generations, oldest first."""
        row = self.row()
        with self.store.database.reading() as connection:
            return generations.all_of(connection, row.id)

    def live(self) -> GenerationRow:
        """The generation that answers; BadInputError while there is none."""
        for generation in self.generations():
            if generation.state is GenerationState.LIVE:
                return generation
        raise self.empty()

    def require_live(self, generation: GenerationRow) -> None:
        """BusyError if another generation went live, or the collection was removed."""
        if self.live().number != generation.number or self.row().id != generation.collection_id:
            raise BusyError(f"'{self.name}' has another live generation now. Run the command again")

    def empty(self) -> BadInputError:
        """The error of asking a collection that nothing was added to."""
        return BadInputError(
            f"collection '{self.name}' is empty. Add to it: nearsay documents add {self.name} FILE"
        )
