"""Looking through a collection's documents without a query."""

from collections.abc import Sequence

from nearsay.indexer.browsing import (
    DocumentPage,
    DocumentRow,
    PassageRow,
    count_documents,
    document_page,
    documents_by_id,
    ids_containing,
    passages_of,
)
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.collection_record import CollectionRecord
from nearsay.indexer.filters.parse import Where

__all__ = ["Browser"]


class Browser:
    """Made by `Collection.browser`; each call is one consistent look."""

    def __init__(self, record: CollectionRecord) -> None:
        """Nothing is read yet."""
        self._record = record

    def page(
        self,
        where: Where | None = None,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> DocumentPage:
        """Some documents that a filter lets through: the next after a number, the last before one, the first.

        The numbers are those of the rows that came before: `page.rows[-1].number` for the next page.
        """
        row = self._record.row()
        with self._record.store.database.reading() as connection:
            return document_page(connection, row.id, where, after=after, before=before, limit=limit)

    def count(self, where: Where | None = None, *, up_to: int | None = None) -> int:
        """How many documents a filter lets through; up_to: count no further."""
        row = self._record.row()
        with self._record.store.database.reading() as connection:
            return count_documents(connection, row.id, where, up_to)

    def by_id(self, ids: Sequence[str]) -> list[DocumentRow]:
        """The documents of these ids that are there, in this order."""
        row = self._record.row()
        with self._record.store.database.reading() as connection:
            found = documents_by_id(connection, row.id, ids)
        return [found[id_] for id_ in ids if id_ in found]

    def ids_containing(self, part: str, where: Where | None = None, limit: int = 50) -> list[DocumentRow]:
        """The documents whose ids hold a piece of text; case of A to Z is ignored."""
        row = self._record.row()
        with self._record.store.database.reading() as connection:
            return ids_containing(connection, row.id, part, where, limit)

    def waiting(self, generation: GenerationRow) -> int:
        """How many passages have no vector in a generation yet."""
        with self._record.store.database.reading() as connection:
            return generations.unembedded(connection, generation)

    def passages(self, id_: str) -> list[PassageRow]:
        """A document's passages in order."""
        row = self._record.row()
        with self._record.store.database.reading() as connection:
            return passages_of(connection, row.id, id_)
